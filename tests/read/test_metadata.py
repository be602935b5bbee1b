"""The description of a dataset: all of it is read, and it is held against itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolltape
import sample
from rolltape import errors
from rolltape.read import Metadata
from sample import FRONT

SPLIT = {"episode_files": [[0], [1], [2]], "episode_numbers": [(0, 0), (0, 1), (1, 0)]}


def rows_file(root: Path, chunk: int = 0, file: int = 0) -> Path:
    return root / f"meta/episodes/chunk-{chunk:03d}/file-{file:03d}.parquet"


def test_A05_all_files_of_episode_rows_are_read(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", **SPLIT)
    meta = Metadata.load(made.root)

    assert meta.episodes.index.tolist() == [0, 1, 2]
    assert meta.episodes.length.tolist() == [5, 7, 4]
    assert meta.episodes.tasks == [["a"], ["b"], ["a"]]
    assert meta.episodes.video(FRONT).from_timestamp.tolist() == [0.0, 0.5, 1.2]


def test_A05_a_lost_file_of_episode_rows_is_named_with_its_episodes(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", **SPLIT)
    rows_file(made.root, 0, 1).unlink()
    with pytest.raises(errors.FormatError, match="missing: 1") as caught:
        Metadata.load(made.root)
    assert "3 episodes, as info.json says" in str(caught.value)
    assert "2 rows" in str(caught.value)
    assert Metadata.load(made.root, allow_damaged=True).episodes.index.tolist() == [0, 2]


def test_A05_files_are_ordered_by_number_and_never_by_name(tmp_path: Path) -> None:
    # By name, chunk-1000 would come before chunk-101 and file-1000 before file-999.
    numbers = [(0, 999), (0, 1000), (1000, 0)]
    made = sample.f1(
        tmp_path / "f1", episode_files=[[0], [1], [2]], episode_numbers=numbers, data_files=[[0], [1], [2]]
    )
    meta = Metadata.load(made.root)
    assert meta.episodes.index.tolist() == [0, 1, 2]
    assert [meta.data_path(place) for place in range(3)] == [f"data/chunk-000/file-00{k}.parquet" for k in range(3)]


def test_rows_in_any_order_are_sorted_by_episode(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", episode_files=[[2, 0], [1]])
    assert Metadata.load(made.root).episodes.index.tolist() == [0, 1, 2]
    assert [int(item["index"]) for item in rolltape.open(made.root, cameras=[])] == list(range(16))


def test_a_duplicate_row_is_named_with_both_files(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", **SPLIT)
    rows_file(made.root, 1, 0).write_bytes(rows_file(made.root, 0, 0).read_bytes())
    with pytest.raises(errors.FormatError, match="Episode 0 has more than one row") as caught:
        Metadata.load(made.root)
    assert "chunk-000/file-000" in str(caught.value)
    assert "chunk-001/file-000" in str(caught.value)


@pytest.mark.parametrize(("key", "value"), [("total_episodes", 2), ("total_episodes", 4), ("total_frames", 17)])
def test_counts_that_disagree_are_both_said(tmp_path: Path, key: str, value: int) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.edit_info(made.root, lambda info: info.update({key: value}))
    with pytest.raises(errors.FormatError) as caught:
        Metadata.load(made.root)
    assert f"{value} {key.removeprefix('total_')}, as info.json says" in str(caught.value)
    assert ("3 rows" if key == "total_episodes" else "16 frames") in str(caught.value)


def test_rows_ahead_of_info_are_right_while_a_recording_is_under_way(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.edit_info(made.root, lambda info: info.update(total_episodes=2, total_frames=12))
    (made.root / ".rolltape").mkdir()
    assert len(Metadata.load(made.root).episodes) == 3


def test_a_row_that_contradicts_itself_is_named(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.edit_table(rows_file(made.root), lambda table: sample.set_column(table, "length", [5, 8, 4]))
    with pytest.raises(errors.FormatError, match="episode 1 contradicts itself") as caught:
        Metadata.load(made.root)
    assert "length 8" in str(caught.value)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), True, "30", None])
def test_A14_a_bad_fps_is_refused_before_any_other_file_is_touched(tmp_path: Path, fps: Any) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.edit_info(made.root, lambda info: info.update(fps=fps))
    for path in made.root.rglob("*.parquet"):
        path.write_bytes(b"not to be touched")
    with pytest.raises(errors.FormatError, match="fps") as caught:
        rolltape.open(made.root)
    assert "info.json" in str(caught.value)


def test_A14_a_missing_fps_is_refused(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.edit_info(made.root, lambda info: info.pop("fps"))
    with pytest.raises(errors.FormatError, match="fps is missing"):
        rolltape.open(made.root)


def test_A14_a_fractional_fps_is_kept_and_each_frame_is_its_own(tmp_path: Path) -> None:
    lengths = (40, 30, 50)
    made = sample.build(tmp_path / "ntsc", lengths=lengths, tasks=None, fps=29.97, fps_fraction=(30000, 1001))
    dataset = rolltape.open(made.root, delta_timestamps={FRONT: [-1001 / 30000, 0.0]})
    assert dataset.fps == 29.97
    for index in (0, 39, 40, 69, 70, 119):
        assert sample.read_level(dataset[index][FRONT][1]) == made.level(index)


def test_A11_a_cut_file_of_episode_rows_names_file_kind_and_episodes(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", **SPLIT)
    sample.cut_off(rows_file(made.root, 0, 1))
    with pytest.raises(errors.DamagedFileError, match=r"truncated \(no footer\)") as caught:
        rolltape.open(made.root)
    assert caught.value.path == "meta/episodes/chunk-000/file-001.parquet"
    assert caught.value.episodes == (1,)
    assert "rolltape check" in str(caught.value)
    with pytest.warns(RuntimeWarning, match="file-001"):
        dataset = rolltape.open(made.root, allow_damaged=True)
    assert dataset.episodes == [0, 2]
    assert [int(item["index"]) for item in dataset] == [0, 1, 2, 3, 4, 12, 13, 14, 15]


def test_A11_an_lfs_pointer_is_called_one(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    sample.make_pointer(rows_file(made.root))
    with pytest.raises(errors.DamagedFileError, match="Git LFS pointer, not the content") as caught:
        rolltape.open(made.root)
    assert "git lfs pull" in str(caught.value)
    assert caught.value.episodes == (0, 1, 2)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello, this is no table at all", b"PAR1" + bytes(100) + b"PAR1"])
def test_A11_other_damage_is_told_by_file(tmp_path: Path, content: bytes) -> None:
    made = sample.f1(tmp_path / "f1")
    (made.root / "meta/tasks.parquet").write_bytes(content)
    with pytest.raises(errors.DamagedFileError) as caught:
        rolltape.open(made.root)
    assert caught.value.path == "meta/tasks.parquet"


def test_null_video_rows_are_marked_and_not_guessed(tmp_path: Path) -> None:
    made = sample.build(tmp_path / "null", cameras={FRONT: sample.Camera(missing=[1])})
    columns = Metadata.load(made.root).episodes.video(FRONT)
    assert columns.valid.tolist() == [True, False, True]
    assert columns.chunk.tolist() == [0, 0, 0]


def test_video_columns_as_floats_with_nan_are_read(tmp_path: Path) -> None:
    made = sample.build(tmp_path / "null", cameras={FRONT: sample.Camera(missing=[1])})

    def as_pandas_leaves_them(table: pa.Table) -> pa.Table:
        for part in ("chunk_index", "file_index"):
            at = table.schema.get_field_index(f"videos/{FRONT}/{part}")
            values = [np.nan if one is None else float(one) for one in table.column(at).to_pylist()]
            table = table.set_column(at, table.schema.field(at).name, pa.array(values))
        return table

    sample.edit_table(rows_file(made.root), as_pandas_leaves_them)
    assert Metadata.load(made.root).episodes.video(FRONT).valid.tolist() == [True, False, True]


def test_an_unfinished_recording_says_so(tmp_path: Path) -> None:
    (tmp_path / "new/.rolltape").mkdir(parents=True)
    with pytest.raises(errors.DatasetNotFoundError, match="unfinished recording"):
        rolltape.open(tmp_path / "new")


def test_a_folder_without_info_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(errors.DatasetNotFoundError, match="no dataset"):
        rolltape.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        rolltape.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_other_layouts_are_refused_by_name(tmp_path: Path) -> None:
    golden = Path(__file__).resolve().parent.parent / "data/golden"
    with pytest.raises(errors.UnsupportedFormatError, match=r"v2\.1"):
        rolltape.open(golden / "v21/v21_video")
    made = sample.f1(tmp_path / "lance")
    sample.edit_info(made.root, lambda info: info.update(storage_format="lance"))
    with pytest.raises(errors.UnsupportedFormatError, match="Lance"):
        rolltape.open(made.root)


def test_A69_the_files_of_v21_under_the_name_v30_are_refused(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "old", **SPLIT)
    shutil.rmtree(made.root / "meta/episodes")
    (made.root / "meta/episodes.jsonl").write_text(json.dumps({"episode_index": 0, "tasks": ["a"], "length": 5}))
    with pytest.raises(errors.UnsupportedFormatError, match=r"files of v2\.1"):
        rolltape.open(made.root)


def test_reading_creates_nothing_and_asks_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sample.f3(tmp_path / "data/f3")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    dataset = rolltape.open(made.root, delta_steps={"action": [0, 1]})
    list(dataset)
    assert dataset.stats is not None
    dataset.table()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_dataset_in_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    for path in [*made.root.rglob("*"), made.root]:
        os.chmod(path, 0o555 if path.is_dir() else 0o444)
    try:
        assert len(rolltape.open(made.root)[0]) == 9
    finally:
        for path in [made.root, *made.root.rglob("*")]:
            os.chmod(path, 0o755)


def test_statistics_columns_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sample.f1(tmp_path / "f1")
    wanted: list[list[str]] = []
    read = pq.ParquetFile.read

    def watched(self: pq.ParquetFile, columns: list[str] | None = None, **options: Any) -> pa.Table:
        wanted.append(list(columns or self.schema_arrow.names))
        return read(self, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    Metadata.load(made.root)
    assert any(name.startswith("stats/") for name in pq.read_schema(rows_file(made.root)).names)
    assert wanted
    assert not [name for names in wanted for name in names if name.startswith("stats/")]


def test_per_episode_fields_are_told_from_the_format_s_columns(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", episode_fields={"success": [True, False, None], "operator": ["ann", "bo", "ann"]})
    dataset = rolltape.open(made.root, cameras=[])
    assert dataset.meta.episodes.field_names == ["success", "operator"]
    assert dataset.episode(2).fields == {"success": None, "operator": "ann"}


def test_an_empty_dataset_opens(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    for folder in ("meta/episodes", "data", "videos"):
        for path in sorted((made.root / folder).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    (made.root / "meta/tasks.parquet").unlink()
    sample.edit_info(made.root, lambda info: info.update(total_episodes=0, total_frames=0, total_tasks=0))
    dataset = rolltape.open(made.root)
    assert len(dataset) == 0
    assert list(dataset) == []
    with pytest.raises(errors.SelectionError, match="empty"):
        rolltape.open(made.root, episodes=[0])


@pytest.mark.parametrize("value", [[1, [2]], "much", {"a": 1}, None])
def test_statistics_that_are_no_numbers_are_named(tmp_path: Path, value: Any) -> None:
    made = sample.f1(tmp_path / "f1")
    (made.root / "meta/stats.json").write_text(json.dumps({"action": {"mean": value}}))
    dataset = rolltape.open(made.root)
    with pytest.raises(errors.FormatError, match="action, mean"):
        _ = dataset.stats
    (made.root / "meta/stats.json").unlink()
    assert rolltape.open(made.root).stats is None


def test_a_counter_that_is_far_off_is_not_believed(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", **SPLIT)
    sample.edit_info(made.root, lambda info: info.update(total_episodes=1 << 50))
    with pytest.raises(errors.FormatError, match="disagree"):
        Metadata.load(made.root)
    sample.cut_off(rows_file(made.root, 0, 1))
    with pytest.raises(errors.DamagedFileError):
        Metadata.load(made.root)
