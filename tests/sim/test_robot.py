"""Robots: what a row holds belongs to one time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolltape.errors import ClosedError, RecordError, UsageError
from rolltape.sim import CameraView, MujocoRobot, Scene, Trajectory, rollout
from sim.scenes import SLIDER, write

EYE = "observation.images.eye"
COLOURS = [(0.8, 0.1, 0.1), (0.1, 0.6, 0.1), (0.1, 0.1, 0.8)]


class Painter:
    """Gives the backdrop another colour in every reset."""

    def __init__(self) -> None:
        self.colour = np.zeros(3)
        self._resets = 0

    def __call__(self, scene: Scene, random: np.random.Generator) -> None:
        self.colour = np.array(COLOURS[self._resets % len(COLOURS)])
        scene.model.geom("backdrop").rgba[:3] = self.colour
        self._resets += 1


def slider(folder: Path, **options: Any) -> MujocoRobot:
    options.setdefault("cameras", {"eye": CameraView(96, 64)})
    return MujocoRobot(write(folder, SLIDER), fps=20, **options)


def ball_column(image: np.ndarray) -> float:
    """Return the column of the white ball's middle."""
    white = (image.min(axis=2) > 200).astype(float)
    return float((white.sum(axis=0) @ np.arange(image.shape[1])) / white.sum())


def test_A24_the_first_picture_after_a_reset_is_of_the_new_episode(tmp_path: Path) -> None:
    painter = Painter()
    with slider(tmp_path, on_reset=[painter]) as robot:
        shown = []
        for episode in range(3):
            ticks = list(rollout(robot, lambda observation: [0.5], episode=episode, max_ticks=4))
            for tick in ticks:
                assert np.abs(tick.observation[EYE][2, 2] - np.round(painter.colour * 255)).max() <= 2
            shown.append(tuple(ticks[0].observation[EYE][2, 2]))
        assert len(set(shown)) == 3


def test_A24_picture_state_and_action_of_a_row_belong_to_one_time(tmp_path: Path) -> None:
    """The ball's place in the picture follows qpos without a lag of a tick, or of a physics step."""
    with slider(tmp_path) as robot:
        ticks = list(rollout(robot, lambda observation: [0.5], max_ticks=30))
        # A pinhole camera two metres away: the column is linear in the place.
        half = 32 / np.tan(np.radians(45) / 2) / 2
        for tick in ticks:
            place = float(tick.observation["observation.state"][0])
            assert ball_column(tick.observation[EYE]) == pytest.approx(47.5 + half * place, abs=0.35)
            assert tick.seconds == pytest.approx(tick.number / 20)
        speeds = np.diff([float(tick.observation["observation.state"][0]) for tick in ticks])
        assert half * speeds.max() > 1.0, "a lag of one tick would be seen"
        assert ticks[0].observation["observation.state"][0] == 0, "nothing has moved at time 0"


def test_A24_the_action_holds_from_its_row_on(tmp_path: Path) -> None:
    """Row k + 1 is what MuJoCo makes of row k's state and action, bit for bit."""
    actions = np.random.default_rng(0).uniform(-0.5, 0.5, (12, 1)).astype(np.float32)
    with slider(tmp_path, cameras={}) as robot:
        ticks = list(rollout(robot, Trajectory(actions)))
    scene = Scene(write(tmp_path, SLIDER))
    for tick, action in zip(ticks, actions, strict=True):
        assert tick.observation["observation.state"].tolist() == scene.data.qpos.astype(np.float32).tolist()
        assert tick.action.tolist() == action.tolist()
        scene.apply(action)
        scene.advance(10)


def test_a_replayed_trajectory_gives_the_same_states() -> None:
    random = np.random.default_rng(4)
    with MujocoRobot(cameras={}, seed=2) as robot:
        start = robot.scene.data.ctrl.copy()
        actions = (start + np.cumsum(random.normal(0, 0.02, (20, 7)), axis=0)).astype(np.float32)
        first = [tick.observation["observation.state"] for tick in rollout(robot, Trajectory(actions), episode=4)]
        list(rollout(robot, Trajectory(actions[:3]), episode=9))
        again = [tick.observation["observation.state"] for tick in rollout(robot, Trajectory(actions), episode=4)]
    assert np.array_equal(first, again)


