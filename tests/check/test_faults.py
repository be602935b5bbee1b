"""One planted fault a test: the right id, at the right place, and nothing else of severity error."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sample
from rolltape import check
from sample import FRONT, WRIST, Camera

DATA = "data/chunk-000/file-000.parquet"
ROWS = "meta/episodes/chunk-000/file-000.parquet"
TASKS = "meta/tasks.parquet"
VIDEO = f"videos/{FRONT}/chunk-000/file-000.mp4"


def errors(report: check.Report) -> list[str]:
    return sorted({finding.id for finding in report.errors})


def ids(report: check.Report) -> tuple[str, ...]:
    """Errors and warnings: the samples' odd lengths at g=2 make the note on keyframes true of many."""
    return tuple(name for name in report.ids if name != "video.keyframe")


def column(root: Path, file: str, name: str, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change one column of one file."""

    def edit(table: pa.Table) -> pa.Table:
        return sample.set_column(table, name, change(table.column(name).to_pylist()))

    sample.edit_table(root / file, edit)


def put(position: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value if k == position else one for k, one in enumerate(values)]


def one(report: check.Report, name: str) -> check.Finding:
    found = report.of_id(name)
    assert len(found) == 1, [finding.id for finding in report.findings]
    return found[0]


@pytest.mark.parametrize("build", [sample.f1, sample.f2, sample.f3, sample.f4])
def test_a_whole_dataset_has_no_finding(tmp_path: Path, build: Callable[..., Any]) -> None:
    build(tmp_path / "set")
    assert ids(check.run(tmp_path / "set")) == ()


def test_variants_that_are_right_have_no_finding(tmp_path: Path) -> None:
    sample.f1(tmp_path / "variable", lists="variable", row_groups="one")
    sample.f1(tmp_path / "numbers", data_numbers=[(3, 7)], episode_numbers=[(2, 1)])
    sample.f1(tmp_path / "types", extras=sample.type_extras())
    sample.f1(tmp_path / "fraction", fps=29.97, fps_fraction=(30000, 1001))
    sample.build(tmp_path / "chw", cameras={FRONT: Camera(layout="CHW")})
    sample.build(
        tmp_path / "hevc", cameras={FRONT: Camera(codec="libx265", options={"x265-params": "log-level=error"})}
    )
    for root in sorted(tmp_path.iterdir()):
        assert ids(check.run(root)) == (), root.name


# Files


def test_A11_cut_off_table_and_pointer_are_named_with_their_episodes(tmp_path: Path) -> None:
    sample.f1(tmp_path / "cut", data_files=[[0, 1], [2]])
    sample.cut_off(tmp_path / "cut" / DATA)
    report = check.run(tmp_path / "cut")
    assert errors(report) == ["files.truncated"]
    finding = one(report, "files.truncated")
    assert finding.where.file == DATA
    assert finding.where.episodes == (0, 1)
    assert "no footer" in finding.message

    sample.f1(tmp_path / "pointer", episode_files=[[0], [1, 2]])
    sample.make_pointer(tmp_path / "pointer/meta/episodes/chunk-000/file-001.parquet")
    report = check.run(tmp_path / "pointer")
    assert errors(report) == ["files.lfs_pointer", "info.total_episodes"]
    assert "Git LFS pointer, not the content" in one(report, "files.lfs_pointer").message
    assert one(report, "info.total_episodes").where.episodes == (1, 2)


@pytest.mark.parametrize(
    ("file", "damage", "name"),
    [
        (DATA, lambda path: path.unlink(), "files.missing"),
        (DATA, lambda path: path.write_bytes(b""), "files.empty"),
        (
            DATA,
            lambda path: path.write_bytes(path.read_bytes()[:200] + bytes(3000) + path.read_bytes()[-700:]),
            "files.unreadable",
        ),
        (TASKS, lambda path: path.unlink(), "files.missing"),
        (TASKS, sample.make_pointer, "files.lfs_pointer"),
        (VIDEO, lambda path: path.unlink(), "files.missing"),
        (VIDEO, lambda path: path.write_bytes(b""), "files.empty"),
        (VIDEO, sample.make_pointer, "files.lfs_pointer"),
        (VIDEO, lambda path: path.write_bytes(path.read_bytes()[:-400]), "video.container"),
        (
            VIDEO,
            lambda path: path.write_bytes(b"not a video at all, but long enough to be looked at" * 9),
            "video.container",
        ),
        ("meta/stats.json", lambda path: path.unlink(), "stats.missing"),
        ("meta/stats.json", lambda path: path.write_text("{"), "stats.malformed"),
        ("meta/stats.json", lambda path: path.write_text("[]"), "stats.malformed"),
        ("meta/info.json", lambda path: path.unlink(), "info.missing"),
        ("meta/info.json", lambda path: path.write_text("{"), "info.malformed"),
        ("meta/info.json", lambda path: path.write_bytes(b""), "files.empty"),
        (ROWS, lambda path: path.unlink(), "files.missing"),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, damage: Callable[[Path], Any], name: str) -> None:
    sample.f1(tmp_path / "set")
    damage(tmp_path / "set" / file)
    report = check.run(tmp_path / "set")
    assert one(report, name).where.file in (file, "meta/episodes/")
    assert "check.failed" not in report.ids


def test_a_cut_off_video_whose_table_comes_first(tmp_path: Path) -> None:
    import av

    sample.f1(tmp_path / "set")
    path = tmp_path / "set" / VIDEO
    with (
        av.open(str(path)) as source,
        av.open(str(tmp_path / "fast.mp4"), "w", options={"movflags": "faststart"}) as target,
    ):
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    assert ids(check_copy(tmp_path / "fast.mp4", path, tmp_path / "set")) == ()
    path.write_bytes((tmp_path / "fast.mp4").read_bytes()[:-30])
    finding = one(check.run(tmp_path / "set"), "video.truncated")
    assert finding.expected == "16 pictures"


def check_copy(source: Path, target: Path, root: Path) -> check.Report:
    shutil.copy(source, target)
    return check.run(root)


def test_files_that_nobody_points_to(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    shutil.copy(root / DATA, root / "data/chunk-000/.file-009.parquet")
    shutil.copy(root / DATA, root / "data/odd.parquet")
    shutil.copy(root / VIDEO, root / f"videos/{FRONT}/chunk-000/file-004.mp4")
    shutil.copy(root / VIDEO, root / "videos/loose.mp4")
    (root / "videos/observation.images.old/chunk-000").mkdir(parents=True)
    shutil.copy(root / VIDEO, root / "videos/observation.images.old/chunk-000/file-000.mp4")
    shutil.copy(root / VIDEO, root / "videos/observation.images.old/chunk-000/file-001.mp4")
    (root / "data/chunk-000/file-001.parquet.tmp").write_bytes(b"x")
    (root / "images/observation.images.front/episode-000003").mkdir(parents=True)
    (root / "images/observation.images.front/episode-000003/frame-000000.png").write_bytes(b"x")
    (root / ".rolltape/takes/3").mkdir(parents=True)
    (root / ".rolltape/takes/3/take.json").write_text("{}")
    (root / "README.md").write_text("card")
    report = check.run(root)
    assert {(finding.id, finding.where.file) for finding in report.findings if finding.id != "video.keyframe"} == {
        ("files.orphan_table", "data/chunk-000/.file-009.parquet"),
        ("files.misplaced", "data/odd.parquet"),
        ("files.orphan_video", f"videos/{FRONT}/chunk-000/file-004.mp4"),
        ("files.misplaced", "videos/loose.mp4"),
        ("files.unknown_camera", "videos/observation.images.old/"),
        ("files.temporary", "data/chunk-000/file-001.parquet.tmp"),
        ("files.staging", "images/"),
        ("files.work_area", ".rolltape/"),
    }
    assert "3" in str(one(report, "files.work_area").found)


def test_an_orphan_data_file_under_the_next_number(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    shutil.copy(root / DATA, root / "data/chunk-000/file-001.parquet")
    report = check.run(root)
    assert errors(report) == ["files.orphan_table"]
    assert one(report, "files.orphan_table").found == "16 rows of episodes 0-2"


# info.json


def test_A64_totals_are_reported_with_both_numbers_and_several_files_pass(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root, data_files=[[0, 1], [2]])
    assert check.run(root).ok
    sample.edit_info(root, lambda info: info.update(total_frames=17))
    finding = one(check.run(root), "info.total_frames")
    assert (finding.expected, finding.found, finding.fixable) == ("16", "17", True)


def test_A19_a_counter_ahead_of_the_rows(tmp_path: Path) -> None:
    sample.f1(tmp_path / "ahead")
    sample.edit_info(tmp_path / "ahead", lambda info: info.update(total_episodes=5))
    finding = one(check.run(tmp_path / "ahead"), "info.total_episodes")
    assert (finding.expected, finding.found) == ("3", "5")

    sample.f1(tmp_path / "gap")
    column(tmp_path / "gap", ROWS, "episode_index", lambda values: [0, 1, 4])
    column(tmp_path / "gap", DATA, "episode_index", lambda values: [4 if one == 2 else one for one in values])
    report = check.run(tmp_path / "gap")
    assert errors(report) == ["episodes.id_gap"]
    assert one(report, "episodes.id_gap").where.episodes == (2, 3)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"total_tasks": 9}, "info.total_tasks"),
        ({"splits": {"train": "0:3", "test": "3:9"}}, "info.splits"),
        ({"splits": {"train": "all"}}, "info.splits"),
        ({"codebase_version": "v2.1"}, "info.version"),
        ({"codebase_version": "v9.0"}, "info.malformed"),
        ({"fps": 0}, "info.malformed"),
        ({"data_path": "../{chunk_index}/{file_index}"}, "info.path_template"),
        ({"video_path": None}, "info.path_template"),
    ],
)
def test_fields_of_info(tmp_path: Path, change: dict[str, Any], name: str) -> None:
    sample.f1(tmp_path / "set")
    sample.edit_info(tmp_path / "set", lambda info: info.update(change))
    report = check.run(tmp_path / "set")
    assert ids(report) == (name,)


def test_a_default_feature_that_is_not_declared(tmp_path: Path) -> None:
    sample.f1(tmp_path / "set")
    sample.edit_info(tmp_path / "set", lambda info: info["features"].pop("task_index"))
    assert errors(check.run(tmp_path / "set")) == ["info.feature_missing", "tables.column_undeclared"]


# The episodes table


def test_A05_all_files_of_episode_rows_are_read(tmp_path: Path) -> None:
    sample.f1(tmp_path / "set", episode_files=[[0], [1], [2]], episode_numbers=[(0, 0), (0, 1), (1, 0)])
    report = check.run(tmp_path / "set")
    assert (report.episodes, ids(report)) == (3, ())


def test_A13_stale_ranges_are_named_as_ranges_not_as_times(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    column(root, ROWS, "dataset_from_index", lambda values: [0, 5, 13])
    column(root, ROWS, "dataset_to_index", lambda values: [5, 12, 17])
    report = check.run(root)
    finding = one(report, "episodes.range")
    assert finding.where.episodes == (2,)
    assert "12 to 16" in str(finding.expected)
    assert "13 to 17" in str(finding.found)
    assert not any(name.startswith("tables.timestamp") for name in report.ids)


def test_A13_files_in_another_order_are_no_time_problem(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root, data_files=[[2], [0, 1]], data_numbers=[(0, 0), (0, 1)])
    report = check.run(root)
    assert ids(report) == ("tables.file_order",)


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("length", [5, 6, 4], ["episodes.length", "info.total_frames", "tables.rows", "video.window"]),
        ("length", [5, None, 4], ["episodes.null", "info.total_frames"]),
        ("dataset_from_index", [0, 4, 12], ["episodes.length", "episodes.range", "episodes.range_overlap"]),
        ("data/file_index", [0, 0, 1], ["files.missing", "tables.orphan_rows"]),
        (
            "episode_index",
            [0, 1, 1],
            ["episodes.duplicate", "info.total_episodes", "tables.orphan_rows", "tables.rows"],
        ),
        ("episode_index", [1, 0, 2], ["episodes.order", "episodes.range", "tables.rows"]),
        ("meta/episodes/file_index", [0, 1, 0], []),
        ("tasks", [["a"], ["c"], ["a"]], ["tasks.undeclared"]),
    ],
)
def test_episode_rows(tmp_path: Path, name: str, values: list[Any], found: list[str]) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    column(root, ROWS, name, lambda before: values)
    report = check.run(root)
    assert set(errors(report)) <= set(found)
    assert not found or found[0] in errors(report)
    assert found or ids(report) == ("episodes.location",)


def test_missing_and_differing_columns(tmp_path: Path) -> None:
    sample.f1(tmp_path / "missing")
    sample.edit_table(tmp_path / "missing" / ROWS, lambda table: table.drop_columns(["length"]))
    assert "episodes.column_missing" in errors(check.run(tmp_path / "missing"))

    sample.f1(tmp_path / "differ", episode_files=[[0, 1], [2]])
    second = tmp_path / "differ/meta/episodes/chunk-000/file-001.parquet"
    sample.edit_table(second, lambda table: table.append_column("note", pa.array(["x"])))
    assert errors(check.run(tmp_path / "differ")) == ["episodes.columns_differ"]


def test_A31_an_episode_that_points_to_the_previous_data_file(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root, data_files=[[0, 1], [2]])
    column(root, ROWS, "data/file_index", lambda values: [0, 0, 0])
    report = check.run(root)
    finding = one(report, "episodes.data_file")
    assert errors(report) == ["episodes.data_file"]
    assert (finding.where.episode, finding.expected) == (2, "data/chunk-000/file-001.parquet")


# Rows and columns


@pytest.mark.parametrize(
    ("name", "change", "found", "frames"),
    [
        ("index", put(7, 70), "tables.index", (2, 3)),
        ("frame_index", put(7, 9), "tables.frame_index", (2, 3)),
        ("frame_index", lambda values: [*values[:5], 1, 0, *values[7:]], "tables.order", None),
        ("timestamp", put(7, 0.25), "tables.timestamp", (2, 3)),
        ("task_index", put(7, 5), "tasks.unknown", None),
        ("episode_index", put(15, 7), "tables.orphan_rows", None),
    ],
)
def test_counting_columns(
    tmp_path: Path, name: str, change: Callable[[list[Any]], list[Any]], found: str, frames: tuple[int, int] | None
) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    column(root, DATA, name, change)
    report = check.run(root)
    finding = one(report, found)
    assert finding.where.file == DATA
    assert finding.where.frames == frames
    assert "check.failed" not in report.ids


def test_timestamps_of_a_dataset_without_video_are_a_warning(tmp_path: Path) -> None:
    sample.f4(tmp_path / "set")
    column(tmp_path / "set", DATA, "timestamp", put(7, 0.25))
    report = check.run(tmp_path / "set")
    assert ids(report) == ("tables.timestamp_jitter",)
    assert report.ok


def test_late_timestamps_of_long_episodes_are_no_false_alarm(tmp_path: Path) -> None:
    sample.build(tmp_path / "set", lengths=(40_000,), tasks=["a"], fps=30, cameras={}, stats=False)
    assert check.run(tmp_path / "set", ignore="stats").findings == ()


def test_missing_undeclared_and_wrong_columns(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root, extras=sample.type_extras())

    def change(table: pa.Table) -> pa.Table:
        table = table.drop_columns(["grip"]).append_column("surprise", pa.array(range(len(table))))
        note, counter, tactile = (table.schema.get_field_index(name) for name in ("note", "counter", "tactile"))
        table = table.set_column(note, "note", pa.array(range(len(table))))
        table = table.set_column(counter, "counter", pa.array(range(len(table)), pa.int32()))
        return table.set_column(
            tactile, "tactile", pa.array([[[1.0, 2.0]]] * len(table), pa.list_(pa.list_(pa.float32())))
        )

    sample.edit_table(root / DATA, change)
    report = check.run(root)
    assert {(finding.id, finding.where.feature) for finding in report.findings if finding.id != "video.keyframe"} == {
        ("tables.column_missing", "grip"),
        ("tables.column_undeclared", "surprise"),
        ("tables.type", "note"),
        ("tables.type_width", "counter"),
        ("tables.shape", "tactile"),
    }


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    column(root, DATA, "action", put(6, [float("nan"), 1.0]))
    column(root, DATA, sample.STATE, put(13, [float("inf"), 1.0]))
    report = check.run(root)
    assert report.ok
    assert one(report, "tables.nan").where.episodes == (1,)
    assert one(report, "tables.nan").where.feature == "action"
    assert one(report, "tables.infinite").where.episodes == (2,)


def test_empty_values_and_pictures(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f4(root)
    column(root, DATA, "action", put(6, None))
    column(
        root,
        DATA,
        FRONT,
        lambda values: [{"bytes": None, "path": "x"} if k == 3 else one for k, one in enumerate(values)],
    )
    report = check.run(root)
    assert errors(report) == ["tables.image_missing", "tables.null"]
    assert one(report, "tables.null").where.episodes == (1,)


# Tasks


def test_task_tables(tmp_path: Path) -> None:
    sample.f1(tmp_path / "order", task_rows=[1, 0])
    assert "tasks.order" in check.run(tmp_path / "order").ids

    sample.f1(tmp_path / "key")
    path = tmp_path / "key" / TASKS
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    assert ids(check.run(tmp_path / "key")) == ("tasks.index_key",)

    sample.f1(tmp_path / "gap")
    column(tmp_path / "gap", TASKS, "task_index", lambda values: [0, 5])
    column(tmp_path / "gap", DATA, "task_index", lambda values: [5 if one == 1 else one for one in values])
    assert ids(check.run(tmp_path / "gap")) == ("tasks.gap",)

    sample.f1(tmp_path / "twice")
    column(tmp_path / "twice", TASKS, "task_index", lambda values: [0, 0])
    assert errors(check.run(tmp_path / "twice")) == ["tasks.malformed"]

    sample.f1(tmp_path / "list")
    column(tmp_path / "list", ROWS, "tasks", lambda values: [["a", "b"], ["b"], ["a"]])
    finding = one(check.run(tmp_path / "list"), "tasks.episode_list")
    assert finding.where.episodes == (0,)


# Video


def reencode(root: Path, levels: list[int], file: str = VIDEO, fps: int = 10, camera: Camera | None = None) -> None:
    """Replace a video by one of flat pictures."""
    from fractions import Fraction

    chosen = camera or Camera()
    frames = [np.full((*chosen.size, 3), level, np.uint8) for level in levels]
    sample.encode(root / file, frames, Fraction(fps), chosen)


def test_A63_a_video_shorter_than_the_table(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    reencode(root, [40] * 10)
    report = check.run(root)
    finding = one(report, "video.short")
    assert errors(report) == ["video.short"]
    assert (finding.where.file, finding.expected, finding.found) == (VIDEO, "16 pictures", "10 pictures")
    assert finding.where.episodes == (1, 2)
    assert finding.where.frames == (5, 7)


def test_A46_pictures_that_belong_to_no_episode(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    reencode(root, [40] * 19)
    report = check.run(root)
    assert ids(report) == ("video.orphan_frames",)
    assert one(report, "video.orphan_frames").message.startswith("3 pictures")


def test_A16_null_video_rows(tmp_path: Path) -> None:
    sample.build(tmp_path / "set", cameras={FRONT: Camera(missing=[1])})
    report = check.run(tmp_path / "set")
    assert ids(report) == ("video.null",)
    assert one(report, "video.null").where.episodes == (1,)
    column(tmp_path / "set", ROWS, f"videos/{FRONT}/chunk_index", lambda values: [0, 0, 0])
    assert "episodes.null" in errors(check.run(tmp_path / "set"))


def test_A12_windows_that_drift(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    column(root, ROWS, f"videos/{FRONT}/from_timestamp", lambda values: [0.0, 0.5, 1.201])
    report = check.run(root)
    assert ids(report) == ("video.drift",)
    assert one(report, "video.drift").where.episodes == (2,)


def test_windows_that_overlap_or_have_another_length(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    column(root, ROWS, f"videos/{FRONT}/from_timestamp", lambda values: [0.0, 0.3, 1.2])
    report = check.run(root)
    assert errors(report) == ["video.overlap", "video.window"]
    assert one(report, "video.overlap").where.episodes == (1,)


@pytest.mark.parametrize(
    ("fps", "camera", "found"),
    [
        (12, Camera(), "video.fps"),
        (10, Camera(size=(48, 32)), "video.resolution"),
    ],
)
def test_videos_that_are_not_what_is_declared(tmp_path: Path, fps: int, camera: Camera, found: str) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    reencode(root, [40] * 16, fps=fps, camera=camera)
    assert errors(check.run(root)) == [found]


def test_codec_and_mixed_files(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f3(root)
    sample.edit_info(root, lambda info: info["features"][WRIST]["info"].update({"video.codec": "libsvtav1"}))
    reencode(root, [40] * 7, f"videos/{FRONT}/chunk-000/file-001.mp4", camera=Camera(codec="mpeg4", options={}))
    report = check.run(root)
    assert ids(report) == ("video.codec", "video.mixed")
    assert {finding.where.camera for finding in report.of_id("video.codec")} == {WRIST}


def test_keyframes_at_episode_starts_are_a_note(tmp_path: Path) -> None:
    sample.build(tmp_path / "set", cameras={FRONT: Camera(g=16)})
    report = check.run(tmp_path / "set")
    assert report.ids == ("video.keyframe",)
    assert one(report, "video.keyframe").where.episodes == (1, 2)


def test_uneven_pictures(tmp_path: Path) -> None:
    import av

    root = tmp_path / "set"
    sample.f1(root)
    path = root / VIDEO
    copy = tmp_path / "uneven.mp4"
    with av.open(str(path)) as source, av.open(str(copy), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for count, packet in enumerate(one for one in source.demux(video=0) if one.dts is not None):
            assert packet.pts is not None
            assert packet.dts is not None
            step = int(0.03 / float(packet.time_base)) if count in (6, 7) else 0
            packet.pts, packet.dts, packet.stream = packet.pts + step, packet.dts + step, stream
            target.mux(packet)
    report = check_copy(copy, path, root)
    assert errors(report) == ["video.grid"]


def test_deep_finds_pictures_that_cannot_be_decoded(tmp_path: Path) -> None:
    root = tmp_path / "set"
    sample.f1(root)
    from rolltape.video.index import index_file

    index = index_file(root / VIDEO)
    data = bytearray((root / VIDEO).read_bytes())
    position = int(index.order[8])
    begin, size = int(index.offset[position]), int(index.size[position])
    data[begin : begin + size] = b"\xff" * size
    (root / VIDEO).write_bytes(bytes(data))
    assert check.run(root).ok
    finding = one(check.run(root, deep=True), "video.undecodable")
    assert (finding.where.file, finding.where.episode) == (VIDEO, 1)


def test_long_files_are_a_warning(tmp_path: Path) -> None:
    root = tmp_path / "set"
    camera = Camera(size=(16, 16), g=1000, options={"preset": "ultrafast", "crf": "40"})
    sample.build(root, lengths=(600, 500), tasks=["a", "a"], fps=1, cameras={FRONT: camera}, stats=False)
    report = check.run(root, ignore=["stats", "video.keyframe", "video.resolution"])
    assert ids(report) == ("video.long_file",)
    assert one(report, "video.long_file").where.episodes == (1,)


def test_the_check_survives_what_it_did_not_foresee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.f1(tmp_path / "set")

    def fail(survey: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("rolltape.check.inspection.check_episodes", fail)
    report = check.run(tmp_path / "set")
    assert ids(report) == ("check.failed",)
    assert "unforeseen" in str(one(report, "check.failed").found)
