"""A scene's robot as a recording sees it: features, observations, actions, and time that passes in ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rolltape.errors import ClosedError, UsageError
from rolltape.sim.camera import CameraView, Renderer
from rolltape.sim.controls import StateKind
from rolltape.sim.scene import OnReset, Scene

__all__ = ["MujocoRobot"]

_STATE, _ACTION, _IMAGES = "observation.state", "action", "observation.images."


class MujocoRobot:
    """A MuJoCo scene with its cameras, driven tick by tick.

    The order of one tick k, at the simulated time t_k = k / fps: `observe` reads the state and draws all cameras at
    t_k; `act` sets the action, which holds from t_k on; `advance` lets 1 / fps pass. So what a row holds of state,
    pictures and action belongs to one time, and the first picture after a reset is of the new episode.

    Args:
        scene: A scene, an MJCF file, or None for the shipped tabletop.
        fps: Ticks a second; the scene's default when left out. A tick must be a whole number of physics steps.
        cameras: The views by name; all named cameras of the scene at 320x240 when left out. An empty mapping means
            none.
        seed: The recording's seed; with the episode's number it decides where objects lie.
        success: Called at the end of an episode to judge it; the scene's own lift rules when left out.
        shadows: Whether pictures have shadows (slow in software rendering).
        samples: Samples a pixel, against jagged edges (slow in software rendering); 0 for none.
        timestep, keyframe, state, on_reset: As for `Scene`; only where `scene` is not one already.

    Example:
        >>> robot = MujocoRobot(fps=25, cameras={})
        >>> robot.reset(episode=0)
        >>> observation = robot.observe()
        >>> observation["observation.state"].shape, observation["observation.state"].dtype
        ((7,), dtype('float32'))
        >>> sent = robot.act(observation["observation.state"])
        >>> robot.advance()
    """

    name = "mujoco"
    simulated = True

    def __init__(
        self,
        scene: Scene | str | Path | None = None,
        *,
        fps: float | None = None,
        cameras: Mapping[str, CameraView] | None = None,
        seed: int = 0,
        success: Callable[[Scene], bool] | None = None,
        shadows: bool = False,
        samples: int = 0,
        timestep: float | None = None,
        keyframe: str | None = None,
        state: StateKind = "actuators",
        on_reset: Iterable[OnReset] = (),
    ) -> None:
        if not isinstance(scene, Scene):
            scene = Scene(scene, timestep=timestep, keyframe=keyframe, state=state, on_reset=on_reset)
        self.scene = scene
        self.fps: float = scene.default_fps() if fps is None else fps
        self.steps = scene.steps_per_tick(self.fps)
        self.seed = seed
        self.views = {name: CameraView() for name in scene.camera_names} if cameras is None else dict(cameras)
        self._success = success
        self._renderer: Renderer | None = Renderer(scene, self.views, shadows=shadows, samples=samples)
        self._streaks = [0] * len(scene.lifts)

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """The features of a row, as `Writer.create` takes them; cameras as `video`."""
        controls = self.scene.controls
        features: dict[str, dict[str, Any]] = {
            _STATE: {"dtype": "float32", "shape": (len(controls.state_names),), "names": list(controls.state_names)},
            _ACTION: {"dtype": "float32", "shape": (len(controls.action_names),), "names": list(controls.action_names)},
        }
        for name, view in self.views.items():
            names = ["height", "width", "channels"]
            if view.rgb:
                features[_IMAGES + name] = {"dtype": "video", "shape": (view.height, view.width, 3), "names": names}
            if view.depth:
                features[f"{_IMAGES}{name}_depth"] = {
                    "dtype": "video",
                    "shape": (view.height, view.width, 1),
                    "names": names,
                    "info": {"is_depth_map": True},
                }
        return features

    @property
    def judged(self) -> bool:
        """Whether anything tells a success from a failure here."""
        return self._success is not None or bool(self.scene.lifts)

    def reset(self, episode: int = 0, attempt: int = 0) -> None:
        """Put the scene at the start of an episode; the same seed, episode and attempt give the same start."""
        self.scene.reset(self.seed, episode, attempt)
        self._streaks = [0] * len(self.scene.lifts)

    def observe(self) -> dict[str, np.ndarray]:
        """Return the state, then all pictures, of the present simulated time.

        Returns:
            `observation.state` as float32 [n]; for each view `observation.images.NAME` as uint8 [height, width, 3]
            and, where it takes depth, `observation.images.NAME_depth` as uint16 [height, width, 1] in millimetres (0:
            nothing, or beyond 65.5 m).

        Raises:
            ClosedError: The robot was closed.
        """
        if self._renderer is None:
            raise ClosedError("The robot is closed.", fix="Make a new MujocoRobot.")
        observation = {_STATE: self.scene.state()}
        for name, view in self.views.items():
            colour, depth = self._renderer.draw(name)
            if view.rgb:
                observation[_IMAGES + name] = colour
            if depth is not None:
                millimetres = np.rint(depth.astype(np.float64) * 1000.0)
                observation[f"{_IMAGES}{name}_depth"] = np.where(millimetres <= 65535, millimetres, 0).astype(np.uint16)
        return observation

    def act(self, action: Any) -> np.ndarray:
        """Set the action, which holds until the next one.

        Args:
            action: One finite number per actuator.

        Returns:
            What was set: float32 [actuators], exactly what MuJoCo's `ctrl` now holds.

        Raises:
            UsageError: The action has another size or numbers that are none.
        """
        sent = np.asarray(action, dtype=np.float32).reshape(-1)
        names = self.scene.controls.action_names
        if sent.shape != (len(names),):
            raise UsageError(
                "An action has the wrong size.", expected=f"{len(names)} numbers ({', '.join(names)})", found=sent.size
            )
        if not np.isfinite(sent).all():
            raise UsageError(
                "An action holds numbers that are none.",
                found=", ".join(f"{name} = {value}" for name, value in zip(names, sent) if not math.isfinite(value)),
            )
        self.scene.apply(sent)
        return sent

    def advance(self) -> None:
        """Let one tick of simulated time pass."""
        self.scene.advance(self.steps)
        self._streaks = [streak + 1 if up else 0 for streak, up in zip(self._streaks, self.scene.lifted())]

    def success(self) -> bool | None:
        """Judge the episode so far: True, False, or None where the scene has no rule and none was given."""
        if self._success is not None:
            return bool(self._success(self.scene))
        if not self.scene.lifts:
            return None
        return all(
            streak >= max(1, math.ceil(rule.seconds * float(self.fps) - 1e-9))
            for streak, rule in zip(self._streaks, self.scene.lifts)
        )

    def close(self) -> None:
        """Free the renderer. A second call does nothing."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def __enter__(self) -> MujocoRobot:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
