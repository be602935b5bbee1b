"""Commits: what is on the disk after each save, and what a recording makes of its dataset."""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import rolltape
from rolltape.errors import (
    ClosedError,
    CodecError,
    DatasetExistsError,
    EpisodeError,
    FormatError,
    LockedError,
    ReadOnlyError,
    UsageError,
)
from rolltape.format import RGBEncoderConfig
from rolltape.store import local
from rolltape.write import Writer
from sample import FRONT, WRIST, f1
from write.recordings import (
    H264,
    ONE_CAMERA,
    STATE,
    TABLES,
    add,
    camera,
    check_whole,
    create,
    files,
    info,
    leftovers,
    record,
    rows,
    snapshot,
    vector,
)


def test_an_episode_is_there_when_save_episode_returns(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        total = 0
        for episode, length in enumerate((5, 7, 1, 4)):
            add(writer, length)
            assert writer.episode_frames == length
            writer.save_episode()
            total += length
            assert (writer.total_episodes, writer.total_frames, writer.episode_frames) == (episode + 1, total, 0)
            check_whole(root, episode + 1, total)
    check_whole(root, 4, 17)
    assert not (root / ".rolltape").exists()


def test_nothing_is_visible_before_the_first_episode(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        add(writer, 3)
        assert os.listdir(root) == [".rolltape"]
        writer.save_episode()
        assert (root / "meta/info.json").exists()


def test_A25_an_empty_episode_is_an_error_and_leaves_the_folder_valid(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        with pytest.raises(EpisodeError, match="no frames"):
            writer.save_episode()
        writer.discard_episode()
        writer.discard_episode()
        add(writer, 4)
        writer.save_episode()
        with pytest.raises(EpisodeError, match="no frames"):
            writer.save_episode(fields={"a": 1})
    check_whole(root, 1, 4)


def test_A25_a_dataset_without_episodes_opens_with_length_0(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, robot_type="arm"):
        pass
    assert files(root) == ["meta/info.json"]
    dataset = rolltape.open(root)
    assert (len(dataset), dataset.num_episodes) == (0, 0)
    with Writer.resume(root, rgb_encoder=H264, durability="relaxed") as writer:
        add(writer, 3)
        writer.save_episode()
    check_whole(root, 1, 3)
    assert info(root)["robot_type"] == "arm"


def test_a_discarded_episode_leaves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        add(writer, 3)
        writer.save_episode()
        before = snapshot(root)
        add(writer, 5, at=50)
        writer.discard_episode()
        assert snapshot(root) == before
        assert leftovers(root) == ["owner.json"]
        add(writer, 2)
        writer.save_episode()
    check_whole(root, 2, 5)


@pytest.mark.parametrize("dtype", ["video", "image"])
def test_A20_a_discarded_take_does_not_leak_into_the_next(tmp_path: Path, dtype: str) -> None:
    root = tmp_path / "set"
    features = {**TABLES, **camera(FRONT, dtype), **camera(WRIST, "video")}
    with create(root, features) as writer:
        add(writer, 8, features, at=100)
        writer.discard_episode()
        add(writer, 5, features)
        writer.save_episode()
    check_whole(root, 1, 5, [FRONT, WRIST])
    assert not (root / "images").exists()


def test_hot_files_are_rewritten_until_full_and_never_after(tmp_path: Path) -> None:
    root = tmp_path / "set"
    seen: dict[str, tuple[int, bytes]] = {}
    with create(root, TABLES) as writer:
        for _ in range(70):
            add(writer, 2, TABLES)
            writer.save_episode()
            for name in files(root, "data") + files(root, "meta/episodes"):
                number = int(name[-11:-8])
                if number < max(int(other[-11:-8]) for other in files(root, name.split("/chunk")[0])):
                    stat = (root / name).stat()
                    assert seen.setdefault(name, (stat.st_ino, b"")) == (stat.st_ino, b"")
    assert len(files(root, "data")) == 5
    assert len(files(root, "meta/episodes")) == 2
    check_whole(root, 70, 140, [])
    for name in files(root, "data"):
        with pq.ParquetFile(root / name) as file:
            assert all(file.metadata.row_group(k).num_rows == 2 for k in range(file.metadata.num_row_groups))


def test_A29_a_save_writes_no_more_as_episodes_add_up(tmp_path: Path) -> None:
    """Bytes per episode are bounded by the caps: those of the last cycles are those of the first."""
    written = []
    with create(tmp_path / "set", TABLES) as writer:
        for _ in range(160):
            before = writer.bytes_written
            add(writer, 20, TABLES)
            writer.save_episode()
            written.append(writer.bytes_written - before)
    cycles = [sum(written[at : at + 16]) for at in range(0, 160, 16)]
    assert max(written) < 1 << 20
    assert sum(cycles[-4:]) < 1.3 * sum(cycles[2:6])


def test_stock_columns_and_row_groups(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "data/golden/v30/video_h264"
    ours = record(tmp_path / "set")
    theirs = pq.read_schema(golden / "meta/episodes/chunk-000/file-000.parquet")
    found = pq.read_schema(ours / "meta/episodes/chunk-000/file-000.parquet")
    assert set(theirs.names) <= set(found.names)
    assert set(found.names) - set(theirs.names) == {"rolltape/recovered"}
    for field in theirs:
        assert str(found.field(field.name).type).replace("element", "item") == str(field.type).replace(
            "element", "item"
        )


def test_numbers_of_the_episode_rows(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, {**TABLES, **camera(FRONT), **camera(WRIST)}) as writer:
        for length in (5, 7):
            add(writer, length, {**TABLES, **camera(FRONT), **camera(WRIST)})
            writer.save_episode()
        table = rows(root)
        assert table.column("dataset_from_index").to_pylist() == [0, 5]
        assert table.column("dataset_to_index").to_pylist() == [5, 12]
        for key in (FRONT, WRIST):
            assert table.column(f"videos/{key}/file_index").to_pylist() == [0, 1]
            assert table.column(f"videos/{key}/from_timestamp").to_pylist() == [0.0, 0.0]
            assert table.column(f"videos/{key}/to_timestamp").to_pylist() == [0.5, 0.7]
    assert rows(root).column(f"videos/{FRONT}/from_timestamp").to_pylist() == [0.0, 0.5]


def test_tasks_are_numbered_in_the_order_they_come(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        for task in ("b", "a", "b", "c"):
            add(writer, 1, TABLES, task=task, at=0)
        writer.save_episode()
        add(writer, 2, TABLES, task="c")
        writer.save_episode()
        add(writer, 1, TABLES, task="d")
        writer.save_episode()
    table = rolltape.open(root).table()
    assert table.column("task_index").to_pylist() == [0, 1, 0, 2, 2, 2, 3]
    assert rows(root).column("tasks").to_pylist() == [["b", "a", "c"], ["c"], ["d"]]
    assert info(root)["total_tasks"] == 4


def test_A21_groups_of_episodes_are_committed_together(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, commit_every=2) as writer:
        for count in (1, 2, 3):
            add(writer, 3 + count)
            writer.save_episode()
            assert writer.total_episodes == count
            visible = count // 2 * 2
            assert (info(root)["total_episodes"] if visible else 0) == visible
    check_whole(root, 3, 15)
    with Writer.resume(root, rgb_encoder=H264, commit_every=2, durability="relaxed") as writer:
        for _ in range(3):
            add(writer, 2)
            writer.save_episode()
    check_whole(root, 6, 21)
    assert rows(root).column(f"videos/{FRONT}/from_timestamp").null_count == 0


def test_a_group_rolls_over_data_files_by_size(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES, commit_every=50, data_files_size_in_mb=0.005) as writer:
        for _ in range(50):
            add(writer, 10, TABLES)
            writer.save_episode()
    check_whole(root, 50, 500, [])
    assert len(files(root, "data")) > 3
    chunked = tmp_path / "chunked"
    with create(chunked, TABLES, data_files_size_in_mb=0.0001, chunks_size=2) as writer:
        for _ in range(5):
            add(writer, 10, TABLES)
            writer.save_episode()
    check_whole(chunked, 5, 50, [])
    assert files(chunked, "data")[-1] == "data/chunk-002/file-000.parquet"


def test_user_fields_declared_and_added_later(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES, episode_fields={"operator": "string", "success": "bool"}) as writer:
        for fields in ({"operator": "ann", "success": True}, {"operator": "bo"}, None):
            add(writer, 2, TABLES)
            writer.save_episode(fields=fields)
        add(writer, 2, TABLES)
        with pytest.raises(EpisodeError, match="success: wanted bool, got 1"):
            writer.save_episode(fields={"success": 1, "score": 0.5})
        writer.save_episode(fields={"success": np.bool_(False), "score": 0.5})
        writer.add_episode_field("take", "int64")
        add(writer, 2, TABLES)
        writer.save_episode(fields={"take": 7})
        with pytest.raises(EpisodeError, match="another type"):
            writer.add_episode_field("take", "string")
        with pytest.raises(FormatError):
            writer.add_episode_field("length", "int64")
    table = rows(root)
    assert table.column("operator").to_pylist() == ["ann", "bo", None, None, None]
    assert table.column("success").to_pylist() == [True, None, None, False, None]
    assert table.column("score").to_pylist() == [None, None, None, 0.5, None]
    assert table.column("take").to_pylist() == [None, None, None, None, 7]
    with Writer.resume(root, durability="relaxed") as writer:
        assert writer.episode_fields == {"operator": "string", "success": "bool", "score": "float64", "take": "int64"}
        add(writer, 2, TABLES)
        writer.save_episode(fields={"operator": "cy"})
    assert rows(root).column("operator").to_pylist()[-1] == "cy"
    assert rolltape.open(root).num_episodes == 6


def test_a_field_added_later_is_in_every_file(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        for _ in range(70):
            add(writer, 1, TABLES)
            writer.save_episode()
        add(writer, 1, TABLES)
        writer.save_episode({"good": True})
    schemas = [pq.read_schema(root / name) for name in files(root, "meta/episodes")]
    assert len(schemas) == 2
    assert schemas[0].equals(schemas[1])
    assert rows(root).column("good").to_pylist() == [None] * 70 + [True]


def test_A27_where_a_dataset_can_be_made(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    record(empty, [2])
    check_whole(empty, 1, 2)

    before = snapshot(empty)
    with pytest.raises(DatasetExistsError, match=r"resume[\s\S]*overwrite=True") as caught:
        create(empty)
    assert isinstance(caught.value, FileExistsError)
    assert snapshot(empty) == before

    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(DatasetExistsError, match=r"thesis\.tex"):
            create(other, overwrite=overwrite)
    assert files(other) == ["thesis.tex"]

    (empty / "notes.txt").write_text("mine")
    with pytest.raises(DatasetExistsError, match=r"notes\.txt"):
        create(empty, overwrite=True)
    assert snapshot(empty).keys() == {*before, "notes.txt"}
    (empty / "notes.txt").unlink()

    record(empty, [3, 3], overwrite=True)
    check_whole(empty, 2, 6)

    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(DatasetExistsError):
        create(file)


def test_a_second_writer_is_refused_and_told_who_holds_the_dataset(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        add(writer, 2, TABLES)
        writer.save_episode()
        with pytest.raises(LockedError, match=f"process {os.getpid()}"):
            Writer.resume(root)
        with pytest.raises(DatasetExistsError):
            create(root, TABLES)
        add(writer, 2, TABLES)
        writer.save_episode()
    check_whole(root, 2, 4, [])


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> bool:
        return False

    root = record(tmp_path / "set", [2], TABLES)
    before = snapshot(root)
    monkeypatch.setattr(os, "access", refuse)
    with pytest.raises(ReadOnlyError):
        Writer.resume(root)
    monkeypatch.undo()
    assert snapshot(root) == before

    def deny(self: Path, *args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", deny)
    with pytest.raises(ReadOnlyError):
        create(tmp_path / "new", TABLES)


def test_fps_is_whole_unless_asked_otherwise(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="fractional_fps"):
        create(tmp_path / "a", TABLES, fps=29.97)
    assert not (tmp_path / "a").exists()
    with create(tmp_path / "a", TABLES, fps=Fraction(30000, 1001), fractional_fps=True) as writer:
        add(writer, 31, TABLES)
        writer.save_episode()
    found = info(tmp_path / "a")
    assert found["fps_fraction"] == [30000, 1001]
    stamps = rolltape.open(tmp_path / "a").table().column("timestamp").to_pylist()
    assert stamps[30] == np.float32(30 * 1001 / 30000)
    with create(tmp_path / "b", TABLES, fps=25.0):
        pass
    assert type(info(tmp_path / "b")["fps"]) is int


@pytest.mark.parametrize(
    ("features", "options", "error"),
    [
        ({"x": {"dtype": "floaty", "shape": [1]}}, {}, FormatError),
        ({"x/y": {"dtype": "float32", "shape": [1]}}, {}, FormatError),
        ({"x": {"dtype": "float32", "shape": [0]}}, {}, FormatError),
        ({"x": {"dtype": "video", "shape": [32, 32, 4]}}, {}, FormatError),
        ({"x": {"dtype": "video", "shape": [32, 32, 1]}}, {}, FormatError),
        (camera(), {"use_videos": False}, UsageError),
        (camera(), {"rgb_encoder": RGBEncoderConfig(vcodec="no-such-codec")}, CodecError),
        (TABLES, {"episode_fields": {"length": "int64"}}, FormatError),
        (TABLES, {"episode_fields": {"a": "tensor"}}, FormatError),
        (TABLES, {"commit_every": 0}, ValueError),
        (TABLES, {"durability": "maybe"}, ValueError),
        (TABLES, {"fps": 0}, FormatError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_made(
    tmp_path: Path, features: dict[str, Any], options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        create(tmp_path / "set", features, **options)
    assert not (tmp_path / "set").exists()


def test_A23_frames_that_were_not_saved_are_not_forgotten_silently(tmp_path: Path) -> None:
    writer = create(tmp_path / "set")
    add(writer, 3)
    writer.save_episode()
    add(writer, 2)
    assert writer.has_pending_frames
    with pytest.warns(UserWarning, match="2 frames of the open episode were not saved"):
        writer.finalize()
    writer.finalize()
    check_whole(tmp_path / "set", 1, 3)


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = create(tmp_path / "set", TABLES)
    writer.close()
    writer.close()
    assert not (tmp_path / "set/.rolltape").exists()
    assert not (tmp_path / "set/meta").exists()
    for call in (lambda: add(writer, 1, TABLES), writer.save_episode, writer.discard_episode, writer.pack):
        with pytest.raises(ClosedError, match=r"Writer\.resume"):
            call()


def test_an_error_in_the_block_discards_the_open_episode_only(tmp_path: Path) -> None:
    root = tmp_path / "set"

    def fail() -> None:
        with create(root) as writer:
            add(writer, 3)
            writer.save_episode()
            add(writer, 3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    check_whole(root, 1, 3)
    assert not (root / ".rolltape").exists()


def test_info_says_what_the_cameras_are(tmp_path: Path) -> None:
    found = info(record(tmp_path / "set", [3]))["features"][FRONT]
    golden = info(Path(__file__).parents[1] / "data/golden/v30/video_h264")["features"][FRONT]
    assert list(found["info"]) == list(golden["info"])
    differ = ("video.height", "video.width", "video.g", "video.crf")
    assert {key: one for key, one in found["info"].items() if key not in differ} == {
        key: one for key, one in golden["info"].items() if key not in differ
    }
    assert [found["info"][key] for key in differ] == [32, 32, 2, 30]


def test_tools_and_robot_type_are_kept(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2], TABLES, tools=[{"name": "say"}], robot_type="arm")
    assert info(root)["tools"] == [{"name": "say"}]
    with Writer.resume(root, robot_type="arm", fps=10, features=TABLES, durability="relaxed") as writer:
        add(writer, 2, TABLES)
        writer.save_episode()
    assert (info(root)["tools"], info(root)["robot_type"]) == ([{"name": "say"}], "arm")


def test_statistics_cover_every_frame(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [5, 7])
    stats = rolltape.open(root).stats
    assert stats is not None
    assert stats["action"]["count"].tolist() == [12]
    assert stats["action"]["max"].tolist() == [11, 0]
    assert abs(stats["action"]["q50"] - [5.5, -5.5]).max() <= 0.5
    assert stats[FRONT]["mean"].shape == (3, 1, 1)
    assert (root / "meta/quantiles.npz").exists()


def test_every_kind_of_feature(tmp_path: Path) -> None:
    features: dict[str, Any] = {
        **vector(STATE),
        "grip": {"dtype": "float32", "shape": [1], "names": None},
        "half": {"dtype": "float16", "shape": [2], "names": None},
        "done": {"dtype": "bool", "shape": [1], "names": None},
        "contacts": {"dtype": "bool", "shape": [3], "names": None},
        "note": {"dtype": "string", "shape": [1], "names": None},
        "tactile": {"dtype": "float32", "shape": [2, 3], "names": None},
        "volume": {"dtype": "int16", "shape": [2, 1, 2, 3, 2], "names": None},
        "count": {"dtype": "uint64", "shape": [1], "names": None},
    }
    rng = np.random.default_rng(0)
    frames = [
        {
            STATE: np.array([0, k], np.float32),
            "grip": np.array([k / 3], np.float32),
            "half": rng.random(2).astype(np.float16),
            "done": np.array([k == 2]),
            "contacts": rng.random(3) > 0.5,
            "note": "né" * k,
            "tactile": rng.random((2, 3)).astype(np.float32),
            "volume": rng.integers(-9, 9, (2, 1, 2, 3, 2)).astype(np.int16),
            "count": np.array([2**63 + k], np.uint64),
        }
        for k in range(300)
    ]
    with create(tmp_path / "set", features) as writer:
        for one in frames:
            writer.add_frame(one, task="t")
        writer.save_episode()
    dataset = rolltape.open(tmp_path / "set")
    for k in (0, 1, 255, 256, 299):
        for name, value in frames[k].items():
            if isinstance(value, str):
                assert dataset[k][name] == value
            else:
                wanted = np.asarray(value)
                assert np.array_equal(np.asarray(dataset[k][name]).reshape(wanted.shape), wanted), name


def test_durable_commits_fsync_files_before_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []
    for name in ("fsync_file", "rename", "fsync_folder"):
        real = getattr(local, name)

        def spy(*paths: Path, name: str = name, real: Any = real) -> None:
            if "takes" not in paths[-1].parts and threading.current_thread() is threading.main_thread():
                done.append((name, paths[-1].name))
            real(*paths)

        monkeypatch.setattr(local, name, spy)
    with create(tmp_path / "set", durability="full") as writer:
        add(writer, 2)
        done.clear()
        writer.save_episode()
        kinds = [kind for kind, _ in done]
        renamed = [path for kind, path in done if kind == "rename"]
    assert kinds.index("rename") > kinds.index("fsync_file")
    assert "fsync_file" not in kinds[kinds.index("rename") :]
    assert renamed == [
        "intent.json",
        "file-000.mp4",
        "tasks.parquet",
        "stats.json",
        "quantiles.npz",
        "file-000.parquet",
        "file-000.parquet",
        "info.json",
    ]


def test_names_that_others_glob_never_appear_half_written(tmp_path: Path) -> None:
    """Before the commit everything is in the work folder."""
    root = tmp_path / "set"
    with create(root) as writer:
        add(writer, 3)
        assert os.listdir(root) == [".rolltape"]
        assert leftovers(root) == ["owner.json", "takes"]
        assert not [name for name in files(root) if name.endswith(".parquet")]
        writer.save_episode()
        assert leftovers(root) == ["owner.json"]


def test_the_golden_sample_is_read_alike(tmp_path: Path) -> None:
    """The same frames from our writer and from the test's own builder have equal tables."""
    features = {**vector(STATE), **vector("action"), **camera(FRONT)}
    ours = rolltape.open(record(tmp_path / "ours", features=features))
    theirs = rolltape.open(f1(tmp_path / "theirs").root)
    for name in (STATE, "action", "timestamp", "frame_index", "episode_index", "index"):
        assert ours.table().column(name).to_pylist() == theirs.table().column(name).to_pylist()
    assert set(ONE_CAMERA) <= set(ours.features)


def test_size_limits_can_be_changed_while_recording(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        writer.change_info(chunks_size=3)
        add(writer, 2, TABLES)
        writer.save_episode()
        assert info(root)["chunks_size"] == 3
        writer.change_info(data_files_size_in_mb=0.0001, video_files_size_in_mb=50)
        assert info(root)["video_files_size_in_mb"] == 50
        with pytest.raises(FormatError):
            writer.change_info(chunks_size=0)
        for _ in range(4):
            add(writer, 9, TABLES)
            writer.save_episode()
    check_whole(root, 5, 38, [])
    assert "data/chunk-001/file-000.parquet" in files(root, "data")
