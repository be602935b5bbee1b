"""What our own writer leaves has no finding, after every commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from rolltape import check

FRONT, DEPTH = "observation.images.front", "observation.images.depth"
FEATURES: dict[str, Any] = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
    "action": {"dtype": "float64", "shape": (2,), "names": None},
    "grip": {"dtype": "float32", "shape": (1,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "note": {"dtype": "string", "shape": (1,), "names": None},
    "tactile": {"dtype": "int16", "shape": (2, 3), "names": None},
    FRONT: {"dtype": "video", "shape": (64, 96, 3), "names": ["height", "width", "channels"]},
    DEPTH: {
        "dtype": "video",
        "shape": (64, 96, 1),
        "names": ["height", "width", "channels"],
        "info": {"is_depth_map": True},
    },
    "observation.images.still": {"dtype": "image", "shape": (3, 16, 24), "names": ["channels", "height", "width"]},
}


def frame(episode: int, step: int) -> dict[str, Any]:
    return {
        "observation.state": np.array([episode, step, 0], np.float32),
        "action": np.array([step, -step], np.float64),
        "grip": np.array([step / 10], np.float32),
        "next.done": np.array([step == 4]),
        "note": f"e{episode}f{step}",
        "tactile": np.full((2, 3), step, np.int16),
        FRONT: np.full((64, 96, 3), 20 * step, np.uint8),
        DEPTH: np.full((64, 96, 1), 500 + 20 * step, np.uint16),
        "observation.images.still": np.full((3, 16, 24), 10 * step, np.uint8),
    }


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_nothing_is_found_in_what_we_write(tmp_path: Path, durability: Any) -> None:
    root = tmp_path / "set"
    with rolltape.Writer.create(
        root, 10, FEATURES, episode_fields={"operator": "string"}, durability=durability
    ) as writer:
        for episode, length in enumerate((5, 7, 4)):
            for step in range(length):
                writer.add_frame(frame(episode, step), task="lift" if step < 3 else "place")
            writer.save_episode(fields={"operator": "ann"})
            report = check.run(root)
            assert (report.ids, report.episodes) == (("files.work_area",), episode + 1)
    report = check.run(root, deep=True)
    assert report.findings == ()
    assert (report.episodes, report.frames) == (3, 16)


def test_nothing_is_found_after_resuming_and_packing(tmp_path: Path) -> None:
    root = tmp_path / "set"
    for session in range(2):
        opened = rolltape.Writer.resume(root) if session else rolltape.Writer.create(root, 10, FEATURES)
        with opened as writer:
            for step in range(5):
                writer.add_frame(frame(session, step), task="lift")
            writer.save_episode()
            if session:
                writer.pack(keep_old=True)
                assert set(check.run(root).ids) <= {"files.work_area", "files.orphan_video"}
    assert check.run(root, deep=True).findings == ()


def test_A25_nothing_is_found_in_a_dataset_without_episodes(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with rolltape.Writer.create(root, 10, FEATURES):
        pass
    assert check.run(root, deep=True).findings == ()
    (root / "meta/tasks.parquet").write_bytes(b"x")
    assert not check.run(root).ok
