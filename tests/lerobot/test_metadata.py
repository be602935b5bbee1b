"""`LeRobotDatasetMetadata`: everything that code written for lerobot asks of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import sample
from read import expected
from rolltape import LeRobotDatasetMetadata, errors
from sample import ACTION, FRONT, STATE, WRIST


@pytest.fixture(scope="module")
def meta(tmp_path_factory: pytest.TempPathFactory) -> LeRobotDatasetMetadata:
    made = sample.f3(tmp_path_factory.mktemp("meta") / "made", episode_fields={"success": [True, False, True]})
    return LeRobotDatasetMetadata("me/made", made.root)


def test_what_info_says(meta: LeRobotDatasetMetadata) -> None:
    assert meta.repo_id == "me/made"
    assert meta.revision == "v3.0"
    assert (meta.total_episodes, meta.total_frames, meta.total_tasks, meta.fps) == (3, 16, 2, 10)
    assert (meta.chunks_size, meta.data_files_size_in_mb, meta.video_files_size_in_mb) == (1000, 100, 200)
    assert meta.robot_type == "tabletop"
    assert meta.info.fps == meta.info["fps"] == meta.info.get("fps") == 10
    assert "fps" in meta.info
    assert meta.info.get("nothing", 3) == 3
    assert meta.info.to_dict()["features"][ACTION]["shape"] == [2]
    assert meta.features[FRONT]["shape"] == (32, 32, 3)
    assert meta.features[FRONT]["info"] == {"is_depth_map": False}
    assert meta.names[STATE] == ["episode", "frame"]
    assert meta.shapes[ACTION] == (2,)
    assert meta.camera_keys == meta.video_keys == [FRONT, WRIST]
    assert meta.image_keys == meta.depth_keys == []
    assert meta.has_language_columns is False
    assert meta.tools[0]["function"]["name"] == "say"
    assert meta.url_root == "hf://datasets/me/made"
    assert str(meta._version) == "3.0"
    assert meta.get_chunk_settings()["chunks_size"] == 1000
    assert "Total frames: '16'" in repr(meta)


def test_episodes(meta: LeRobotDatasetMetadata) -> None:
    rows = meta.episodes
    assert rows is not None
    assert len(rows) == 3
    assert rows[1]["dataset_from_index"] == 5
    assert rows[-1]["dataset_to_index"] == 16
    assert rows[2]["tasks"] == ["a"]
    assert rows[1][f"videos/{WRIST}/from_timestamp"] == 0.5
    assert rows["length"] == [5, 7, 4]
    assert list(rows["dataset_to_index"]) == [5, 12, 16]
    assert np.array(rows["length"]).tolist() == [5, 7, 4]
    assert [row["episode_index"] for row in rows] == [0, 1, 2]
    assert rows[0:2]["length"] == [5, 7]
    assert rows.to_pandas()["length"].tolist() == [5, 7, 4]
    assert not [name for name in rows.column_names if name.startswith("stats/")]
    assert [row["length"] for row in rows.filter(lambda row: row["length"] < 6)] == [5, 4]
    assert meta.filter_episodes(lambda row: row["success"]) == [0, 2]
    assert meta.filter_episodes(lambda row: row["length"] > 4, candidates=[2, 1]) == [1]


def test_paths(meta: LeRobotDatasetMetadata) -> None:
    assert meta.get_data_file_path(2) == Path("data/chunk-000/file-000.parquet")
    assert meta.get_video_file_path(2, FRONT) == Path(f"videos/{FRONT}/chunk-000/file-002.mp4")
    assert meta.get_video_file_path(1, WRIST) == Path(f"videos/{WRIST}/chunk-000/file-000.mp4")
    with pytest.raises(IndexError):
        meta.get_data_file_path(3)
    with pytest.raises(IndexError):
        meta.get_video_file_path(3, FRONT)


def test_tasks(meta: LeRobotDatasetMetadata) -> None:
    pandas = pytest.importorskip("pandas")
    assert isinstance(meta.tasks, pandas.DataFrame)
    assert meta.tasks.index.name == "task"
    assert meta.tasks.iloc[1].name == "b"
    assert meta.tasks.loc["b"].task_index == 1
    assert (meta.get_task_index("b"), meta.get_task_index("nothing")) == (1, None)


def test_tasks_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sample.f1(tmp_path / "f1", task_rows=[1, 0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    meta = LeRobotDatasetMetadata("me/made", made.root)
    assert meta.tasks[1] == {"task_index": 1, "task": "b"}
    with pytest.raises(errors.MissingExtraError, match="pandas"):
        meta.tasks.to_pandas()


def test_statistics(meta: LeRobotDatasetMetadata) -> None:
    assert meta.stats is not None
    assert meta.stats[ACTION]["max"].tolist() == [15, 0]
    assert meta.stats["timestamp"]["count"].shape == (1,)
    assert meta.stats[FRONT]["mean"].shape == (3, 1, 1)
    meta.stats[ACTION]["max"] = np.zeros(2)
    assert meta.stats[ACTION]["max"].tolist() == [0, 0]  # as in the reference, code may put its own in


def test_depth_statistics_are_in_the_wanted_unit() -> None:
    name = "observation.images.front_depth"
    meta = LeRobotDatasetMetadata("golden/depth", expected.root("depth_mm"))
    assert meta.depth_keys == [name]
    assert meta.stats is not None
    before = meta.stats[name]["mean"].copy()
    meta.rescale_depth_stats("m")
    assert meta.stats is not None
    np.testing.assert_allclose(meta.stats[name]["mean"], before / 1000)


def test_settings_are_written(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", info={"my_key": {"kept": True}})
    meta = LeRobotDatasetMetadata("me/made", made.root)
    meta.update_chunk_settings(chunks_size=7, video_files_size_in_mb=3)
    meta.tools = [{"type": "function"}]
    content = json.loads((made.root / "meta/info.json").read_text())
    assert (content["chunks_size"], content["video_files_size_in_mb"], content["data_files_size_in_mb"]) == (7, 3, 100)
    assert content["tools"] == meta.tools == [{"type": "function"}]
    assert content["my_key"] == {"kept": True}
    assert meta.chunks_size == 7
    with pytest.raises(ValueError, match="chunks_size"):
        meta.update_chunk_settings(chunks_size=0)


def test_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    features = {ACTION: {"dtype": "float32", "shape": (2,), "names": None}}
    meta = LeRobotDatasetMetadata.create("me/new", 30, features, robot_type="arm", use_videos=False)
    assert meta.root == tmp_path / "me/new"
    assert (meta.total_episodes, meta.episodes, meta.tasks, meta.stats) == (0, None, None, None)
    assert list(meta.features) == [ACTION, "timestamp", "frame_index", "episode_index", "index", "task_index"]
    assert meta.video_path is None
    with pytest.raises(FileExistsError):
        LeRobotDatasetMetadata.create("me/new", 30, features)
    camera = {FRONT: {"dtype": "video", "shape": (8, 8, 3), "names": None}}
    with pytest.raises(ValueError, match="use_videos"):
        LeRobotDatasetMetadata.create("me/other", 30, camera, use_videos=False)
    with pytest.raises(ValueError, match="fps"):
        LeRobotDatasetMetadata.create("me/other", 0, features)
    assert not (tmp_path / "me/other").exists()


def test_what_comes_later_is_refused_by_name(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    with pytest.raises(NotImplementedError, match="bucket"):
        LeRobotDatasetMetadata("me/made", made.root, repo_type="bucket")
    with pytest.raises(NotImplementedError, match="download"):
        LeRobotDatasetMetadata("me/made", made.root, force_cache_sync=True)
    with pytest.raises(ValueError, match="repo_type"):
        LeRobotDatasetMetadata("me/made", made.root, repo_type="model")  # type: ignore[arg-type]  # a wrong one
