"""Policies: trajectories from arrays and files, and names of callables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rolltape.errors import FormatError, UsageError
from rolltape.sim import Hold, MujocoRobot, Trajectory, load_policy, rollout

NAMES = ("pan.pos", "lift.pos")
ROWS = np.array([[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]], dtype=np.float32)


def played(policy: Trajectory, episode: int = 0) -> list[list[float]]:
    policy.reset(episode)
    rows: list[list[float]] = []
    while (row := policy({})) is not None:
        rows.append(row.tolist())
    return rows


def test_files_of_every_kind_hold_the_same(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    np.savez(tmp_path / "b.npz", ROWS)
    np.savez(tmp_path / "c.npz", action=ROWS, other=np.zeros(3))
    (tmp_path / "d.csv").write_text("0.5,1.0\n1.5,2.0\n2.5,3.0\n")
    (tmp_path / "e.csv").write_text("lift,time,pan\n1.0,0,0.5\n2.0,0,1.5\n3.0,0,2.5\n")
    (tmp_path / "f.csv").write_text("\ufefflift.pos, pan.pos\n1.0,0.5\n2.0,1.5\n3.0,2.5\n", encoding="utf-8")
    for name in ("a.npy", "b.npz", "c.npz", "d.csv", "e.csv", "f.csv"):
        assert played(Trajectory.load(tmp_path / name, NAMES)) == ROWS.tolist(), name


def test_a_table_for_each_episode() -> None:
    policy = Trajectory(np.stack([ROWS, ROWS + 10]))
    assert played(policy, 1) == (ROWS + 10).tolist()
    assert played(policy, 2) == ROWS.tolist()


def test_what_is_no_trajectory_is_refused(tmp_path: Path) -> None:
    bad = ROWS.copy()
    bad[1, 0] = np.nan
    with pytest.raises(FormatError, match="episode 0, tick 1, actuator 0"):
        Trajectory(bad)
    for wrong in ([], [1.0, 2.0], [["a"]], np.zeros((0, 3))):
        with pytest.raises(FormatError):
            Trajectory(wrong)
    np.savez(tmp_path / "two.npz", x=ROWS, y=ROWS)
    (tmp_path / "text.csv").write_text("pan,other\n1,2\n")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    (tmp_path / "rows.parquet").write_bytes(b"")
    for name, says in (
        ("two.npz", "several arrays"),
        ("text.csv", "misses columns"),
        ("cut.npy", "cannot be read"),
        ("rows.parquet", "unknown kind"),
    ):
        with pytest.raises(FormatError, match=says):
            Trajectory.load(tmp_path / name, NAMES)
    with pytest.raises(UsageError, match="no trajectory file"):
        Trajectory.load(tmp_path / "missing.npy")


def test_policies_are_named_by_module_and_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_test_policies.py").write_text(
        "def still(observation): return observation['observation.state']\n"
        "class Counting:\n"
        "    def __call__(self, observation): return None\n"
        "NUMBER = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_policy("my_test_policies:still")({"observation.state": 4}) == 4
    assert type(load_policy("my_test_policies:Counting")).__name__ == "Counting"
    for wrong in ("my_test_policies", "my_test_policies:missing", "no_such_module_here:x", "my_test_policies:NUMBER"):
        with pytest.raises(UsageError):
            load_policy(wrong)


def test_holding_still_keeps_the_arm_where_it_is() -> None:
    with MujocoRobot(cameras={}) as robot:
        states = [tick.observation["observation.state"] for tick in rollout(robot, Hold(robot.scene), max_ticks=25)]
    assert np.abs(np.array(states) - states[0]).max() < 0.002


def test_a_rollout_of_no_ticks_is_refused() -> None:
    with MujocoRobot(cameras={}) as robot, pytest.raises(UsageError, match="at least one tick"):
        next(rollout(robot, lambda observation: None, max_ticks=0))
