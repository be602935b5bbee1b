"""What drives a robot: made from its config."""

from __future__ import annotations

from typing import Any

from rolltape.errors import UsageError
from rolltape.record.config import TeleopConfig
from rolltape.record.robots import Robot

__all__ = ["make_driver"]

_KINDS = ("expert", "none", "policy", "trajectory")


def make_driver(config: TeleopConfig, robot: Robot) -> Any:
    """Return the policy that the config asks for: it takes an observation and gives an action, or None at its end.

    Args:
        config: What drives.
        robot: What is driven; a simulated robot of `rolltape.sim`.

    Raises:
        UsageError: There is no such type, or its settings are missing or do not fit the robot.
    """
    from rolltape.sim import Hold, LiftExpert, MujocoRobot, Trajectory, load_policy

    kind = config.kind
    if kind not in _KINDS:
        leader = kind.endswith(("_leader", "gamepad", "keyboard", "phone")) or "leader" in kind
        raise UsageError(
            f"{kind} comes with a later version." if leader else "There is no such type of teleoperator.",
            where="--teleop.type",
            expected=", ".join(_KINDS),
            found=kind,
        )
    if not isinstance(robot, MujocoRobot):
        raise UsageError(
            "This robot needs a driver of its own.", where="--teleop.type", fix="Pass record(..., policy=...)."
        )
    if kind == "expert":
        return LiftExpert(robot)
    if kind == "none":
        return Hold(robot.scene)
    if kind == "policy":
        return load_policy(_given(config.policy, "teleop.policy", "my_policies:lift"))
    names = robot.scene.controls.action_names
    trajectory = Trajectory.load(_given(config.path, "teleop.path", "actions.npy"), names)
    width = trajectory.actions.shape[2]
    if width != len(names):
        raise UsageError(
            "The trajectory does not fit the robot.",
            where=config.path,
            expected=f"{len(names)} columns ({', '.join(names)})",
            found=f"{width} columns",
        )
    return trajectory


def _given(value: Any, name: str, sample: str) -> Any:
    if value is None:
        raise UsageError(f"--{name} is missing.", expected=sample, fix=f"Add --{name}={sample}.")
    return value
