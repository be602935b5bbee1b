"""Ctrl-C and SIGTERM in every phase of a recording: the dataset stays whole, and the exit says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolltape
import rolltape.check
from record.robots import FakeRobot, FastRobot, config, push
from rolltape.record import Began, Control, EpisodeBegan, EpisodeSaved, Event, Ticked, record, stopping_on_signals

COMMAND = [sys.executable, "-m", "rolltape", "record", "--robot.type=mujoco", "--dataset.repo_id=me/demo"]
FLAGS = [
    "--dataset.single_task=Lift the cube",
    "--robot.cameras={front: {width: 64, height: 48}}",
    "--robot.realtime=true",
    "--dataset.rgb_encoder.vcodec=h264",
    "--dataset.num_episodes=3",
]


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def recorded(root: Path, when: Callable[[Event], bool], number: int = signal.SIGINT, **options: Any) -> Any:
    """Record three episodes of five frames; send a signal at the first event that fits."""
    control, sent = Control(), list[Event]()

    def follow(event: Event) -> None:
        if not sent and when(event):
            sent.append(event)
            send(number)

    with stopping_on_signals(control):
        made = config(root, num_episodes=3, episode_time_s=5 / 30, **options)
        return record(made, robot=FastRobot(camera=True), policy=push, on_event=follow, control=control)


def test_in_an_episode_the_take_is_thrown_away(tmp_path: Path) -> None:
    episode: list[int] = []

    def third_tick_of_the_second(event: Event) -> bool:
        if isinstance(event, EpisodeBegan):
            episode.append(event.episode)
        return isinstance(event, Ticked) and event.tick == 3 and episode[-1] == 1

    summary = recorded(tmp_path / "set", third_tick_of_the_second)
    assert (summary.stopped_by, summary.discarded, summary.problems) == ("SIGINT", 1, ())
    dataset = rolltape.open(tmp_path / "set")
    assert (dataset.num_episodes, dataset.num_frames) == (1, 5)
    assert not (tmp_path / "set/.rolltape").exists()


def test_in_an_episode_the_take_can_be_saved(tmp_path: Path) -> None:
    def third_tick(event: Event) -> bool:
        return isinstance(event, Ticked) and event.tick == 3

    summary = recorded(tmp_path / "set", third_tick, signal.SIGTERM, interrupted="save")
    assert (summary.stopped_by, [one.frames for one in summary.episodes]) == ("SIGTERM", [3])
    assert rolltape.open(tmp_path / "set").num_frames == 3


def test_before_the_first_frame_nothing_is_left(tmp_path: Path) -> None:
    summary = recorded(tmp_path / "set", lambda event: isinstance(event, Began))
    assert (summary.stopped_by, summary.total_episodes, summary.problems) == ("SIGINT", 0, ())
    assert not (tmp_path / "set").exists(), "so that the same command can be run again"
    empty = tmp_path / "there"
    empty.mkdir()
    recorded(empty, lambda event: isinstance(event, Began))
    assert not list(empty.glob("*"))


def test_after_a_save_the_episode_stays(tmp_path: Path) -> None:
    summary = recorded(tmp_path / "set", lambda event: isinstance(event, EpisodeSaved))
    assert (len(summary.episodes), summary.discarded) == (1, 0)
    assert rolltape.open(tmp_path / "set").num_episodes == 1


def test_in_a_save_the_save_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rolltape.write.session as module

    commit, sent = vars(module)["commit"], list[int]()

    def interrupted(*args: Any, **options: Any) -> Any:
        sent.append(1)
        if len(sent) == 2:
            send(signal.SIGINT)
        return commit(*args, **options)

    monkeypatch.setattr(module, "commit", interrupted)
    summary = recorded(tmp_path / "set", lambda event: False)
    assert (summary.stopped_by, len(summary.episodes), summary.problems) == ("SIGINT", 2, ())
    assert rolltape.open(tmp_path / "set").num_episodes == 2


def test_in_the_reset_phase_of_a_real_robot(tmp_path: Path) -> None:
    control = Control()
    timer = threading.Timer(0.6, send, [signal.SIGINT])

    def follow(event: Event) -> None:
        if isinstance(event, EpisodeSaved):
            timer.start()

    with stopping_on_signals(control):
        made = config(tmp_path / "set", num_episodes=2, episode_time_s=0.1, reset_time_s=60)
        began = time.monotonic()
        summary = record(made, robot=FakeRobot(), policy=push, on_event=follow, control=control)
    assert time.monotonic() - began < 30
    assert (len(summary.episodes), summary.stopped_by) == (1, "SIGINT")


def test_a_second_signal_breaks_off_and_the_dataset_is_whole(tmp_path: Path) -> None:
    root, control = tmp_path / "set", Control()

    def stuck(observation: Any) -> Any:
        if observation["observation.state"][0] == 1:
            send(signal.SIGINT)
            send(signal.SIGINT)
        return push(observation)

    with pytest.raises(KeyboardInterrupt), stopping_on_signals(control):
        record(config(root, episode_time_s=5 / 30), robot=FastRobot(camera=True), policy=stuck, control=control)
    assert rolltape.open(root).num_episodes == 1
    assert rolltape.check.run(root).ok
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_A17_the_command_stops_and_says_so(tmp_path: Path, number: signal.Signals) -> None:
    root = tmp_path / "set"
    process = subprocess.Popen(
        [*COMMAND, *FLAGS, f"--dataset.root={root}", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("episode 0:"):
            break
    time.sleep(0.5)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    summary = json.loads(output)
    assert (summary["stopped_by"], summary["total_episodes"], summary["problems"]) == (number.name, 1, [])
    assert "episode 1: thrown away" in errors
    assert rolltape.open(root).num_episodes == 1
    assert rolltape.check.run(root).ok
    assert {path.name for path in root.iterdir()} == {"data", "meta", "videos"}


def test_A17_a_killed_command_loses_only_the_open_episode(tmp_path: Path) -> None:
    root = tmp_path / "set"
    process = subprocess.Popen([*COMMAND, *FLAGS, f"--dataset.root={root}"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("episode 0:"):
            break
    time.sleep(0.3)
    process.kill()
    process.communicate(timeout=60)
    assert rolltape.open(root).num_episodes == 1
    recovery = [COMMAND[0], "-m", "rolltape", "recover", str(root), "--keep", "--json"]
    recovered = subprocess.run(recovery, capture_output=True, text=True, check=True, timeout=120)
    kept = [one for one in json.loads(recovered.stdout)["takes"] if one["action"] == "kept"]
    assert rolltape.open(root).num_episodes == 1 + len(kept)
    again = [*COMMAND, *(flag for flag in FLAGS if "num_episodes" not in flag and "realtime" not in flag)]
    done = subprocess.run(
        [*again, f"--dataset.root={root}", "--dataset.num_episodes=1", "--resume=true", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total_episodes"] == 2 + len(kept)
    assert rolltape.check.run(root, deep=True).ok
