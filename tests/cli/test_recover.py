"""`rolltape recover`: lists, keeps, drops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rolltape
from rolltape.cli import main
from rolltape.write import Writer

FEATURES = {"action": {"dtype": "float32", "shape": [2]}}


def run(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    code = main(tokens)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def record(writer: Writer, frames: int) -> None:
    for number in range(frames):
        writer.add_frame({"action": np.full(2, number, np.float32)}, task="lift the cube")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset with one episode and two open takes."""
    folder = tmp_path / "set"
    with Writer.create(folder, 10, FEATURES) as writer:
        record(writer, 3)
        writer.save_episode()
        for frames in (12, 5):
            record(writer, frames)
            writer.leave_episode()
    return folder


def test_without_a_flag_it_lists_and_changes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    code, out, err = run(capsys, "recover", str(root))
    assert (code, err) == (0, "")
    assert "2 open takes" in out
    assert "1, 12 frames, 1.2 s" in out
    assert "2, 5 frames, 0.5 s" in out
    assert "lift the cube" in out
    assert "--keep" in out
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    code, out, _ = run(capsys, "recover", str(root), "--json")
    takes = json.loads(out)["takes"]
    assert [(one["n"], one["episode_index"], one["frames"]) for one in takes] == [(1, 1, 12), (2, 2, 5)]
    assert takes[0]["streams"] == {"rows": 12}


def test_keep(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "recover", str(root), "--keep")
    assert (code, out, err) == (0, "take 1: episode 1, 12 frames\ntake 2: episode 2, 5 frames\n", "")
    assert [int(length) for length in rolltape.open(root).meta.episodes.length] == [3, 12, 5]
    assert not (root / ".rolltape").exists()
    code, out, _ = run(capsys, "recover", str(root), "--keep")
    assert (code, "no open take" in out) == (0, True)


def test_one_take_of_several(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "recover", str(root), "--drop", "--take=1", "--json")
    assert code == 0
    assert [(one["n"], one["action"]) for one in json.loads(out)["takes"]] == [(1, "dropped")]
    code, out, _ = run(capsys, "recover", str(root), "--keep", "--take", "2")
    assert (code, out) == (0, "take 2: episode 1, 5 frames\n")
    assert rolltape.open(root).num_episodes == 2


def test_what_makes_no_sense(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "recover", str(root), "--keep", "--drop")
    assert (code, "not both" in err) == (2, True)
    code, _, err = run(capsys, "recover", str(root), "--keep", "--take=9")
    assert (code, "no such open take" in err) == (2, True)
    code, _, err = run(capsys, "recover", str(tmp_path / "nowhere"))
    assert code == 1
    code, out, _ = run(capsys, "recover", str(root), "--drop")
    assert (code, out) == (0, "take 1: dropped\ntake 2: dropped\n")


def test_a_recording_under_way_is_left_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Writer.resume(root, "drop") as writer:
        record(writer, 3)
        for flags in ((), ("--keep",), ("--drop",)):
            code, _, err = run(capsys, "recover", str(root), *flags)
            assert (code, "Another writer" in err) == (1, True)
        writer.save_episode()
    assert rolltape.open(root).num_episodes == 2


def test_the_check_names_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "check", str(root))
    assert "files.work_area" in out
    assert "rolltape recover" in out
    code, _, err = run(capsys, "pack", str(root))
    assert (code, "rolltape recover" in err) == (1, True)
