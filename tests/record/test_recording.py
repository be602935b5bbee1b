"""The recording loop: episodes in, the same episodes on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
import rolltape.check
from record.robots import H264, SMALL, FakeRobot, FastRobot, config, push
from rolltape.errors import (
    DatasetExistsError,
    EpisodeError,
    RecordError,
    RolltapeError,
    UsageError,
)
from rolltape.record import (
    Control,
    DatasetConfig,
    EpisodeBegan,
    EpisodeDiscarded,
    EpisodeSaved,
    Event,
    RecordConfig,
    Recorder,
    RobotConfig,
    TeleopConfig,
    Ticked,
    record,
)
from rolltape.sim import CameraView, MujocoRobot
from sim.scenes import SLIDER, write

EYE = "observation.images.eye"


def test_the_expert_is_recorded_with_its_success(tmp_path: Path) -> None:
    root = tmp_path / "set"
    summary = record(config(root, robot=RobotConfig(cameras=SMALL), num_episodes=2))
    assert summary.ok
    assert (summary.successes, summary.total_episodes, summary.discarded) == (2, 2, 0)
    dataset = rolltape.open(root)
    assert dataset.num_episodes == 2
    assert [len(dataset.episode(k)) for k in (0, 1)] == [one.frames for one in summary.episodes]
    assert [dataset.episode(k).fields["success"] for k in (0, 1)] == [True, True]
    assert len(dataset.select(where="success")) == len(dataset)
    assert dataset.info.robot_type == "mujoco"
    assert (dataset.fps, dataset.episode(0).tasks) == (25, ["push"])
    assert dataset[-1]["observation.images.front"].shape == (3, 48, 64)
    assert rolltape.check.run(root, deep=True).ok
    assert {path.name for path in root.iterdir()} == {"data", "meta", "videos"}, "nothing is left over"


def test_rows_are_the_simulators_own_numbers(tmp_path: Path) -> None:
    root = tmp_path / "set"
    record(config(root, num_episodes=1, episode_time_s=0.8))
    batch = rolltape.open(root).episode(0).batch()
    with MujocoRobot(cameras={}) as robot:
        robot.reset(episode=0)
        for state, action in zip(batch["observation.state"], batch["action"], strict=True):
            assert np.array_equal(state, robot.scene.state())
            robot.act(action)
            robot.advance()
    assert len(batch["action"]) == 20, "episode_time_s ends an episode"
    assert np.allclose(batch["timestamp"], np.arange(20) / 25)


def test_A23_resets_split_roll_outs_into_episodes(tmp_path: Path) -> None:
    root, robot = tmp_path / "auto", FastRobot()
    with (
        rolltape.Writer.create(root, robot.fps, robot.features) as writer,
        Recorder(robot, writer, "push", auto_split=True) as recorder,
    ):
        for _ in range(3):
            observation = recorder.reset()
            for _ in range(10):
                observation = recorder.step(push(observation))
    dataset = rolltape.open(root)
    assert [len(dataset.episode(k)) for k in dataset.episodes] == [10, 10, 10]
    for number in range(3):
        states = dataset.episode(number).batch()["observation.state"]
        assert states.tolist() == [[number, tick] for tick in range(10)]


def test_A23_a_reset_with_unsaved_steps_is_an_error_where_episodes_are_saved_by_hand(tmp_path: Path) -> None:
    root, robot = tmp_path / "manual", FastRobot()
    with rolltape.Writer.create(root, robot.fps, robot.features) as writer:
        recorder = Recorder(robot, writer, "push", auto_split=False)
        for number in range(3):
            observation = recorder.reset()
            for _ in range(10):
                observation = recorder.step(push(observation))
            with pytest.raises(EpisodeError, match="join two roll-outs") as caught:
                recorder.reset()
            assert "10 steps" in str(caught.value)
            if number != 1:
                recorder.save()
            else:
                assert recorder.discard() == 10
        assert recorder.frames == 0
    dataset = rolltape.open(root)
    assert [len(dataset.episode(k)) for k in dataset.episodes] == [10, 10]


def test_A23_the_summary_is_read_back_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that loses an episode on the way is found out."""
    save = rolltape.Writer.save_episode

    def lossy(self: Any, *args: Any, **options: Any) -> None:
        if self.total_episodes == 1:
            self.discard_episode()
        else:
            save(self, *args, **options)

    monkeypatch.setattr(rolltape.Writer, "save_episode", lossy)
    summary = record(config(tmp_path / "set", num_episodes=2), robot=FastRobot(), policy=_until(6))
    assert not summary.ok
    assert summary.total_episodes == 1
    assert "holds 1 episodes where 2 were recorded" in summary.problems[0]


