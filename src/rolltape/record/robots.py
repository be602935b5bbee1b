"""Which robots there are: what a recording needs of one, and how one is made from its config."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rolltape.errors import UsageError
from rolltape.record.config import RecordConfig, RobotConfig

__all__ = ["Robot", "make_robot", "refuse_unknown_robot"]


@runtime_checkable
class Robot(Protocol):
    """What a recording needs of a robot. `rolltape.sim.MujocoRobot` is one; anything of this shape can be recorded.

    One tick is `observe`, `act`, `advance`. `observe` reads everything at the present time; the action holds from
    that time on; `advance` lets the tick pass where the robot itself keeps the time (a simulator steps), and does
    nothing where the clock on the wall does.

    Attributes:
        name: Its kind, kept as `robot_type`.
        fps: Ticks a second.
        simulated: Whether it keeps its own time. If not, ticks begin on the clock on the wall.
    """

    name: str
    fps: float
    simulated: bool

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """The features of a row, as `Writer.create` takes them: `observation.*` and `action`."""
        ...

    def reset(self, episode: int = 0, attempt: int = 0) -> None:
        """Get ready for an episode."""
        ...

    def observe(self) -> dict[str, np.ndarray]:
        """Return every `observation.*` feature at the present time."""
        ...

    def act(self, action: Any) -> np.ndarray:
        """Set the action and return what was set."""
        ...

    def advance(self) -> None:
        """Let one tick pass, where the robot keeps the time."""
        ...

    def success(self) -> bool | None:
        """Judge the episode so far, or None where nothing judges."""
        ...

    def close(self) -> None:
        """Let go of the hardware."""
        ...


_ROBOTS: Mapping[str, str] = {"mujoco": "rolltape.record.robots:_make_mujoco"}
"""Import strings by type, loaded on use. Real arms are added here."""

_LEROBOT_ROBOTS = frozenset(
    [
        "bi_openarm_follower",
        "bi_rebot_b601_follower",
        "bi_so_follower",
        "earthrover_mini_plus",
        "hope_jr_arm",
        "hope_jr_hand",
        "koch_follower",
        "lekiwi",
        "omx_follower",
        "openarm_follower",
        "reachy2",
        "rebot_b601_follower",
        "so100_follower",
        "so101_follower",
        "unitree_g1",
    ]
)


def make_robot(config: RecordConfig) -> Robot:
    """Return the robot that the config asks for, ready to be reset.

    Raises:
        UsageError: There is no such type, or its settings do not fit the scene.
    """
    refuse_unknown_robot(config.robot.type)
    module, _, attribute = _ROBOTS[config.robot.type].partition(":")
    robot: Robot = getattr(importlib.import_module(module), attribute)(config)
    return robot


def refuse_unknown_robot(kind: str) -> None:
    """Raise where a type of robot is not recorded here, with the reason.

    Raises:
        UsageError: The type is a real arm of LeRobot's, or no type at all.
    """
    if kind in _ROBOTS:
        return
    if kind in _LEROBOT_ROBOTS:
        raise UsageError(
            f"{kind} is a real robot; this version records simulated ones.",
            where="--robot.type",
            expected=", ".join(sorted(_ROBOTS)),
            found=kind,
            fix="Record it with lerobot-record: rolltape reads the result as it is. Or try --robot.type=mujoco.",
        )
    raise UsageError(
        "There is no such type of robot.", where="--robot.type", expected=", ".join(sorted(_ROBOTS)), found=kind
    )


def _make_mujoco(config: RecordConfig) -> Any:
    from rolltape.sim import MujocoRobot, load_policy

    robot = config.robot
    return MujocoRobot(
        robot.scene,
        fps=config.dataset.fps,
        cameras=None if robot.cameras is None else {name: _view(robot, name) for name in robot.cameras},
        seed=robot.seed,
        success=None if robot.success is None else load_policy(robot.success, "rule of success"),
        shadows=robot.shadows,
        samples=robot.samples,
        timestep=robot.timestep,
        keyframe=robot.keyframe,
        state=robot.state,
    )


_CAMERA_KEYS = ("type", "camera", "width", "height", "fps", "use_rgb", "use_depth")


def _view(robot: RobotConfig, name: str) -> Any:
    """Return the view that a camera's mapping describes."""
    from rolltape.sim import CameraView

    where = f"--robot.cameras: {name}"
    given = (robot.cameras or {})[name] or {}
    if not isinstance(given, Mapping):
        raise UsageError(
            "A camera is not a mapping.", where=where, expected="{width: 320, height: 240}", found=repr(given)
        )
    unknown = sorted(set(map(str, given)) - set(_CAMERA_KEYS))
    if unknown:
        raise UsageError(
            "A camera has unknown keys.", where=where, expected=", ".join(_CAMERA_KEYS), found=", ".join(unknown)
        )
    if given.get("type", "mujoco") != "mujoco":
        raise UsageError(
            "A simulated robot has simulated cameras.", where=where, expected="type: mujoco", found=given["type"]
        )
    for key, kind in (("width", int), ("height", int), ("use_rgb", bool), ("use_depth", bool), ("camera", str)):
        if key in given and type(given[key]) is not kind:
            raise UsageError(
                f"{key} is of the wrong kind.", where=where, expected=kind.__name__, found=repr(given[key])
            )
    return CameraView(
        width=given.get("width", 320),
        height=given.get("height", 240),
        camera=given.get("camera"),
        rgb=given.get("use_rgb", True),
        depth=given.get("use_depth", False),
    )
