"""The rate that was reached is measured, kept, and said where it is not the one that is stamped."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import rolltape
from record.robots import FakeRobot, FastRobot, config, push
from rolltape.errors import RecordError
from rolltape.record import Cadence, Event, RobotConfig, Ticked, Warned, record
from rolltape.sim import MujocoRobot


class Clock:
    """Time that passes only when somebody waits or works."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


def test_A26_a_loop_slower_than_its_rate_is_measured_and_said(tmp_path: Path) -> None:
    root, events = tmp_path / "set", list[Event]()
    slow = FakeRobot(fps=30, read_s=0.08)
    summary = record(config(root, num_episodes=1, episode_time_s=0.7), robot=slow, policy=push, on_event=events.append)
    (result,) = summary.episodes
    assert result.frames == 21
    assert result.measured_fps is not None
    assert 6 < result.measured_fps <= 12.5, "80 ms and more a tick; less only where the machine is very busy"
    assert result.worst_interval_s is not None
    assert result.worst_interval_s >= 0.08
    assert result.late >= 19
    (warning,) = [one.text for one in events if isinstance(one, Warned)]
    assert f"{result.measured_fps:.1f} Hz" in warning
    assert "30 Hz" in warning
    assert summary.warnings == (warning,)
    assert summary.ok, "the dataset is whole; it is the rate that is not"
    fields = rolltape.open(root).episode(0).fields
    assert fields["measured_fps"] == result.measured_fps
    assert fields["worst_interval_s"] == result.worst_interval_s
    assert max(one.late for one in events if isinstance(one, Ticked)) == result.late


def test_A26_strict_ends_the_run(tmp_path: Path) -> None:
    slow = FakeRobot(fps=30, read_s=0.08)
    with pytest.raises(RecordError, match="cannot keep its rate"):
        record(config(tmp_path / "set", num_episodes=1, strict_rate=True), robot=slow, policy=push)


def test_A26_a_loop_in_time_is_not_warned_of(tmp_path: Path) -> None:
    made = config(tmp_path / "set", num_episodes=6, episode_time_s=0.5, reset_time_s=0)
    summary = record(made, robot=FakeRobot(fps=40), policy=push)
    kept = [one for one in summary.episodes if one.measured_fps == pytest.approx(40, rel=0.05)]
    assert kept, "a busy machine may miss its time, but not in every episode"
    assert len(summary.warnings) == 6 - len(kept)


def test_A26_simulated_time_needs_no_clock(tmp_path: Path) -> None:
    summary = record(config(tmp_path / "set", episode_time_s=1), robot=FastRobot(fps=30, read_s=0.002), policy=push)
    assert [(one.measured_fps, one.late) for one in summary.episodes] == [(None, 0), (None, 0)]
    assert set(rolltape.open(tmp_path / "set").episode(0).fields) == {"success"}


def test_A26_a_simulator_in_real_time_is_paced(tmp_path: Path) -> None:
    with MujocoRobot(cameras={}, fps=50) as robot:
        real = RobotConfig(cameras={}, realtime=True)
        made = config(tmp_path / "set", robot=real, num_episodes=1, episode_time_s=0.6)
        summary = record(made, robot=robot, policy=lambda observation: observation["observation.state"])
    measured = summary.episodes[0].measured_fps
    assert measured is not None
    assert 10 < measured <= 51


def test_ticks_begin_in_time_without_drift() -> None:
    clock = Clock()
    cadence, starts = Cadence(10, clock=clock, sleep=clock.work), []
    for _ in range(50):
        cadence.tick()
        starts.append(clock())
        clock.work(0.037)
    assert starts == pytest.approx([100 + k / 10 for k in range(50)])
    pace = cadence.pace()
    assert (pace.late, pace.kept) == (0, True)
    assert pace.hz == pytest.approx(10)
    assert pace.worst_interval_s == pytest.approx(0.1)


def test_a_hiccup_is_late_once_and_not_caught_up() -> None:
    clock = Clock()
    cadence, starts = Cadence(10, clock=clock, sleep=clock.work), []
    for tick in range(10):
        cadence.tick()
        starts.append(clock())
        clock.work(0.45 if tick == 4 else 0.01)
    gaps = [round(later - earlier, 6) for earlier, later in pairwise(starts)]
    assert gaps[4] == 0.45
    assert min(gaps) >= 0.09, "the loop does not hurry after it"
    pace = cadence.pace()
    assert pace.late == 1
    assert pace.worst_interval_s == pytest.approx(0.45)


def test_waiting_ends_when_it_is_interrupted() -> None:
    clock = Clock()
    cadence = Cadence(0.1, clock=clock, sleep=clock.work)
    cadence.tick()
    cadence.tick(lambda: clock() > 101)
    assert clock() < 101.1


def test_an_episode_of_one_tick_has_no_rate() -> None:
    cadence = Cadence(10)
    cadence.tick()
    pace = cadence.pace()
    assert (pace.hz, pace.worst_interval_s, pace.kept) == (None, None, True)
