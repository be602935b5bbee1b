"""Odd arguments and odd places: an error that says what is wrong, or the right answer, and nothing in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import rolltape
import sample
from rolltape import errors
from rolltape.read import Metadata, metadata
from sample import FRONT, STATE
from write.recordings import ONE_CAMERA, TABLES, create, frame


@pytest.mark.parametrize(
    "windows",
    [
        {"delta_timestamps": {STATE: 0.1}},
        {"delta_timestamps": {STATE: "0.1"}},
        {"delta_timestamps": {STATE: None}},
        {"delta_timestamps": [STATE]},
        {"delta_timestamps": {STATE: [1e300]}},
        {"delta_steps": {STATE: 1}},
        {"delta_steps": [STATE]},
        {"delta_steps": {STATE: [2**63]}},
        {"delta_steps": {STATE: [2**63 - 1]}},
    ],
)
def test_windows_of_other_forms_are_refused(tmp_path: Path, windows: Any) -> None:
    root = sample.f1(tmp_path / "f1", cameras={}).root
    with pytest.raises(errors.WindowError):
        rolltape.open(root, **windows)


def test_a_window_far_outside_repeats_the_edges(tmp_path: Path) -> None:
    root = sample.f1(tmp_path / "f1", cameras={}).root
    item = rolltape.open(root, delta_steps={STATE: [-(1 << 53), 1 << 53]})[2]
    assert item[STATE].tolist() == [[0, 0], [0, 4]]
    assert item[f"{STATE}_is_pad"].tolist() == [True, True]


def test_A01_an_episode_number_beyond_every_number_is_out_of_range(tmp_path: Path) -> None:
    root = sample.f1(tmp_path / "f1", cameras={}).root
    with pytest.raises(errors.SelectionError, match="out of range"):
        rolltape.open(root, episodes=[2**70])


def _check_nothing(dataset: rolltape.read.Dataset, features: dict[str, Any]) -> None:
    assert (len(dataset), dataset.table().num_rows, dataset[:]) == (0, 0, [])
    batch = dataset.batch([])
    for name, feature in features.items():
        shape = (3, 32, 32) if feature["dtype"] in ("video", "image") else tuple(feature["shape"])
        assert batch[name].shape == (0, *(shape if shape != (1,) else ()))
    assert batch["task"] == []


def test_a_selection_of_nothing_has_everything_but_frames(tmp_path: Path) -> None:
    extras = sample.type_extras()
    made = sample.f1(tmp_path / "f1", extras=extras)
    features = {name: dict(extra.feature) for name, extra in extras.items() if extra.feature["dtype"] != "string"}
    _check_nothing(rolltape.open(made.root, episodes=[]), {**features, FRONT: {"dtype": "video"}})
    _check_nothing(rolltape.open(made.root, where="length > 100"), {})
    windows = rolltape.open(made.root, episodes=[], delta_steps={STATE: [0, 1]}).batch([])
    assert windows[STATE].shape == (0, 2, 2)


def test_A25_a_dataset_without_episodes_has_everything_but_frames(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root):
        pass
    _check_nothing(rolltape.open(root), ONE_CAMERA)
    dataset = rolltape.LeRobotDataset("me/set", root=root)
    assert (len(dataset), dataset.num_episodes) == (0, 0)


def test_A11_without_a_readable_data_file_nothing_is_left(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.cut_off(made.root / "data/chunk-000/file-000.parquet")
    with pytest.warns(RuntimeWarning, match="episodes left out: 0, 1, 2"):
        dataset = rolltape.open(made.root, allow_damaged=True)
    _check_nothing(dataset, {})


def test_A11_damage_inside_a_file_is_told_with_its_episodes(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", cameras={}, data_files=[[0], [1, 2]])
    path = made.root / "data/chunk-000/file-001.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(len(content) - 8) + content[-4:])
    with pytest.raises(errors.DamagedFileError, match=r"file-001\.parquet[\s\S]*episodes affected: 1, 2"):
        rolltape.open(made.root)[15]


@pytest.mark.parametrize("name", ["data/chunk-000/file-000.parquet", f"videos/{FRONT}/chunk-000/file-000.mp4"])
def test_A11_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    made = sample.f1(tmp_path / "f1")
    path = made.root / name
    path.unlink()
    path.symlink_to(path.name)  # a link to itself: no permission bits are needed, which root would ignore
    with pytest.raises((errors.DamagedFileError, errors.NoFootageError), match="file-000"):
        rolltape.open(made.root)[0]


def test_A06_texts_stored_as_a_dictionary_are_read(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", cameras={})
    path = made.root / "meta/tasks.parquet"
    table = pq.read_table(path)
    at = table.column_names.index("task")
    pq.write_table(table.set_column(at, "task", table.column("task").dictionary_encode()), path)
    assert [item["task"] for item in rolltape.open(made.root)] == [made.tasks[made.where(i)[0]] for i in range(16)]


def test_a_path_that_is_given_as_the_repo_id_is_not_found_by_name(tmp_path: Path) -> None:
    with pytest.raises(errors.DatasetNotFoundError):
        rolltape.LeRobotDataset(tmp_path / "no-such-set")  # type: ignore[arg-type]


def test_commits_between_the_reads_of_one_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is faster than the reader: what is opened is whole, whichever commits it has seen."""
    root = tmp_path / "set"
    real = metadata._load_episodes
    commits = [1, 1, 1]
    with create(root, TABLES) as writer:

        def commit() -> None:
            number = writer.total_episodes
            writer.add_frame(frame(TABLES, number, 0, number), task=f"task {number}")
            writer.save_episode()

        def slow(where: Path) -> Any:
            if commits:
                commit()  # after info.json was read
            found = real(where)
            if commits and commits.pop():
                commit()  # before it is read again
            return found

        commit()
        monkeypatch.setattr(metadata, "_load_episodes", slow)
        assert len(Metadata.load(root).episodes) == writer.total_episodes
        commits.append(0)
        dataset = rolltape.open(root)
        assert [item["task"] for item in dataset] == [f"task {k}" for k in range(writer.total_episodes)]
        assert np.array_equal(dataset.table().column("index"), np.arange(len(dataset)))
