from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltape.errors import DatasetNotFoundError, FormatError, TaskError, UnsupportedFormatError
from rolltape.format import Tasks, data_schema, identify, parse_info, require_readable
from rolltape.format.paths import by_file, data_file, following, numbered_files, parse_number, safe_join, video_file

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


@pytest.mark.parametrize("root", sorted((GOLDEN / "v30").iterdir()), ids=lambda path: path.name)
def test_info_survives_a_round_trip(root: Path) -> None:
    text = (root / "meta/info.json").read_bytes()
    content = json.loads(text)
    content["mine"] = {"kept": [1, "é"]}
    info = parse_info(json.dumps(content).encode())
    again = json.loads(info.to_json_bytes())
    assert again == content
    assert list(parse_info(text).to_json()) == list(json.loads(text))


@pytest.mark.parametrize("root", sorted((GOLDEN / "v30").iterdir()), ids=lambda path: path.name)
def test_data_schema_is_the_reference_writers(root: Path) -> None:
    info = parse_info((root / "meta/info.json").read_bytes())
    stored = pq.read_schema(root / "data/chunk-000/file-000.parquet")
    ours = data_schema(info.features)
    assert ours.remove_metadata() == stored.remove_metadata()
    hub = json.loads(stored.metadata[b"huggingface"])["info"]
    assert json.loads(ours.metadata[b"huggingface"])["info"] == hub


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"fps": 0}, "fps"),
        ({"fps": None}, "fps"),
        ({"features": []}, "features"),
        ({"chunks_size": 0}, "chunks_size"),
        ({"chunks_size": 1.5}, "chunks_size"),
        ({"total_frames": -1}, "total_frames"),
        ({"data_files_size_in_mb": -3}, "data_files_size_in_mb"),
        ({"data_path": None}, "data_path"),
        ({"splits": 3}, "splits"),
        ({"tools": {}}, "tools"),
        ({"robot_type": 3}, "robot_type"),
    ],
)
def test_a_bad_field_is_named(change: dict[str, object], name: str) -> None:
    content = {"fps": 10, "features": {}, **change}
    with pytest.raises(FormatError, match=name):
        parse_info(json.dumps(content).encode())


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_bytes_that_are_no_info(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_info(data)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_gives_an_info_or_a_typed_error(value: object) -> None:
    for content in (
        {"fps": value, "features": {}},
        {"fps": 10, "features": value},
        {"fps": 10, "features": {"a": value}},
    ):
        try:
            parse_info(json.dumps(content).encode())
        except FormatError:
            continue


@pytest.mark.parametrize(
    "template",
    [
        "../x-{chunk_index}",
        "/etc/{chunk_index}",
        "data/../../{file_index}",
        "data/{other}",
        "data/{chunk_index.__class__}",
        "data/{chunk_index:0999999999d}",
        "data/{chunk_index",
        "",
        "C:/x{file_index}",
        "a\\b",
    ],
)
def test_templates_cannot_leave_the_root_nor_cost_memory(template: str) -> None:
    info = parse_info({"fps": 10, "features": {}, "data_path": template})
    with pytest.raises(FormatError):
        data_file(info, 0, 0)


def test_paths() -> None:
    info = parse_info({"fps": 10, "features": {}, "chunks_size": 2})
    assert data_file(info, 1, 1234) == "data/chunk-001/file-1234.parquet"
    assert (
        video_file(info, "observation.images.front", 0, 7) == "videos/observation.images.front/chunk-000/file-007.mp4"
    )
    assert following((0, 0), 2) == (0, 1)
    assert following((0, 1), 2) == (1, 0)
    assert parse_number("data/chunk-000/file-1234.parquet") == (0, 1234)
    assert parse_number("data/x.parquet") is None
    with pytest.raises(FormatError):
        video_file(info.replace(video_path=None), "a", 0, 0)
    with pytest.raises(FormatError):
        video_file(info, "..", 0, 0)
    with pytest.raises(FormatError):
        safe_join(Path("/tmp"), "a/../../b")


def test_files_come_in_number_order(tmp_path: Path) -> None:
    for name in ("chunk-101/file-000", "chunk-1000/file-000", "chunk-101/file-1000", "chunk-101/file-999"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "chunk-101/file-002.parquet.tmp").touch()
    assert [number for number, _ in numbered_files(tmp_path, ".parquet")] == [
        (101, 0),
        (101, 999),
        (101, 1000),
        (1000, 0),
    ]


def test_A06_tasks_by_number_whatever_the_row_order() -> None:
    for name in ("task", "__index_level_0__"):
        table = pa.table({"task_index": [2, 0, 1], name: ["c", "a", "b"]})
        tasks = Tasks.from_table(table)
        assert [tasks.text(i) for i in range(3)] == ["a", "b", "c"]
    with pytest.raises(TaskError, match="7"):
        tasks.text(7)
    with pytest.raises(FormatError):
        Tasks.from_table(pa.table({"task_index": [0, 0], "task": ["a", "b"]}))
    with pytest.raises(FormatError):
        Tasks.from_table(pa.table({"task_index": [0]}))


def test_tasks_table_carries_the_index_note() -> None:
    tasks, numbers = Tasks().with_new(["wave", "place", "wave"])
    assert numbers == [0, 1, 0]
    table = tasks.to_table()
    assert Tasks.from_table(table) == tasks
    golden = pq.read_schema(GOLDEN / "v30/video_av1/meta/tasks.parquet")
    ours, theirs = (json.loads(schema.metadata[b"pandas"]) for schema in (table.schema, golden))
    assert ours["index_columns"] == theirs["index_columns"]
    assert ours["columns"] == theirs["columns"]


def test_dialects_are_known_by_name(tmp_path: Path) -> None:
    assert identify(GOLDEN / "v30/video_av1").name == "v3.0"
    assert identify(GOLDEN / "v21/v21_video").name == "v2.1"
    with pytest.raises(UnsupportedFormatError, match=r"v2\.1"):
        require_readable(GOLDEN / "v21/v21_video")
    with pytest.raises(DatasetNotFoundError):
        identify(tmp_path)
    (tmp_path / ".rolltape").mkdir()
    with pytest.raises(DatasetNotFoundError, match="unfinished"):
        identify(tmp_path)
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text('{"codebase_version": "v3.0", "storage_format": "lance"}')
    with pytest.raises(UnsupportedFormatError, match="Lance"):
        require_readable(tmp_path)
    (tmp_path / "meta/info.json").write_text('{"codebase_version": "v9.0"}')
    with pytest.raises(FormatError, match=r"v9\.0"):
        require_readable(tmp_path)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_positions_are_grouped_by_file(numbers: list[tuple[int, int]]) -> None:
    chunk, file = np.array(numbers, np.int64).reshape(-1, 2).T
    found = {number: places.tolist() for number, places in by_file(chunk, file)}
    assert list(found) == sorted(set(numbers))
    assert all(found[number] == [k for k, one in enumerate(numbers) if one == number] for number in found)
