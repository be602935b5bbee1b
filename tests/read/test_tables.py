"""Rows of frames: found through the episodes table, however the files look, and held against their declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolltape
import sample
from rolltape import errors
from rolltape.read import Dataset
from sample import ACTION, STATE

THREE = {"data_files": [[0], [1], [2]]}


def data_file(root: Path, file: int = 0) -> Path:
    return root / f"data/chunk-000/file-{file:03d}.parquet"


def tables(root: Path, **options: Any) -> Dataset:
    return rolltape.open(root, cameras=[], **options)


def build(root: Path, **options: Any) -> sample.Sample:
    return sample.build(root, cameras={}, **options)


def assert_whole(dataset: Dataset, made: sample.Sample, episodes: list[int] | None = None) -> None:
    """Every frame of the episodes is there, in order, with the right identity."""
    chosen = range(len(made.lengths)) if episodes is None else episodes
    wanted = [(e, f) for e in chosen for f in range(made.lengths[e])]
    assert len(dataset) == len(wanted)
    np.testing.assert_array_equal(dataset.batch(range(len(dataset)))[STATE], np.array(wanted, np.float32))
    for index, (episode, frame) in enumerate(wanted):
        item = dataset[index]
        assert item[STATE].tolist() == [episode, frame]
        assert item[ACTION].tolist() == [made.starts[episode] + frame, -made.starts[episode] - frame]
        assert (int(item["episode_index"]), int(item["frame_index"])) == (episode, frame)
        assert item["task"] == made.tasks[episode]


@pytest.mark.parametrize("lists", ["fixed", "variable"])
@pytest.mark.parametrize("row_groups", ["episode", "one"])
def test_every_way_of_storing_rows(tmp_path: Path, lists: str, row_groups: str) -> None:
    made = build(tmp_path / "made", lists=lists, row_groups=row_groups)
    for episodes in (None, [1], [2, 0]):
        assert_whole(tables(made.root, episodes=episodes), made, episodes)


def test_A06_a_task_is_found_by_its_number_and_not_by_its_row(tmp_path: Path) -> None:
    made = build(tmp_path / "made", tasks=["x", "y", "z"], task_rows=[2, 0, 1])
    assert [tables(made.root)[index]["task"] for index in (0, 5, 12)] == ["x", "y", "z"]

    def index_column(table: pa.Table) -> pa.Table:
        return table.rename_columns(["task_index", "__index_level_0__"])

    sample.edit_table(made.root / "meta/tasks.parquet", index_column)
    assert [tables(made.root)[index]["task"] for index in (0, 5, 12)] == ["x", "y", "z"]


def test_A06_a_number_without_a_row_names_frame_number_and_file(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    numbers = [0] * 7 + [9] + [0] * 8
    sample.edit_table(data_file(made.root), lambda table: sample.set_column(table, "task_index", numbers))
    dataset = tables(made.root)
    for read in (lambda: dataset[7], lambda: dataset.batch([3, 7])):
        with pytest.raises(errors.TaskError) as caught:
            read()
        for part in ("frame 2 of episode 1", "9", "meta/tasks.parquet"):
            assert part in str(caught.value)
    assert dataset[6]["task"] == "a"


def test_A07_a_packed_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path / "made")
    opened: list[str] = []
    init = pq.ParquetFile.__init__

    def watched(self: Any, source: Any, **options: Any) -> None:
        opened.append(str(source))
        init(self, source, **options)

    monkeypatch.setattr(pq.ParquetFile, "__init__", watched)
    dataset = tables(made.root)
    assert len(dataset) == 16
    index = dataset.batch(range(16))["index"]
    assert index.tolist() == list(range(16))
    assert sum("/data/" in path for path in opened) == 1
    assert len(tables(made.root, episodes=[0, 1])) == 12


def test_A13_files_listed_in_another_order_give_the_right_rows(tmp_path: Path) -> None:
    made = build(tmp_path / "made", data_files=[[2], [0, 1]])
    assert_whole(tables(made.root), made)
    made = build(tmp_path / "mixed", data_files=[[1, 0], [2]], data_numbers=[(3, 7), (0, 2)])
    for episodes in (None, [0], [2, 1]):
        assert_whole(tables(made.root, episodes=episodes), made, episodes)


def test_A13_stale_edges_are_said_as_such_and_not_as_a_timing_problem(tmp_path: Path) -> None:
    made = build(tmp_path / "made")

    def stale(table: pa.Table) -> pa.Table:
        table = sample.set_column(table, "length", [5, 6, 5])
        table = sample.set_column(table, "dataset_from_index", [0, 5, 11])
        return sample.set_column(table, "dataset_to_index", [5, 11, 16])

    sample.edit_table(made.root / "meta/episodes/chunk-000/file-000.parquet", stale)
    dataset = tables(made.root)
    with pytest.raises(errors.FormatError, match="episode 1 disagree") as caught:
        dataset[0]
    assert "6 rows, index 5..11" in str(caught.value)
    assert "7 rows, index 5..12" in str(caught.value)
    assert "sync" not in str(caught.value)
    assert tables(made.root, episodes=[0])[4][STATE].tolist() == [0, 4]


def test_rows_that_no_episode_owns_are_ignored(tmp_path: Path) -> None:
    made = build(tmp_path / "made", **THREE)

    def with_strangers(table: pa.Table) -> pa.Table:
        # Rows of a deleted episode, of an episode that lives in another file, and an abandoned take of this one.
        deleted = sample.set_column(table, "episode_index", [77] * len(table))
        elsewhere = sample.set_column(table, "episode_index", [2] * len(table))
        abandoned = sample.set_column(table.slice(0, 3), "index", [900, 901, 902])
        abandoned = sample.set_column(abandoned, "frame_index", [0, 1, 2])
        return pa.concat_tables([deleted, abandoned, table, elsewhere])

    sample.edit_table(data_file(made.root, 1), with_strangers)
    for episodes in (None, [1], [2, 1]):
        assert_whole(tables(made.root, episodes=episodes), made, episodes)


def test_rows_in_another_order_inside_a_file_come_in_the_order_of_frames(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    order = [*range(11, 4, -1), 15, 12, 13, 14, *range(5)]
    sample.edit_table(data_file(made.root), lambda table: table.take(order))
    for episodes in (None, [1], [2, 0]):
        assert_whole(tables(made.root, episodes=episodes), made, episodes)


def test_A08_only_the_row_groups_of_the_chosen_episodes_are_read(tmp_path: Path) -> None:
    made = build(tmp_path / "made", lengths=[20] * 200, tasks=None)
    dataset = tables(made.root, episodes=[3, 199, 50, 51, 7])
    assert_whole(dataset, made, [3, 199, 50, 51, 7])
    table = dataset._table
    assert len(table.values(STATE)) == 100
    assert table.rows_of(table.files[0]).groups == [3, 7, 50, 51, 199]


def test_A08_columns_that_are_not_asked_for_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(tmp_path / "made", extras=sample.type_extras())
    wanted: list[Any] = []
    read = pq.ParquetFile.read

    def watched(self: pq.ParquetFile, columns: list[str] | None = None, **options: Any) -> pa.Table:
        wanted.append(columns)
        return read(self, columns=columns, **options)

    dataset = tables(made.root, columns=[ACTION], delta_steps={ACTION: range(50)})
    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    assert dataset[0][ACTION].shape == (50, 2)
    assert set(dataset[0]) == {ACTION, f"{ACTION}_is_pad"}
    assert wanted == [["episode_index", "frame_index", "index"], [ACTION]]


def test_A15_scalars_and_vectors_of_one_keep_their_shapes(tmp_path: Path) -> None:
    extras = {
        "grip": sample.Extra({"dtype": "float32", "shape": [1], "names": None}, lambda e, f, i: i / 2, pa.float32()),
        "done": sample.Extra({"dtype": "bool", "shape": [1], "names": None}, lambda e, f, i: f == 0, pa.bool_()),
        "one": sample.Extra(
            {"dtype": "float32", "shape": [1, 1], "names": None},
            lambda e, f, i: [[float(i)]],
            pa.list_(pa.list_(pa.float32())),
        ),
        "wrapped": sample.Extra(
            {"dtype": "float32", "shape": [1], "names": None}, lambda e, f, i: [float(i)], pa.list_(pa.float32(), 1)
        ),
    }
    made = build(tmp_path / "made", extras=extras)
    dataset = tables(made.root)
    shapes = {"grip": (), "done": (), "one": (1, 1), "wrapped": ()}
    assert {name: dataset[3][name].shape for name in shapes} == shapes
    assert {name: feature.item_shape for name, feature in dataset.features.items() if name in shapes} == shapes
    batch = dataset.batch([0, 3, 5, 9])
    assert {name: batch[name].shape for name in shapes} == {name: (4, *shape) for name, shape in shapes.items()}
    assert batch["grip"].tolist() == [0.0, 1.5, 2.5, 4.5]
    assert batch["one"].reshape(-1).tolist() == batch["wrapped"].tolist() == [0.0, 3.0, 5.0, 9.0]


def test_every_kind_of_column(tmp_path: Path) -> None:
    made = build(tmp_path / "made", extras=sample.type_extras())
    item = tables(made.root)[6]
    assert item["grip"].dtype == np.float32
    assert item["grip"] == np.float32(0.6)
    assert item["next.done"].dtype == np.bool_
    assert item["note"] == "e1f1"
    assert item["tactile"].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert item["counter"] == 30
    batch = tables(made.root, delta_steps={"note": [-1, 0], "tactile": [0, 1, 2]}).batch([0, 6])
    assert batch["note"] == [["e0f0", "e0f0"], ["e1f0", "e1f1"]]
    assert batch["tactile"].shape == (2, 3, 2, 3)
    assert batch["tactile"][1, 2, 0, 0] == 8


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        ("float64", pa.float64()),
        ("float16", pa.float16()),
        ("int32", pa.int32()),
        ("uint8", pa.uint8()),
        ("int64", pa.int16()),
        ("uint64", pa.uint64()),
    ],
)
def test_numbers_have_the_declared_dtype(tmp_path: Path, dtype: str, stored: pa.DataType) -> None:
    value = float if pa.types.is_floating(stored) else int
    extra = sample.Extra(
        {"dtype": dtype, "shape": [2, 2], "names": None},
        lambda e, f, i: np.full((2, 2), value(i)).astype(stored.to_pandas_dtype()).tolist(),
        None if dtype != "float16" else pa.list_(pa.list_(pa.float32())),
    )
    made = build(tmp_path / "made", extras={"x": extra}, stats=False)
    found = tables(made.root)[5]["x"]
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == [[5, 5], [5, 5]]


def test_language_rows_are_lists_of_mappings(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("tool_calls", pa.list_(pa.string()))]))
    extra = sample.Extra(
        {"dtype": "language", "shape": [1], "names": None},
        lambda e, f, i: [{"role": "user", "content": f"{e}", "tool_calls": ['{"name": "say"}']}] if f == 1 else [],
        kind,
    )
    made = build(tmp_path / "made", extras={"language_events": extra})
    dataset = tables(made.root)
    assert dataset[0]["language_events"] == []
    said = [{"role": "user", "content": "1", "tool_calls": [{"name": "say"}]}]
    assert dataset[6]["language_events"] == said
    assert dataset.batch([6, 0])["language_events"] == [said, []]


def test_A69_a_list_of_another_length_names_feature_file_row_and_types(tmp_path: Path) -> None:
    made = build(tmp_path / "made", lists="variable")

    def one_longer(table: pa.Table) -> pa.Table:
        values = table.column(STATE).to_pylist()
        values[9] = [1.0, 2.0, 3.0]
        return sample.set_column(table, STATE, values)

    sample.edit_table(data_file(made.root), one_longer)
    with pytest.raises(errors.FormatError, match="Row 9 has a list of another length") as caught:
        tables(made.root)[0]
    for part in ("data/chunk-000/file-000.parquet", STATE, "float32[2]", "3 values instead of 2"):
        assert part in str(caught.value)
    assert tables(made.root, columns=[ACTION])[9][ACTION].tolist() == [9, -9]


def test_A69_wider_numbers_are_read_without_loss_and_told_of_where_they_are_rounded(tmp_path: Path) -> None:
    made = build(tmp_path / "made")

    def stored_as(values: list[list[float]]) -> Any:
        def change(table: pa.Table) -> pa.Table:
            at = table.schema.get_field_index(ACTION)
            return table.set_column(at, ACTION, pa.array(values, pa.list_(pa.float64(), 2)))

        return change

    sample.edit_table(data_file(made.root), stored_as([[float(i), -float(i)] for i in range(16)]))
    assert tables(made.root)[3][ACTION].dtype == np.float32
    assert tables(made.root)[3][ACTION].tolist() == [3, -3]
    sample.edit_table(data_file(made.root), stored_as([[0.5, 0.1 if i == 4 else 0.25] for i in range(16)]))
    with pytest.warns(RuntimeWarning, match=r"file-000.parquet, feature action.*float32\[2\].*row 4"):
        assert tables(made.root)[4][ACTION][1] == np.float32(0.1)


def test_A69_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    made = build(tmp_path / "made")

    def fractions(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("task_index")
        return table.set_column(at, "task_index", pa.array([0.0] * 8 + [0.5] + [0.0] * 7))

    sample.edit_table(data_file(made.root), fractions)
    with pytest.raises(errors.FormatError, match="Row 8 does not fit the declared type") as caught:
        tables(made.root)[0]
    assert "int64[1]" in str(caught.value)
    assert "double" in str(caught.value)


def test_A69_a_declared_feature_without_a_column_is_named(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    sample.edit_table(data_file(made.root), lambda table: table.drop_columns([ACTION]))
    with pytest.raises(errors.FormatError, match="no column") as caught:
        tables(made.root)[0]
    assert "feature action" in str(caught.value)
    assert "file-000.parquet" in str(caught.value)


def test_A69_nulls_are_refused_by_row(tmp_path: Path) -> None:
    made = build(tmp_path / "made", lists="variable")
    values = [[1.0, 1.0]] * 16
    values[2] = None  # type: ignore[call-overload]  # a null in place of the list
    sample.edit_table(data_file(made.root), lambda table: sample.set_column(table, STATE, values))
    with pytest.raises(errors.FormatError, match="Row 2 is null"):
        tables(made.root)[0]


def test_A66_columns_that_are_not_declared_are_ignored(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    before = list(tables(made.root))
    sample.edit_table(data_file(made.root), lambda table: table.append_column("score", pa.array(np.arange(16.0))))
    after = list(tables(made.root))
    assert [set(item) for item in after] == [set(item) for item in before]
    assert "score" not in after[0]


def test_A11_a_cut_data_file_names_file_and_episodes_and_the_others_can_be_read(tmp_path: Path) -> None:
    made = build(tmp_path / "made", **THREE)
    sample.cut_off(data_file(made.root, 1))
    with pytest.raises(errors.DamagedFileError, match=r"truncated \(no footer\)") as caught:
        tables(made.root)
    assert caught.value.path == "data/chunk-000/file-001.parquet"
    assert caught.value.episodes == (1,)
    assert "rolltape check" in str(caught.value)
    assert_whole(tables(made.root, episodes=[2, 0]), made, [2, 0])
    with pytest.warns(RuntimeWarning, match="episodes left out: 1"):
        assert_whole(tables(made.root, allow_damaged=True), made, [0, 2])


@pytest.mark.parametrize("kind", ["missing", "empty", "pointer", "noise"])
def test_A11_every_kind_of_damage_is_found_on_opening(tmp_path: Path, kind: str) -> None:
    made = build(tmp_path / "made", **THREE)
    path = data_file(made.root, 2)
    if kind == "missing":
        path.unlink()
    elif kind == "pointer":
        sample.make_pointer(path)
    else:
        path.write_bytes(b"noise" * 40 if kind == "noise" else b"")
    with pytest.raises(errors.DamagedFileError) as caught:
        tables(made.root)
    assert caught.value.episodes == (2,)
    says = {"missing": "missing", "empty": "zero bytes", "pointer": "Git LFS", "noise": "not a Parquet file"}
    assert says[kind] in str(caught.value)


def test_damage_inside_a_file_is_told_by_name(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    content = bytearray(data_file(made.root).read_bytes())
    content[4:200] = bytes(196)
    data_file(made.root).write_bytes(content)
    with pytest.raises(errors.DamagedFileError) as caught:
        tables(made.root).batch(range(16))
    assert caught.value.path == "data/chunk-000/file-000.parquet"
    assert caught.value.episodes == (0, 1, 2)


def test_a_path_that_leaves_the_root_is_refused(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    sample.edit_info(made.root, lambda info: info.update(data_path="../{chunk_index}/{file_index}.parquet"))
    with pytest.raises(errors.FormatError, match="leaves the dataset"):
        tables(made.root)


def test_the_arrow_table_has_all_columns_and_the_task(tmp_path: Path) -> None:
    made = build(tmp_path / "made", extras=sample.type_extras())
    table = tables(made.root, episodes=[2, 0]).table()
    assert table.num_rows == 9
    assert table.column("task").to_pylist() == ["a"] * 9
    assert table.column("index").to_pylist() == [12, 13, 14, 15, 0, 1, 2, 3, 4]
    assert table.column("note").to_pylist()[:2] == ["e2f0", "e2f1"]
    assert table.column("tactile").to_pylist()[0] == [[12, 13, 14], [15, 16, 17]]
    assert table.column(STATE).type == pa.list_(pa.float32(), 2)
    assert tables(made.root).table(["task", ACTION]).column_names == [ACTION, "task"]


def test_changing_an_item_does_not_change_the_dataset(tmp_path: Path) -> None:
    made = build(tmp_path / "made")
    dataset = tables(made.root)
    item = dataset[3]
    item[STATE] += 100
    item["timestamp"][...] = -1
    dataset.batch([3, 3])[STATE][:] = 7
    assert dataset[3][STATE].tolist() == [0, 3]
    assert dataset[3]["timestamp"] == np.float32(0.3)
