"""The scripted expert: it lifts the cube, by contact, wherever the cube lies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rolltape.errors import UsageError
from rolltape.sim import LiftExpert, MujocoRobot, rollout
from sim.scenes import SLIDER, write


def attempts(robot: MujocoRobot, episodes: int) -> list[bool]:
    """Return for each episode whether the expert succeeded."""
    expert, outcomes = LiftExpert(robot), []
    for episode in range(episodes):
        for _ in rollout(robot, expert, episode=episode):
            pass
        outcomes.append(bool(robot.success()))
    return outcomes


def test_it_lifts_the_cube_in_at_least_19_of_20_episodes() -> None:
    with MujocoRobot(cameras={}, seed=7) as robot:
        assert sum(attempts(robot, 20)) >= 19


@pytest.mark.parametrize("fps", [10, 50])
def test_it_lifts_at_other_rates(fps: int) -> None:
    with MujocoRobot(cameras={}, fps=fps) as robot:
        assert attempts(robot, 2) == [True, True]


def test_only_friction_holds_the_cube() -> None:
    """With fingers of ice nothing is lifted: there is no weld and no force but contact."""
    with MujocoRobot(cameras={}) as robot:
        model = robot.scene.model
        assert model.neq == 1, "the two fingers only"
        for name in ("pad_left", "pad_right"):
            model.geom(name).friction[:] = 1e-5
        assert attempts(robot, 2) == [False, False]


def test_the_cube_stays_with_the_fingers_and_nothing_breaks_through() -> None:
    with MujocoRobot(cameras={}) as robot:
        ticks = list(rollout(robot, LiftExpert(robot), episode=3))
        cube, grasp = robot.scene.data.body("cube").xpos, robot.scene.data.site("grasp").xpos
        assert cube[2] > 0.15
        assert np.linalg.norm(cube - grasp) < 0.01
        fingers = ticks[-1].observation["observation.state"][6]
        assert fingers == pytest.approx(0.019, abs=0.0015), "the fingers are as far apart as the cube is wide"


def test_success_is_a_judgement_at_the_end() -> None:
    with MujocoRobot(cameras={}) as robot:
        ticks = list(rollout(robot, LiftExpert(robot), episode=1))
        assert robot.success() is True
        opened = ticks[-1].action.copy()
        opened[6] = 0.04
        for _ in range(20):
            robot.act(opened)
            robot.advance()
        assert robot.success() is False, "the cube was dropped again"


def test_episodes_differ_and_repeat() -> None:
    with MujocoRobot(cameras={}, seed=1) as robot:
        expert = LiftExpert(robot)

        def actions(episode: int) -> np.ndarray:
            return np.array([tick.action for tick in rollout(robot, expert, episode=episode)])

        first, second, again = actions(0), actions(1), actions(0)
    assert np.array_equal(first, again)
    assert first.shape != second.shape or not np.array_equal(first, second)


def test_actions_stay_in_their_ranges_and_move_smoothly() -> None:
    with MujocoRobot(cameras={}) as robot:
        controls = robot.scene.controls
        actions = np.array([tick.action for tick in rollout(robot, LiftExpert(robot), episode=5)])
    assert (actions >= controls.low - 1e-6).all()
    assert (actions <= controls.high + 1e-6).all()
    assert np.abs(np.diff(actions[:, :6], axis=0)).max() < 0.15, "radians a tick"


def test_it_says_what_a_scene_lacks(tmp_path: Path) -> None:
    with (
        MujocoRobot(write(tmp_path, SLIDER), fps=20, cameras={}) as robot,
        pytest.raises(UsageError, match="an actuator `gripper`"),
    ):
        LiftExpert(robot)
