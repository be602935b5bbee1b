"""The names and numbers of a scene's actuators: what an action holds and what a state reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rolltape.errors import FormatError

__all__ = ["Controls", "StateKind", "read_controls"]

StateKind = Literal["actuators", "joints"]


@dataclass(frozen=True)
class Controls:
    """What an action sets and a state reads, in the order of their vectors.

    Attributes:
        action_names: One name per actuator: its name in the file with `.pos`, `.vel` or `.ctrl`, after what its
            control means.
        state_names: One name per entry of the state, with `.pos`.
        low: Smallest control of each actuator; -inf where it has no range.
        high: Largest control of each actuator; inf where it has no range.
        qpos: For each entry of the state its place in `qpos`, or -1 where the entry is an actuator's length.
        actuator: For each entry of the state its actuator, or -1 where it is a joint without one.
    """

    action_names: tuple[str, ...]
    state_names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    qpos: np.ndarray
    actuator: np.ndarray

    def state(self, data: Any) -> np.ndarray:
        """Return the state at the simulator's present time: float32, positions in radians or metres."""
        values = np.where(self.qpos >= 0, data.qpos[self.qpos], 0.0)
        lengths = self.qpos < 0
        if lengths.any():
            values[lengths] = data.actuator_length[self.actuator[lengths]]
        return values.astype(np.float32)


def read_controls(mujoco: Any, model: Any, state: StateKind = "actuators") -> Controls:
    """Return the names and places of a model's controls.

    Args:
        mujoco: The module.
        model: The compiled model.
        state: `actuators`: one entry per actuator, the position of its joint (or its length, where it drives a tendon).
            `joints`: one entry per hinge or slide joint of every root body that holds an actuator, driven or not.

    Raises:
        FormatError: The scene has no actuator.
    """
    if model.nu == 0:
        raise FormatError(
            "The scene has no actuator, so there is nothing to drive.", fix="Add <actuator> elements to the MJCF file."
        )
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, k) or f"actuator_{k}" for k in range(model.nu)]
    limited = np.asarray(model.actuator_ctrllimited, dtype=bool)
    joints = [_driven_joint(mujoco, model, k) for k in range(model.nu)]
    if state == "joints":
        chosen = _robot_joints(mujoco, model, [joint for joint in joints if joint >= 0])
        places = [int(model.jnt_qposadr[joint]) for joint in chosen]
        state_names = [
            mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, joint) or f"joint_{joint}" for joint in chosen
        ]
        drivers = [-1] * len(chosen)
    else:
        places = [int(model.jnt_qposadr[joint]) if joint >= 0 else -1 for joint in joints]
        state_names, drivers = names, list(range(model.nu))
    return Controls(
        action_names=tuple(f"{name}.{_meaning(mujoco, model, k)}" for k, name in enumerate(names)),
        state_names=tuple(f"{name}.pos" for name in state_names),
        low=np.where(limited, model.actuator_ctrlrange[:, 0], -np.inf),
        high=np.where(limited, model.actuator_ctrlrange[:, 1], np.inf),
        qpos=np.array(places, dtype=np.int64),
        actuator=np.array(drivers, dtype=np.int64),
    )


def _driven_joint(mujoco: Any, model: Any, actuator: int) -> int:
    """Return the hinge or slide joint that an actuator drives, or -1."""
    kind = int(model.actuator_trntype[actuator])
    if kind not in (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)):
        return -1
    joint = int(model.actuator_trnid[actuator, 0])
    return joint if _is_scalar(mujoco, model, joint) else -1


def _is_scalar(mujoco: Any, model: Any, joint: int) -> bool:
    return int(model.jnt_type[joint]) in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


def _robot_joints(mujoco: Any, model: Any, driven: list[int]) -> list[int]:
    roots = {int(model.body_rootid[model.jnt_bodyid[joint]]) for joint in driven}
    return [
        joint
        for joint in range(model.njnt)
        if int(model.body_rootid[model.jnt_bodyid[joint]]) in roots and _is_scalar(mujoco, model, joint)
    ]


def _meaning(mujoco: Any, model: Any, actuator: int) -> str:
    """Return what an actuator's control means: a position (`pos`), a velocity (`vel`), or something else (`ctrl`)."""
    if int(model.actuator_biastype[actuator]) != int(mujoco.mjtBias.mjBIAS_AFFINE):
        return "ctrl"
    gain, bias = float(model.actuator_gainprm[actuator, 0]), model.actuator_biasprm[actuator]
    if int(model.actuator_dyntype[actuator]) == int(mujoco.mjtDyn.mjDYN_INTEGRATOR):
        return "vel"
    if bias[1] == -gain:
        return "pos"
    return "vel" if bias[1] == 0 and bias[2] == -gain else "ctrl"
