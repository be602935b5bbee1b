"""A scripted expert that lifts an object: approach, descend, close, lift, hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rolltape.errors import UsageError, missing_extra
from rolltape.sim.policy import Observation
from rolltape.sim.robot import MujocoRobot

__all__ = ["LiftExpert"]

_HOVER, _LIFT, _GRASP = 0.10, 0.16, -0.002
"""Metres above the object's middle: before the descent, at the end, and where the fingers close."""


@dataclass(frozen=True)
class _Leg:
    """One part of the plan: where the grasp point ends up, how wide the fingers are then, how many seconds it takes."""

    height: float
    fingers: float
    seconds: float


class LiftExpert:
    """A policy that lifts the scene's object with the gripper; it looks at the simulator's own state, not at pictures.

    The grasp point follows a minimum-jerk path through the plan's points, and inverse kinematics (`mink`) turns each
    point into joint targets. The object is only ever moved by contact. Durations vary by 15 % from episode to
    episode, as a function of (seed, episode).

    Args:
        robot: The robot. Its scene needs a site `grasp` between the fingers, whose z axis points out of the hand and
            whose y axis points from finger to finger; an actuator `gripper` that opens at its upper end; position
            actuators for the other joints; and a rule `rolltape.lift.BODY`.

    Raises:
        UsageError: The scene lacks one of these.
        MissingExtraError: mink is not installed.

    Example:
        >>> with MujocoRobot(cameras={}) as robot:
        ...     expert = LiftExpert(robot)
        ...     robot.reset(episode=3)
        ...     expert.reset(episode=3)
        ...     while (action := expert(robot.observe())) is not None:
        ...         _ = robot.act(action)
        ...         robot.advance()
        ...     robot.success()
        True
    """

    def __init__(self, robot: MujocoRobot) -> None:
        try:
            import mink
            import qpsolvers
        except ImportError as error:
            raise missing_extra("sim", "mink") from error
        self._mink, self._robot, self._scene = mink, robot, robot.scene
        self._solver = "daqp" if "daqp" in qpsolvers.available_solvers else qpsolvers.available_solvers[0]
        self._gripper, self._site, self._body = self._parts()
        self._configuration = mink.Configuration(self._scene.model)
        self._reach = mink.FrameTask("grasp", "site", position_cost=1.0, orientation_cost=0.3, lm_damping=1e-6)
        self._posture = mink.PostureTask(self._scene.model, cost=1e-3)
        self._limits = [mink.ConfigurationLimit(self._scene.model)]
        self._targets: list[np.ndarray] = []
        self._tick = 0

    def reset(self, episode: int) -> None:
        """Plan the episode from where the object lies now."""
        self._configuration.update(self._scene.data.qpos.copy())
        self._posture.set_target_from_configuration(self._configuration)
        self._targets, self._tick = self._plan(np.random.default_rng([self._robot.seed, episode, 7])), 0

    def __call__(self, observation: Observation) -> np.ndarray | None:
        """Return the plan's next action, or None after its last one."""
        if self._tick >= len(self._targets):
            return None
        self._tick += 1
        return self._targets[self._tick - 1]

    def _parts(self) -> tuple[int, int, int]:
        mujoco, model, kinds = self._scene.mujoco, self._scene.model, self._scene.mujoco.mjtObj
        gripper = int(mujoco.mj_name2id(model, kinds.mjOBJ_ACTUATOR, "gripper"))
        site = int(mujoco.mj_name2id(model, kinds.mjOBJ_SITE, "grasp"))
        missing = [
            name
            for name, absent in (
                (
                    "an actuator `gripper` with a range",
                    gripper < 0 or not np.isfinite(self._scene.controls.high[gripper]),
                ),
                ("a site `grasp`", site < 0),
                ("a rule `rolltape.lift.BODY` in <custom>", not self._scene.lifts),
                (
                    "a joint for each other actuator",
                    bool((np.delete(self._scene.controls.qpos, max(gripper, 0)) < 0).any())
                    or len(self._scene.controls.qpos) != model.nu,
                ),
            )
            if absent
        ]
        if missing:
            raise UsageError(
                "The expert cannot drive this scene.",
                where=self._scene.path,
                expected="; ".join(missing),
                fix="Drive it with a trajectory or a policy (--teleop.type=trajectory|policy).",
            )
        return gripper, site, self._scene.lifts[0].body_id

    def _plan(self, random: np.random.Generator) -> list[np.ndarray]:
        data, controls = self._scene.data, self._scene.controls
        place = data.xpos[self._body].copy()
        closed, wide = float(controls.low[self._gripper]), float(controls.high[self._gripper])
        hand = data.site_xmat[self._site].reshape(3, 3).copy()
        start = data.site_xpos[self._site].copy()
        turned = _square_on(data.xmat[self._body].reshape(3, 3))
        pace = random.uniform(0.85, 1.15, size=5)
        legs = [
            _Leg(_HOVER, wide, 1.1 * pace[0]),
            _Leg(_GRASP, wide, 0.9 * pace[1]),
            _Leg(_GRASP, closed, 0.4 * pace[2]),
            _Leg(_LIFT, closed, 1.1 * pace[3]),
            _Leg(_LIFT, closed, 0.6 * pace[4]),
        ]
        targets: list[np.ndarray] = []
        position, fingers = start, float(data.ctrl[self._gripper])
        for number, leg in enumerate(legs):
            ticks = max(1, round(leg.seconds * float(self._robot.fps)))
            goal = np.array([place[0], place[1], place[2] + leg.height])
            for tick in range(1, ticks + 1):
                part = _minimum_jerk(tick / ticks)
                rotation = _between(hand, turned, part) if number == 0 else turned
                # The fingers close within the first half of their leg, so that the grip is firm when the arm rises.
                grip = fingers + (leg.fingers - fingers) * min(1.0, 2 * tick / ticks)
                targets.append(self._joints(position + (goal - position) * part, rotation, grip))
            position, fingers = goal, leg.fingers
        return targets

    def _joints(self, position: np.ndarray, rotation: np.ndarray, fingers: float) -> np.ndarray:
        """Return the action that brings the grasp point to a pose."""
        mink, controls = self._mink, self._scene.controls
        pose = mink.SE3.from_rotation_and_translation(mink.SO3.from_matrix(rotation), position)
        self._reach.set_target(pose)
        period = 1.0 / float(self._robot.fps)
        for _ in range(4):
            velocity = mink.solve_ik(
                self._configuration,
                [self._reach, self._posture],
                period,
                self._solver,
                damping=1e-6,
                limits=self._limits,
            )
            self._configuration.integrate_inplace(velocity, period)
        action = self._configuration.q[np.maximum(controls.qpos, 0)].copy()
        action[self._gripper] = fingers
        held: np.ndarray = np.clip(action, controls.low, controls.high).astype(np.float32)
        return held


def _minimum_jerk(part: float) -> float:
    """Return how far along a minimum-jerk path is (Flash and Hogan, 1985): 10 s^3 - 15 s^4 + 6 s^5."""
    return part**3 * (10 - 15 * part + 6 * part * part)


def _square_on(box: np.ndarray) -> np.ndarray:
    """Return the hand's rotation that grips a box from above: pointing down, square to the nearest faces."""
    yaw = float(np.arctan2(box[1, 0], box[0, 0]))
    yaw = (yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4
    cosine, sine = np.cos(yaw), np.sin(yaw)
    turn = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    down = np.diag([-1.0, 1.0, -1.0])
    return np.asarray(turn @ down)


def _between(first: np.ndarray, last: np.ndarray, part: float) -> np.ndarray:
    """Return the rotation a part of the way along the shortest turn from the first to the last."""
    turn = first.T @ last
    angle = float(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1.0, 1.0)))
    if angle < 1e-9:
        return last
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / (2 * np.sin(angle))
    cross = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    step = part * angle
    return np.asarray(first @ (np.eye(3) + np.sin(step) * cross + (1 - np.cos(step)) * (cross @ cross)))
