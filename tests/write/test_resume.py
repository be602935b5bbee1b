"""Going on with a dataset: ours, the reference's, and those that contradict themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import rolltape
from rolltape.errors import DatasetNotFoundError, FormatError, UnsupportedFormatError, UsageError
from rolltape.format.stats import from_json
from rolltape.write import Writer
from sample import FRONT, WRIST, edit_info, f1, f3
from write.recordings import (
    H264,
    ONE_CAMERA,
    STATE,
    TABLES,
    add,
    camera,
    check_whole,
    files,
    info,
    record,
    rows,
    snapshot,
)

GOLDEN = Path(__file__).parents[1] / "data/golden"


def append(root: Path, lengths: list[int], features: object = None, **options: object) -> None:
    with Writer.resume(root, durability="relaxed", **options) as writer:  # type: ignore[arg-type]  # passed through
        for length in lengths:
            add(writer, length, features)  # type: ignore[arg-type]  # passed through
            writer.save_episode()


def test_sessions_go_on_with_the_hot_files(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [5, 7])
    for _ in range(3):
        append(root, [2], rgb_encoder=H264)
    check_whole(root, 5, 18)
    assert len(files(root, "data")) == len(files(root, "meta/episodes")) == 1
    with pq.ParquetFile(root / "data/chunk-000/file-000.parquet") as file:
        assert file.metadata.num_row_groups == 5


def test_videos_of_many_sessions_are_packed_together(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [5])
    for _ in range(3):
        append(root, [2])
    assert len(files(root, "videos")) == 1
    check_whole(root, 4, 11)


def test_encoder_settings_are_those_of_the_dataset(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [5])
    with Writer.resume(root) as writer:
        assert writer._options.rgb_encoder.vcodec == "h264"
    assert info(root)["features"][FRONT]["info"]["video.codec"] == "h264"


@pytest.mark.parametrize("build", [f1, f3])
def test_the_reference_layout_is_continued_with_its_own_columns(tmp_path: Path, build: object) -> None:
    root = build(tmp_path / "set").root  # type: ignore[operator]  # f1 or f3
    columns = pq.read_schema(root / "meta/episodes/chunk-000/file-000.parquet").names
    features = ONE_CAMERA if build is f1 else {**ONE_CAMERA, **camera(WRIST)}
    append(root, [3, 6], features)
    check_whole(root, 5, 25, [FRONT] if build is f1 else [FRONT, WRIST])
    for name in files(root, "meta/episodes"):
        assert pq.read_schema(root / name).names == columns


@pytest.mark.parametrize("name", ["video_h264", "two_cameras_resumed", "images_png"])
def test_golden_datasets_are_continued(tmp_path: Path, name: str) -> None:
    root = tmp_path / "set"
    shutil.copytree(GOLDEN / "v30" / name, root)
    before = rolltape.open(root)
    kept = [{key: np.asarray(value).copy() for key, value in before[k].items() if key != "task"} for k in range(16)]
    stats = from_json((root / "meta/stats.json").read_bytes(), "stats.json")
    own = {key: one for key, one in before.features.items() if key.startswith(("obs", "act"))}
    with Writer.resume(root, durability="relaxed") as writer:
        for number in range(6):
            values = {key: np.zeros(one.shape, np.uint8 if one.is_camera else np.float32) for key, one in own.items()}
            writer.add_frame({**values, STATE: np.array([3, number], np.float32)}, task="new")
        writer.save_episode()
    after = rolltape.open(root)
    assert len(after) == 22
    for k in range(16):
        for key, value in kept[k].items():
            assert np.array_equal(np.asarray(after[k][key]), value)
    found = after.stats
    assert found is not None
    assert found["action"]["count"].tolist() == [22]
    assert found["action"]["max"].tolist() == stats["action"]["max"].tolist()
    assert found[FRONT]["count"].tolist() == [22]
    assert after.tasks.texts[info(root)["total_tasks"] - 1] == "new"


def test_A19_a_counter_ahead_of_the_rows_is_refused_with_the_facts(tmp_path: Path) -> None:
    root = f1(tmp_path / "set").root
    edit_info(root, lambda content: content.update(total_episodes=5))
    before = snapshot(root)
    with pytest.raises(FormatError, match=r"5[\s\S]*3 [\s\S]*rolltape check"):
        Writer.resume(root)
    assert snapshot(root) == before
    assert not (root / ".rolltape").exists()


@pytest.mark.parametrize("change", [{"total_episodes": 2}, {"total_frames": 12}, {"total_frames": 20}])
def test_A19_other_disagreements_are_refused_too(tmp_path: Path, change: dict[str, int]) -> None:
    root = f1(tmp_path / "set").root
    edit_info(root, lambda content: content.update(change))
    with pytest.raises(FormatError, match="rolltape check"):
        Writer.resume(root)


def test_A27_appending_needs_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        Writer.resume(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.txt").write_text("x")
    with pytest.raises((DatasetNotFoundError, FormatError)):
        Writer.resume(tmp_path / "other")
    assert files(tmp_path / "other") == ["a.txt"]


def test_other_layouts_are_refused_by_name_before_any_change(tmp_path: Path) -> None:
    root = tmp_path / "set"
    shutil.copytree(GOLDEN / "v21/v21_video", root)
    before = snapshot(root)
    with pytest.raises(UnsupportedFormatError, match=r"v2\.1"):
        Writer.resume(root)
    assert snapshot(root) == before
    assert not (root / ".rolltape").exists()


def test_arguments_that_contradict_the_dataset(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2], robot_type="arm")
    wrong = {**ONE_CAMERA, "action": {"dtype": "float32", "shape": [3]}, "extra": {"dtype": "int64", "shape": [1]}}
    with pytest.raises(UsageError) as caught:
        Writer.resume(root, fps=30, robot_type="leg", features=wrong)
    for part in ("fps", "robot_type", "action", "extra"):
        assert part in str(caught.value)
    with Writer.resume(root, fps=10, robot_type="arm", features=ONE_CAMERA):
        pass


def test_unknown_keys_of_info_are_kept(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2], TABLES)
    edit_info(root, lambda content: content.update(my_note={"a": [1]}, data_files_size_in_mb=7))
    append(root, [2], TABLES)
    assert info(root)["my_note"] == {"a": [1]}
    assert info(root)["data_files_size_in_mb"] == 7


def test_new_numbers_start_above_every_number_on_disk(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2, 3])
    orphans = {
        "data/chunk-000/file-007.parquet": b"not ours",
        f"videos/{FRONT}/chunk-001/file-004.mp4": b"not ours either",
    }
    (root / "data/chunk-000/file-007.parquet").write_bytes(b"")
    for name, content in orphans.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    append(root, [4])
    for name, content in orphans.items():
        assert (root / name).read_bytes() == content
        (root / name).unlink()
    check_whole(root, 3, 9)
    assert "data/chunk-000/file-008.parquet" in files(root, "data")
    assert rows(root).column(f"videos/{FRONT}/chunk_index").to_pylist()[-1] == 1


def test_split_names_of_the_user_are_kept(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2, 2], TABLES)
    edit_info(root, lambda content: content.update(splits={"train": "0:1", "val": "1:2"}))
    append(root, [2], TABLES)
    assert info(root)["splits"] == {"train": "0:1", "val": "1:2"}


def test_statistics_are_rebuilt_where_ours_are_missing(tmp_path: Path) -> None:
    root, whole = record(tmp_path / "a", [5, 7], TABLES), record(tmp_path / "b", [5, 7, 4], TABLES)
    (root / "meta/quantiles.npz").unlink()
    append(root, [4], TABLES)
    ours, theirs = (json.loads((one / "meta/stats.json").read_text()) for one in (root, whole))
    for feature, stats in theirs.items():
        for stat, value in stats.items():
            assert np.allclose(ours[feature][stat], value), (feature, stat)
