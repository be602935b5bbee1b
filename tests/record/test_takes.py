"""Robots and simulators whose encoders cannot keep up, and what a recording says of a kill."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rolltape
from record.robots import FakeRobot, FastRobot, config, push
from rolltape.errors import EncodeError, OpenTakeError, UsageError
from rolltape.record import Began, record
from rolltape.write import cameras, find_takes, recover_takes


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make the encoders slow."""
    real = cameras.CameraTake._prepared

    def late(self: cameras.CameraTake, picture: Any) -> Any:
        time.sleep(seconds)
        return real(self, picture)

    monkeypatch.setattr(cameras.CameraTake, "_prepared", late)


@pytest.mark.parametrize("simulated", [False, True])
def test_only_a_real_robot_has_a_spool_unless_told(tmp_path: Path, simulated: bool) -> None:
    robot = FastRobot(camera=True) if simulated else FakeRobot(camera=True)
    events: list[Any] = []
    settings: dict[str, Any] = {"num_episodes": 1, "episode_time_s": 0.2, "reset_time_s": 0}
    record(config(tmp_path / "a", **settings), robot=robot, policy=push, on_event=events.append)
    (began,) = [event for event in events if isinstance(event, Began)]
    assert began.spool_s == (0 if simulated else 10)
    assert began.loss_s is not None
    assert (began.loss_s > 0.2) == simulated
    events.clear()
    record(config(tmp_path / "b", spool_seconds=1, **settings), robot=robot, policy=push, on_event=events.append)
    (began,) = [event for event in events if isinstance(event, Began)]
    assert (began.spool_s, began.loss_s) == (1, 0.2)


def test_a_spool_of_no_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"dataset\.spool_seconds"):
        record(config(tmp_path / "set", spool_seconds=-1), robot=FakeRobot(), policy=push)


def test_a_simulator_waits_for_its_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, 0.01)
    settings: dict[str, Any] = {"num_episodes": 1, "episode_time_s": 2, "encoder_queue_maxsize": 2}
    summary = record(config(tmp_path / "set", **settings), robot=FastRobot(camera=True), policy=push)
    assert summary.ok
    assert len(rolltape.open(tmp_path / "set")) == 60


def test_a_robots_episode_ends_and_is_left_for_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set"
    settings: dict[str, Any] = {"episode_time_s": 10, "reset_time_s": 0, "spool_seconds": 0.3, "num_episodes": 1}
    with monkeypatch.context() as patch:
        slow(patch, 0.2)
        with pytest.warns(UserWarning, match="rolltape recover"), pytest.raises(EncodeError, match="cannot keep up"):
            record(config(root, **settings), robot=FakeRobot(camera=True), policy=push)
    (take,) = find_takes(root)
    assert take.frames >= 9
    with pytest.raises(OpenTakeError, match="rolltape recover"):
        record(replace(config(root, **settings), resume=True), robot=FakeRobot(camera=True), policy=push)
    recover_takes(root, "keep")
    states = rolltape.open(root).table().column("observation.state").to_pylist()
    assert states == [[0.0, float(tick)] for tick in range(take.frames)]
