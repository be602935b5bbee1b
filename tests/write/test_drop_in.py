"""The recording half of the drop-in `LeRobotDataset`, as a user of lerobot writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from rolltape import LeRobotDataset
from sample import FRONT, f1
from write.recordings import H264, ONE_CAMERA, STATE, TABLES, check_whole, files, frame, rows


def create(root: Path | None, features: dict[str, Any] | None = None, **options: Any) -> LeRobotDataset:
    return LeRobotDataset.create("me/lift", 10, features or ONE_CAMERA, root=root, rgb_encoder=H264, **options)


def add(dataset: LeRobotDataset, length: int, features: dict[str, Any] | None = None) -> None:
    for number in range(length):
        code = dataset.meta.total_frames + number
        values = frame(features or ONE_CAMERA, dataset.meta.total_episodes, number, code)
        dataset.add_frame({**values, "task": "lift"})


def test_a_recording_as_the_reference_has_it(tmp_path: Path) -> None:
    root = tmp_path / "set"
    dataset = create(root, robot_type="arm", image_writer_threads=4, streaming_encoding=True, metadata_buffer_size=1)
    assert not dataset.has_pending_frames()
    for length in (5, 3):
        add(dataset, length)
        assert dataset.has_pending_frames()
        dataset.save_episode(parallel_encoding=False)
    add(dataset, 2)
    dataset.clear_episode_buffer()
    assert not dataset.has_pending_frames()
    assert (dataset.num_episodes, dataset.num_frames) == (2, 8)
    with pytest.raises(RuntimeError):
        dataset[0]
    dataset.finalize()
    dataset.finalize()
    check_whole(root, 2, 8)
    assert len(dataset) == 8
    assert dataset[7]["task"] == "lift"


def test_the_default_root_is_under_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    dataset = create(None, TABLES)
    add(dataset, 2, TABLES)
    dataset.save_episode()
    dataset.finalize()
    check_whole(tmp_path / "me/lift", 1, 2, [])
    with pytest.raises(FileExistsError):
        create(None, TABLES)


def test_resume(tmp_path: Path) -> None:
    root = f1(tmp_path / "set").root
    with pytest.raises(ValueError, match="root"):
        LeRobotDataset.resume("me/lift")
    with LeRobotDataset.resume("me/lift", root=root) as dataset:
        add(dataset, 2)
        dataset.save_episode()
    check_whole(root, 4, 18)


def test_A21_batches(tmp_path: Path) -> None:
    root = tmp_path / "set"
    dataset = create(root, batch_encoding_size=2)
    for _ in range(3):
        add(dataset, 2)
        dataset.save_episode()
    dataset.finalize()
    check_whole(root, 3, 6)


def test_a_whole_episode_at_once(tmp_path: Path) -> None:
    root = tmp_path / "set"
    dataset = create(root)
    frames = [frame(ONE_CAMERA, 0, number, number) for number in range(4)]
    data = {name: [one[name] for one in frames] for name in ONE_CAMERA}
    dataset.save_episode({**data, "task": ["lift"] * 4, "size": 4}, fields={"good": True})
    with pytest.raises(ValueError, match="different lengths"):
        dataset.save_episode({**data, "task": ["lift"] * 3})
    with pytest.raises(ValueError, match="tasks"):
        dataset.save_episode(data)
    dataset.finalize()
    check_whole(root, 1, 4)
    assert rows(root).column("good").to_pylist() == [True]


def test_errors_are_of_the_references_kinds(tmp_path: Path) -> None:
    dataset = create(tmp_path / "set", TABLES)
    with pytest.raises(ValueError, match="task: missing"):
        dataset.add_frame(frame(TABLES, 0, 0, 0))
    with pytest.raises(ValueError, match="no frames"):
        dataset.save_episode()
    add(dataset, 1, TABLES)
    dataset.save_episode()
    dataset.finalize()
    reader = LeRobotDataset("me/lift", root=tmp_path / "set")
    calls: list[Callable[[], None]] = [lambda: add(reader, 1, TABLES), reader.save_episode, reader.clear_episode_buffer]
    for call in calls:
        with pytest.raises(RuntimeError, match="only read"):
            call()
    assert not reader.has_pending_frames()


def test_numbers_that_are_not_finite_are_kept_as_the_reference_keeps_them(tmp_path: Path) -> None:
    dataset = create(tmp_path / "set", TABLES)
    dataset.add_frame({STATE: np.array([0, np.nan], np.float32), "action": np.zeros(2, np.float32), "task": "t"})
    with pytest.warns(UserWarning, match="not finite"):
        dataset.save_episode()
    dataset.finalize()
    assert np.isnan(rolltape.open(tmp_path / "set")[0][STATE][1])


def test_the_context_manager_keeps_saved_episodes_after_an_error(tmp_path: Path) -> None:
    root = tmp_path / "set"

    def fail() -> None:
        with create(root) as dataset:
            add(dataset, 3)
            dataset.save_episode()
            add(dataset, 3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    check_whole(root, 1, 3)
    assert len(files(root, f"videos/{FRONT}")) == 1