def test_A23_a_recording_of_another_length_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = rolltape.Writer.add_frame

    def lossy(self: Any, frame: Any, task: str | None = None) -> None:
        if self.episode_frames < 4:
            add(self, frame, task)

    monkeypatch.setattr(rolltape.Writer, "add_frame", lossy)
    summary = record(config(tmp_path / "set", num_episodes=1), robot=FastRobot(), policy=_until(6))
    assert summary.problems == ("Episode 0 has 4 frames where 6 were recorded.",)


def test_A24_recorded_pictures_are_of_their_own_episode_and_time(tmp_path: Path) -> None:
    colours = [(200, 20, 20), (20, 20, 200)]
    painted: list[int] = []

    def paint(scene: Any, random: Any) -> None:
        scene.model.geom("backdrop").rgba[:3] = np.array(colours[len(painted) % 2]) / 255
        painted.append(1)

    root = tmp_path / "set"
    scene, views = write(tmp_path, SLIDER), {"eye": CameraView(96, 64)}
    with MujocoRobot(scene, fps=20, cameras=views, on_reset=[paint]) as robot:
        painted.clear()
        record(config(root, num_episodes=2, episode_time_s=1), robot=robot, policy=lambda observation: [0.5])
    dataset = rolltape.open(root, layout="HWC")
    half = 32 / np.tan(np.radians(45) / 2) / 2
    for number, colour in enumerate(colours):
        batch = dataset.episode(number).batch()
        for image, state in zip(batch[EYE].astype(int), batch["observation.state"], strict=True):
            assert np.abs(image[2:6, 2:6].mean(axis=(0, 1)) - colour).max() < 14
            white = image.min(axis=2) > 150
            column = (white.sum(axis=0) @ np.arange(96)) / white.sum()
            assert column == pytest.approx(47.5 + half * float(np.ravel(state)[0]), abs=0.8)


def _until(*lengths: int) -> Any:
    """Return a policy whose episodes have these lengths, one after the other."""

    class Pusher:
        def __init__(self) -> None:
            self.count, self.left = 0, 0

        def reset(self, episode: int) -> None:
            self.left = lengths[self.count % len(lengths)]
            self.count += 1

        def __call__(self, observation: Any) -> Any:
            self.left -= 1
            return None if self.left < 0 else push(observation)

    return Pusher()