def test_actions_are_set_exactly_and_wrong_ones_refused() -> None:
    with MujocoRobot(cameras={}) as robot:
        action = np.linspace(0.001, 0.03, 7)
        sent = robot.act(action)
        assert sent.dtype == np.float32
        assert np.array_equal(robot.scene.data.ctrl, sent.astype(np.float64))
        with pytest.raises(UsageError, match="wrong size"):
            robot.act([0.0] * 6)
        with pytest.raises(UsageError, match=r"elbow_flex.pos = nan"):
            robot.act([0, 0, np.nan, 0, 0, 0, 0])


def test_views_give_their_sizes_and_features() -> None:
    views = {
        "near": CameraView(48, 36, camera="wrist"),
        "front": CameraView(64, 48, depth=True),
        "far": CameraView(32, 24, camera="front", rgb=False, depth=True),
    }
    with MujocoRobot(cameras=views) as robot:
        observation = robot.observe()
        assert {name: (value.dtype.name, value.shape) for name, value in observation.items()} == {
            "observation.state": ("float32", (7,)),
            "observation.images.near": ("uint8", (36, 48, 3)),
            "observation.images.front": ("uint8", (48, 64, 3)),
            "observation.images.front_depth": ("uint16", (48, 64, 1)),
            "observation.images.far_depth": ("uint16", (24, 32, 1)),
        }
        assert set(robot.features) == {*observation, "action"}
        for name, value in observation.items():
            assert robot.features[name]["shape"] == value.shape
        assert robot.features["observation.images.far_depth"]["info"] == {"is_depth_map": True}


def test_depth_is_the_distance_along_the_axis_in_millimetres(tmp_path: Path) -> None:
    with slider(tmp_path, cameras={"eye": CameraView(65, 65, depth=True)}) as robot:
        depth = robot.observe()["observation.images.eye_depth"][:, :, 0]
    assert abs(int(depth[2, 2]) - 2900) <= 2, "the backdrop's face is a plane"
    assert abs(int(depth[2, 32]) - 2900) <= 2
    assert abs(int(depth[32, 32]) - 1920) <= 3, "the ball's front"


def test_pictures_are_upright_and_in_colour() -> None:
    with MujocoRobot(cameras={"front": CameraView(160, 120)}) as robot:
        robot.reset(episode=0)
        image = robot.observe()["observation.images.front"].astype(int)
    red = (image[..., 0] - image[..., 2] > 120) & (image[..., 1] < 120)
    assert red.sum() > 10, "the cube"
    assert np.nonzero(red)[0].mean() > 70, "it lies on the table, in the lower half"
    sky = image[:3].mean(axis=(0, 1))
    assert sky[2] > sky[0] + 5, "the top is the sky"


def test_wrong_cameras_are_refused() -> None:
    with pytest.raises(UsageError, match="front, wrist"):
        MujocoRobot(cameras={"side": CameraView()})
    with pytest.raises(UsageError, match="no size"):
        MujocoRobot(cameras={"front": CameraView(width=0)})
    with pytest.raises(UsageError, match="neither colour nor depth"):
        MujocoRobot(cameras={"front": CameraView(rgb=False)})


def test_a_closed_robot_says_so() -> None:
    robot = MujocoRobot(cameras={"front": CameraView(16, 16)})
    robot.close()
    robot.close()
    with pytest.raises(ClosedError):
        robot.observe()


def test_success_needs_a_rule(tmp_path: Path) -> None:
    with slider(tmp_path, cameras={}) as robot:
        assert not robot.judged
        assert robot.success() is None
    with slider(tmp_path, cameras={}, success=lambda scene: scene.data.qpos[0] > 0.2) as robot:
        assert robot.success() is False
        list(rollout(robot, lambda observation: [0.5], max_ticks=40))
        assert robot.success() is True


def test_a_machine_without_opengl_is_told_what_to_install() -> None:
    script = """
from rolltape.sim import MujocoRobot
print(MujocoRobot(cameras={}).observe()["observation.state"].shape)
MujocoRobot()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "MUJOCO_GL": "disable"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "(7,)\n", "without cameras nothing is drawn"
    assert RecordError.__name__ in done.stderr
    assert "apt-get install libegl1" in done.stderr
