"""A MuJoCo scene: any MJCF file, its clock and its resets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from rolltape.errors import FormatError, RecordError, UsageError
from rolltape.sim.controls import Controls, StateKind, read_controls
from rolltape.sim.gl import load_mujoco
from rolltape.sim.rules import Lift, read_lifts, read_placements

__all__ = ["OnReset", "Scene", "tabletop_path"]

OnReset = Callable[["Scene", np.random.Generator], None]
"""Called in every reset, after the scene's own placements. The generator is a function of (seed, episode, attempt)."""


def tabletop_path() -> Path:
    """Return the scene that is shipped: a six-joint arm with a gripper, a cube, a front and a wrist camera."""
    return Path(str(resources.files("rolltape.sim") / "assets" / "tabletop.xml"))


class Scene:
    """A compiled MJCF file and its simulation state.

    Between two ticks the simulator makes a whole number of physics steps, so the time of tick k is k / fps exactly,
    whatever the machine does. After `reset` and `advance` all that MuJoCo derives from the positions (bodies,
    cameras, contacts) is of the present time: what is read and what is rendered there belong together.

    Args:
        path: An MJCF file, or MuJoCo's compiled `.mjb`; the shipped tabletop when left out.
        timestep: Seconds in one physics step; the file's when left out.
        keyframe: The name of the keyframe to start from; `home`, else the first one, else the file's reference pose.
        state: What a state holds: `actuators` (a position per actuator) or `joints` (all hinges and slides of the
            robot).
        on_reset: Called in every reset, in this order.

    Raises:
        UsageError: There is no such file.
        FormatError: MuJoCo cannot compile it, or it has no actuator.
        MissingExtraError: MuJoCo is not installed.

    Example:
        >>> scene = Scene()
        >>> scene.reset(seed=1, episode=0)
        >>> scene.advance(scene.steps_per_tick(25))
        >>> round(scene.time, 6)
        0.04
        >>> scene.controls.action_names[0]
        'shoulder_pan.pos'
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        timestep: float | None = None,
        keyframe: str | None = None,
        state: StateKind = "actuators",
        on_reset: Iterable[OnReset] = (),
    ) -> None:
        self.mujoco = load_mujoco()
        self.path = tabletop_path() if path is None else Path(path).expanduser()
        self.model = _compile(self.mujoco, self.path)
        if timestep is not None:
            if not (math.isfinite(timestep) and timestep > 0):
                raise UsageError("The physics step is not a time.", expected="seconds above 0", found=timestep)
            self.model.opt.timestep = timestep
        self.data = self.mujoco.MjData(self.model)
        self.controls: Controls = read_controls(self.mujoco, self.model, state)
        self.lifts: list[Lift] = read_lifts(self.mujoco, self.model)
        self.on_reset: list[OnReset] = [
            *(_placing(rule.apply) for rule in read_placements(self.mujoco, self.model)),
            *on_reset,
        ]
        self._keyframe = self._find_keyframe(keyframe)
        self._rest_heights = np.zeros(len(self.lifts))
        self.reset()

    @property
    def name(self) -> str:
        """The name of the MJCF's model."""
        return str(self.model.names[: self.model.names.index(b"\0")].decode("utf-8", "replace")) or self.path.stem

    @property
    def time(self) -> float:
        """Simulated seconds since the reset."""
        return float(self.data.time)

    @property
    def timestep(self) -> float:
        """Seconds in one physics step."""
        return float(self.model.opt.timestep)

    @property
    def camera_names(self) -> tuple[str, ...]:
        """The names of the cameras that have one, in the file's order."""
        kind = self.mujoco.mjtObj.mjOBJ_CAMERA
        names = (self.mujoco.mj_id2name(self.model, kind, number) for number in range(self.model.ncam))
        return tuple(name for name in names if name)

    def steps_per_tick(self, fps: float | Fraction) -> int:
        """Return how many physics steps make one tick.

        Args:
            fps: Ticks a second.

        Raises:
            UsageError: It is not a whole number; the error names the nearest rates that are, and the physics step
                that would do.
        """
        rate = float(fps)
        if not (math.isfinite(rate) and rate > 0):
            raise UsageError("The rate is not a number of ticks a second.", expected="above 0", found=fps)
        steps = round(1 / (rate * self.timestep))
        if steps >= 1 and abs(steps * self.timestep * rate - 1) < 1e-6:
            return steps
        rates = self.whole_rates()
        below = max((one for one in rates if one <= rate), default=None)
        above = min((one for one in rates if one >= rate), default=None)
        near = " or ".join(str(one) for one in (below, above) if one is not None) or "none"
        fitting = 1 / (rate * max(1, math.ceil(1 / (rate * self.timestep) - 1e-9)))
        raise UsageError(
            f"A tick at {float(fps):g} Hz is not a whole number of physics steps.",
            where=self.path,
            expected=f"a rate that divides {1 / self.timestep:g} steps a second; the nearest: {near}",
            found=f"{1 / (rate * self.timestep):.3f} steps of {self.timestep:g} s",
            fix=f"Take a rate named above, or change the physics step (--robot.timestep={fitting!r}).",
        )

    def whole_rates(self) -> list[int]:
        """Return the whole rates, in Hz, at which a tick is a whole number of physics steps; ascending."""
        physics = 1 / self.timestep
        return [
            rate for rate in range(1, int(physics + 0.5) + 1) if abs(round(physics / rate) * rate / physics - 1) < 1e-6
        ]

    def default_fps(self) -> int:
        """Return the highest whole rate up to 30 Hz that fits the physics step (25 for 2 ms), or the lowest above."""
        rates = self.whole_rates()
        if not rates:
            raise UsageError(
                "No whole rate fits the scene's physics step.", where=self.path, found=f"steps of {self.timestep!r} s"
            )
        return max((rate for rate in rates if rate <= 30), default=min(rates))

    def reset(self, seed: int = 0, episode: int = 0, attempt: int = 0) -> None:
        """Put the scene at the start of an episode.

        The same three numbers give the same start, on any machine and in any order of episodes.

        Args:
            seed: The recording's seed.
            episode: The episode's number in its dataset.
            attempt: How often this episode was begun before and thrown away.
        """
        if self._keyframe is None:
            self.mujoco.mj_resetData(self.model, self.data)
        else:
            self.mujoco.mj_resetDataKeyframe(self.model, self.data, self._keyframe)
        random = np.random.default_rng([seed, episode, attempt])
        for hook in self.on_reset:
            hook(self, random)
        self.mujoco.mj_forward(self.model, self.data)
        self._rest_heights = np.array([self.data.xpos[rule.body_id, 2] for rule in self.lifts])

    def state(self) -> np.ndarray:
        """Return the robot's state at the present time: float32, one entry per name in `controls.state_names`."""
        return self.controls.state(self.data)

    def apply(self, action: np.ndarray) -> None:
        """Set the actuators' controls, which hold until the next call.

        Args:
            action: One number per actuator. MuJoCo itself holds them to the actuators' ranges.
        """
        self.data.ctrl[:] = action

    def advance(self, steps: int) -> None:
        """Let time pass: `steps` physics steps, then everything that MuJoCo derives from the new positions.

        Raises:
            RecordError: The simulation became unstable.
        """
        self.mujoco.mj_step(self.model, self.data, nstep=steps)
        self.mujoco.mj_forward(self.model, self.data)
        kinds = self.mujoco.mjtWarning
        if any(
            self.data.warning[kind].number
            for kind in (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        ):
            raise RecordError(
                "The simulation became unstable.",
                where=f"{self.path}, {self.time:.3f} s after the reset",
                fix="Use a smaller physics step (--robot.timestep) or softer actuators.",
            )

    def lifted(self) -> list[bool]:
        """Return for each lift rule whether its body is high enough now."""
        return [
            bool(self.data.xpos[rule.body_id, 2] - rest >= rule.height)
            for rule, rest in zip(self.lifts, self._rest_heights)
        ]

    def _find_keyframe(self, name: str | None) -> int | None:
        kind = self.mujoco.mjtObj.mjOBJ_KEY
        number = int(self.mujoco.mj_name2id(self.model, kind, name or "home"))
        if number >= 0:
            return number
        if name is not None:
            known = [self.mujoco.mj_id2name(self.model, kind, k) or str(k) for k in range(self.model.nkey)]
            raise UsageError(
                f"The scene has no keyframe {name!r}.", where=self.path, expected=", ".join(known) or "(it has none)"
            )
        return 0 if self.model.nkey else None


def _placing(apply: Callable[[np.ndarray, np.random.Generator], None]) -> OnReset:
    def place(scene: Scene, random: np.random.Generator) -> None:
        apply(scene.data.qpos, random)

    return place


def _compile(mujoco: Any, path: Path) -> Any:
    if not path.is_file():
        raise UsageError("There is no scene file here.", where=path, expected="an MJCF file (.xml) or .mjb")
    try:
        if path.suffix == ".mjb":
            return mujoco.MjModel.from_binary_path(str(path))
        return mujoco.MjModel.from_xml_path(str(path))
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise FormatError("MuJoCo cannot compile the scene.", where=path, found=" ".join(str(error).split())) from error