def test_A25_an_episode_without_frames_is_an_error_and_the_folder_stays_valid(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with pytest.raises(RecordError, match="before its first frame"):
        record(config(root, num_episodes=3), robot=FastRobot(), policy=_until(4, 0))
    dataset = rolltape.open(root)
    assert (dataset.num_episodes, dataset.num_frames) == (1, 4), "what was saved before stays"


def test_A25_saving_nothing_discarding_twice_and_then_saving(tmp_path: Path) -> None:
    root, robot = tmp_path / "set", FastRobot()
    with rolltape.Writer.create(root, robot.fps, robot.features) as writer:
        recorder = Recorder(robot, writer, "push", auto_split=False)
        recorder.reset()
        with pytest.raises(EpisodeError, match="at least one step"):
            recorder.save()
        recorder.discard()
        recorder.discard()
        observation = recorder.reset()
        for _ in range(4):
            observation = recorder.step(push(observation))
        recorder.save()
    dataset = rolltape.open(root)
    assert (dataset.num_episodes, dataset.num_frames) == (1, 4)


def test_A25_a_dataset_without_episodes_opens_as_length_0(tmp_path: Path) -> None:
    robot = FastRobot()
    with rolltape.Writer.create(tmp_path / "set", robot.fps, robot.features):
        pass
    assert len(rolltape.open(tmp_path / "set")) == 0


def test_an_episode_is_recorded_again_from_another_start(tmp_path: Path) -> None:
    control, seen = Control(), []

    def follow(event: Event) -> None:
        seen.append(event)
        if isinstance(event, Ticked) and event.tick == 3 and sum(isinstance(one, EpisodeDiscarded) for one in seen) < 2:
            control.rerecord = True

    robot = FastRobot()
    summary = record(
        config(tmp_path / "set", num_episodes=2), robot=robot, policy=_until(6), on_event=follow, control=control
    )
    assert robot.resets == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert (summary.ok, summary.discarded, [one.frames for one in summary.episodes]) == (True, 2, [6, 6])
    assert [one.attempt for one in seen if isinstance(one, EpisodeBegan)] == [0, 1, 2, 0]


def test_an_episode_can_be_ended_and_the_run_finished(tmp_path: Path) -> None:
    control = Control()

    def follow(event: Event) -> None:
        if isinstance(event, Ticked) and event.tick == 5:
            control.end_episode = True
        if isinstance(event, EpisodeSaved) and event.result.episode == 0:
            assert event.result.frames == 5
        if isinstance(event, EpisodeBegan) and event.episode == 1:
            control.finish = True

    summary = record(
        config(tmp_path / "set", num_episodes=9), robot=FastRobot(), policy=push, on_event=follow, control=control
    )
    assert ([one.frames for one in summary.episodes], summary.stopped_by) == ([5], "finish")
    assert not summary.problems


def test_recording_into_a_dataset_that_is_there(tmp_path: Path) -> None:
    root = tmp_path / "set"
    record(config(root), robot=FastRobot(), policy=_until(3))
    with pytest.raises(DatasetExistsError):
        record(config(root), robot=FastRobot(), policy=_until(3))
    again = RecordConfig(RobotConfig(cameras={}), dataset=config(root).dataset, resume=True)
    robot = FastRobot()
    summary = record(again, robot=robot, policy=_until(4))
    assert (summary.ok, summary.total_episodes, summary.total_frames) == (True, 4, 14)
    assert [one.episode for one in summary.episodes] == [2, 3]
    assert robot.resets[0] == (2, 0)
    with pytest.raises(RolltapeError):
        record(again, robot=FastRobot(fps=10), policy=_until(4))
    with pytest.raises(RolltapeError):
        record(again, robot=FastRobot(camera=True), policy=_until(4))
    assert rolltape.open(root).num_episodes == 4


def test_a_policy_that_fails_keeps_what_was_saved(tmp_path: Path) -> None:
    root, calls = tmp_path / "set", []

    def failing(observation: Any) -> Any:
        calls.append(1)
        if len(calls) > 10:
            raise ZeroDivisionError("the policy's own mistake")
        return push(observation)

    robot = FastRobot()
    with pytest.raises(ZeroDivisionError):
        record(config(root, num_episodes=5, episode_time_s=4 / 30), robot=robot, policy=failing)
    dataset = rolltape.open(root)
    assert (dataset.num_episodes, dataset.num_frames) == (2, 8)
    assert not (root / ".rolltape").exists()
    assert not robot.closed, "a robot that was passed is its owner's"


def test_a_trajectory_drives_any_scene(tmp_path: Path) -> None:
    actions = np.linspace(-0.4, 0.4, 30, dtype=np.float32)[:, None]
    np.save(tmp_path / "push.npy", actions)
    robot = RobotConfig(scene=write(tmp_path, SLIDER), cameras={"eye": {"width": 32, "height": 32}})
    dataset = DatasetConfig("me/slide", "slide", tmp_path / "set", num_episodes=2, fps=20, rgb_encoder=H264)
    summary = record(RecordConfig(robot, TeleopConfig(path=tmp_path / "push.npy"), dataset))
    assert (summary.ok, summary.successes, [one.frames for one in summary.episodes]) == (True, None, [30, 30])
    opened = rolltape.open(tmp_path / "set")
    assert np.array_equal(opened.episode(1).batch()["action"].reshape(-1), actions.reshape(-1))
    assert opened.episode(1).fields["success"] is None
    assert opened.features["action"].element_names == ["push.pos"]
    np.save(tmp_path / "wide.npy", np.zeros((5, 3)))
    with pytest.raises(UsageError, match=r"1 columns \(push.pos\)"):
        record(RecordConfig(robot, TeleopConfig(path=tmp_path / "wide.npy"), dataset))


def test_pictures_in_tables_and_depth(tmp_path: Path) -> None:
    cameras = {"front": {"width": 32, "height": 24, "use_depth": True}}
    robot = RobotConfig(cameras=cameras)
    summary = record(config(tmp_path / "set", robot=robot, num_episodes=1, episode_time_s=0.4))
    dataset = rolltape.open(tmp_path / "set", depth_unit="mm", layout="HWC")
    assert summary.ok
    with MujocoRobot(cameras={"front": CameraView(32, 24, depth=True)}) as simulated:
        simulated.reset(episode=0)
        seen = simulated.observe()["observation.images.front_depth"]
    read = dataset[0]["observation.images.front_depth"]
    assert np.abs(read.astype(float) - seen).max() < 20, "12 bits, logarithmic"

    summary = record(config(tmp_path / "png", robot=robot, num_episodes=1, episode_time_s=0.2, video=False))
    dataset = rolltape.open(tmp_path / "png", depth_unit="mm", layout="HWC")
    assert dataset.features["observation.images.front"].dtype == "image"
    assert np.array_equal(dataset[0]["observation.images.front_depth"].squeeze(), seen.squeeze())


def test_the_wall_clock_can_be_kept(tmp_path: Path) -> None:
    record(config(tmp_path / "set", num_episodes=1, wall_time=True), robot=FakeRobot(fps=50), policy=_until(6))
    seconds = rolltape.open(tmp_path / "set").episode(0).batch()["wall_time"]
    assert seconds.dtype == np.float64
    assert (np.diff(seconds) > 0).all()
    assert 0.09 < seconds[-1] - seconds[0] < 5
