"""A dataset that was recorded with the same object: what may be read when."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sample
from rolltape import LeRobotDataset
from sample import ACTION, FRONT

torch = pytest.importorskip("torch")

FEATURES = {
    ACTION: {"dtype": "float32", "shape": (2,), "names": None},
    FRONT: {"dtype": "video", "shape": (32, 32, 3), "names": ["height", "width", "channels"]},
}


def frame(index: int) -> dict[str, Any]:
    picture = np.full((32, 32, 3), sample.level(index), np.uint8)
    return {ACTION: np.array([index, -index], np.float32), FRONT: picture, "task": "a" if index < 5 else "b"}


def record(dataset: LeRobotDataset, indices: range) -> None:
    for index in indices:
        dataset.add_frame(frame(index))
    dataset.save_episode()


def assert_frames(dataset: LeRobotDataset, count: int) -> None:
    assert len(dataset) == count
    for index in range(count):
        item = dataset[index]
        assert item[ACTION].tolist() == [index, -index]
        assert sample.read_level(item[FRONT]) == sample.level(index)
        assert item["task"] == ("a" if index < 5 else "b")


def test_sizes_of_zero_are_refused_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="above 0"):
        LeRobotDataset.create("me/new", 10, FEATURES, root=tmp_path / "new", data_files_size_in_mb=0)


def test_settings_while_recording(tmp_path: Path) -> None:
    dataset = LeRobotDataset.create("me/new", 10, FEATURES, root=tmp_path / "new", data_files_size_in_mb=7)
    dataset.meta.update_chunk_settings(video_files_size_in_mb=3)
    limits = {"chunks_size": 1000, "data_files_size_in_mb": 7, "video_files_size_in_mb": 3}
    assert dataset.meta.get_chunk_settings() == limits
    with pytest.raises(ValueError, match="finalize"):
        dataset.meta.tools = [{"type": "function"}]
    dataset.finalize()
    dataset.meta.tools = [{"type": "function"}]
    assert dataset.meta.tools == [{"type": "function"}]
    assert dataset.meta.get_chunk_settings() == limits


def test_items_are_refused_until_the_recording_is_finished(tmp_path: Path) -> None:
    dataset = LeRobotDataset.create("me/new", 10, FEATURES, root=tmp_path / "new")
    assert (len(dataset), dataset.meta.total_episodes, dataset.meta.episodes, dataset.meta.tasks) == (0, 0, None, None)
    record(dataset, range(5))
    assert (len(dataset), dataset.num_frames, dataset.num_episodes) == (5, 5, 1)
    assert dataset.meta.total_frames == 5
    assert dataset.meta.get_task_index("a") == 0
    assert dataset.meta.episodes is not None
    assert dataset.meta.episodes[0]["length"] == 5
    for read in (lambda: dataset[0], lambda: dataset.__getitems__([0]), lambda: pickle.dumps(dataset)):
        with pytest.raises(RuntimeError, match="finalize"):
            read()
    record(dataset, range(5, 12))
    assert dataset.meta.episodes is not None
    assert len(dataset.meta.episodes) == 2
    dataset.finalize()
    dataset.finalize()
    assert_frames(dataset, 12)
    assert_frames(pickle.loads(pickle.dumps(dataset)), 12)
    assert dataset.meta.stats is not None
    assert dataset.meta.stats[ACTION]["max"].tolist() == [11, 0]
    assert_frames(LeRobotDataset("me/new", tmp_path / "new"), 12)


def test_a_recording_that_goes_on(tmp_path: Path) -> None:
    with LeRobotDataset.create("me/new", 10, FEATURES, root=tmp_path / "new") as dataset:
        record(dataset, range(5))
    more = LeRobotDataset.resume("me/new", tmp_path / "new")
    assert len(more) == 5
    record(more, range(5, 12))
    beside = LeRobotDataset("me/new", tmp_path / "new")  # another reader, while the recording is open
    assert_frames(beside, 12)
    more.finalize()
    assert_frames(more, 12)
    assert_frames(LeRobotDataset("me/new", tmp_path / "new", episodes=[0]), 5)


def test_an_empty_recording(tmp_path: Path) -> None:
    dataset = LeRobotDataset.create("me/new", 10, FEATURES, root=tmp_path / "new")
    dataset.finalize()
    assert len(dataset) == 0
    with pytest.raises(IndexError):
        dataset[0]


def test_uploading_comes_later(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    with pytest.raises(NotImplementedError, match="upload"):
        LeRobotDataset("me/made", made.root).push_to_hub()
