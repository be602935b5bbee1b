"""The drop-in class: arguments, items and attributes as lerobot 0.6.1 has them."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sample
from read import expected
from rolltape import LeRobotDataset, errors
from sample import ACTION, FRONT, STATE, WRIST, Camera, Extra

torch = pytest.importorskip("torch")

# The reference's constructor, in order.
ARGUMENTS = """
repo_id root episodes episode_filter image_transforms delta_timestamps tolerance_s revision force_cache_sync
download_videos video_backend return_uint8 depth_output_unit batch_encoding_size rgb_encoder depth_encoder
encoder_threads streaming_encoding encoder_queue_maxsize
"""


def open_sample(made: sample.Sample, **options: Any) -> LeRobotDataset:
    return LeRobotDataset("me/made", made.root, **options)


@pytest.fixture(scope="module")
def f3(tmp_path_factory: pytest.TempPathFactory) -> sample.Sample:
    return sample.f3(tmp_path_factory.mktemp("f3") / "made")


def test_the_arguments_are_those_of_the_reference() -> None:
    parameters = inspect.signature(LeRobotDataset).parameters
    assert list(parameters) == [*ARGUMENTS.split(), "token"]
    assert parameters["token"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["tolerance_s"].default == 1e-4
    assert parameters["depth_output_unit"].default == "mm"
    assert parameters["download_videos"].default is True


def test_torch_is_loaded_with_the_first_item_and_not_before(f3: sample.Sample) -> None:
    program = f"""
import sys
from rolltape import LeRobotDataset
dataset = LeRobotDataset("me/made", {str(f3.root)!r}, episodes=[1], delta_timestamps={{"action": [0.0]}})
assert len(dataset) == 7 and dataset.meta.camera_keys and dataset.num_episodes == 1
assert dataset.meta.stats["action"] and dataset.meta.episodes[1]["length"] == 7 and dataset.fps == 10
assert "torch" not in sys.modules, "too early"
assert dataset[0]["action"].shape == (1, 2)
assert "torch" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_an_item(f3: sample.Sample) -> None:
    item = open_sample(f3)[6]
    assert item["task"] == "b"
    assert item["index"].shape == torch.Size([])
    assert item["index"].dtype == torch.int64
    assert item["timestamp"].dtype == torch.float32
    assert item[STATE].tolist() == [1, 1]
    for camera in (FRONT, WRIST):
        assert item[camera].dtype == torch.float32
        assert item[camera].shape == (3, 32, 32)
        assert sample.read_level(item[camera]) == f3.level(6, camera)
    assert open_sample(f3, return_uint8=True)[6][FRONT].dtype == torch.uint8


def test_indices_are_those_of_a_list(f3: sample.Sample) -> None:
    dataset = open_sample(f3)
    assert len(dataset) == 16
    assert dataset[-1]["index"] == 15
    assert dataset[np.int64(3)]["index"] == dataset[torch.tensor(3)]["index"] == 3
    assert [int(item["index"]) for item in dataset[3:9:2]] == [3, 5, 7]
    assert [sample.read_level(item[FRONT]) for item in dataset[:]] == [f3.level(index) for index in range(16)]
    for bad in (16, -17):
        with pytest.raises(IndexError):
            dataset[bad]


def test_A01_episodes_in_storage_order(f3: sample.Sample) -> None:
    dataset = open_sample(f3, episodes=[2, 0])
    assert (len(dataset), dataset.num_frames, dataset.num_episodes) == (9, 9, 2)
    assert dataset.episodes == [2, 0]
    assert [int(item["index"]) for item in dataset[:]] == [0, 1, 2, 3, 4, 12, 13, 14, 15]
    relative = dataset.absolute_to_relative_idx
    assert relative == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 12: 5, 13: 6, 14: 7, 15: 8}
    assert open_sample(f3).absolute_to_relative_idx is None


@pytest.mark.parametrize("bad", [[1, 1], [-1], [3], ["1"]])
def test_A01_wrong_episodes_are_refused_by_name(f3: sample.Sample, bad: list[Any]) -> None:
    with pytest.raises(ValueError, match=str(bad[0])):
        open_sample(f3, episodes=bad)


def test_an_episode_filter(f3: sample.Sample) -> None:
    assert open_sample(f3, episode_filter=lambda row: row["length"] > 4).episodes == [0, 1]
    assert open_sample(f3, episodes=[2, 1], episode_filter=lambda row: row["length"] > 4).episodes == [1]
    seen: list[dict[str, Any]] = []
    open_sample(f3, episode_filter=lambda row: seen.append(row) or True)  # type: ignore[func-returns-value]
    assert seen[2]["tasks"] == ["a"]
    assert not [key for row in seen for key in row if key.startswith("stats/")]
    with pytest.raises(ValueError, match="no episode"):
        open_sample(f3, episode_filter=lambda row: False)


def test_windows_off_the_grid_and_their_tolerance(f3: sample.Sample) -> None:
    with pytest.raises(ValueError, match=r"0\.05"):
        open_sample(f3, delta_timestamps={ACTION: [0.05]})
    dataset = open_sample(f3, delta_timestamps={ACTION: [0.09]}, tolerance_s=0.02)
    assert dataset[0][ACTION].tolist() == [[1, -1]]


def test_windows_of_one_step(f3: sample.Sample, tmp_path: Path) -> None:
    deltas = {FRONT: [0.0], ACTION: [0.0]}
    item = open_sample(f3, delta_timestamps=deltas)[3]
    assert item[FRONT].shape == (3, 32, 32)
    assert item[ACTION].shape == (1, 2)
    assert item[f"{FRONT}_is_pad"].tolist() == [False]
    assert item[f"{FRONT}_is_pad"].dtype == torch.bool
    images = sample.f4(tmp_path / "f4")
    assert open_sample(images, delta_timestamps=deltas)[3][FRONT].shape == (1, 3, 32, 32)


def test_A15_shapes_and_dtypes_of_numbers(tmp_path: Path) -> None:
    kinds = {
        "float64": (pa.float64(), torch.float32),
        "int32": (pa.int32(), torch.int64),
        "uint8": (pa.uint8(), torch.int64),
        "bool": (pa.bool_(), torch.bool),
    }
    extras = {}
    for dtype, (stored, _) in kinds.items():

        def value(episode: int, frame: int, index: int, dtype: str = dtype) -> Any:
            return np.array(index % 2).astype(dtype).item()

        def pair(episode: int, frame: int, index: int, dtype: str = dtype) -> Any:
            return [value(episode, frame, index, dtype)] * 2

        extras[f"{dtype}_one"] = Extra({"dtype": dtype, "shape": [1], "names": None}, value, stored)
        extras[f"{dtype}_two"] = Extra({"dtype": dtype, "shape": [2], "names": None}, pair, pa.list_(stored, 2))
    made = sample.build(tmp_path / "made", cameras={}, extras=extras)
    dataset = open_sample(made, delta_timestamps={"int32_two": [0.0]})
    item = dataset[3]
    for dtype, (_, wanted) in kinds.items():
        assert item[f"{dtype}_one"].dtype == item[f"{dtype}_two"].dtype == wanted
        assert item[f"{dtype}_one"].shape == torch.Size([])
    assert item["int32_two"].shape == (1, 2)
    assert item["bool_two"].tolist() == [True, True]


def test_transforms_see_each_camera_once_but_not_depth() -> None:
    seen: list[tuple[int, ...]] = []

    def transform(picture: Any) -> Any:
        seen.append(tuple(picture.shape))
        return picture * 0 + 0.5

    deltas = {FRONT: [-0.1, 0.0]}
    dataset = LeRobotDataset(
        "golden/depth", expected.root("depth_mm"), image_transforms=transform, delta_timestamps=deltas
    )
    item = dataset[3]
    assert seen == [(2, 3, 64, 64)]
    assert (item[FRONT] == 0.5).all()
    assert item["observation.images.front_depth"].mean() > 100
    dataset.clear_image_transforms()
    assert dataset[3][FRONT].mean() != 0.5
    assert len(seen) == 1
    dataset.set_image_transforms(transform)
    dataset.__getitems__([1, 2])
    assert len(seen) == 3
    with pytest.raises(TypeError):
        dataset.set_image_transforms(3)  # type: ignore[arg-type]  # what a user might try
    with pytest.raises(TypeError):
        LeRobotDataset("golden/depth", expected.root("depth_mm"), image_transforms=3)  # type: ignore[arg-type]


def test_depth_in_metres() -> None:
    name = "observation.images.front_depth"
    metres = LeRobotDataset("golden/depth", expected.root("depth_mm"), depth_output_unit="m")
    millimetres = LeRobotDataset("golden/depth", expected.root("depth_mm"))
    assert metres.depth_output_unit == "m"
    assert abs(float(metres[6][name].mean()) - 0.7) < 0.002
    assert metres[6][name].dtype == torch.float32
    assert abs(float(millimetres[6][name].mean()) - 700) < 2
    assert metres.meta.stats is not None
    assert millimetres.meta.stats is not None
    np.testing.assert_allclose(metres.meta.stats[name]["mean"] * 1000, millimetres.meta.stats[name]["mean"])
    np.testing.assert_array_equal(metres.meta.stats[name]["count"], millimetres.meta.stats[name]["count"])


def test_rows_of_the_tables(f3: sample.Sample, tmp_path: Path) -> None:
    dataset = open_sample(f3, episodes=[1, 2], delta_timestamps={ACTION: [0.0, 0.1]})
    rows = dataset.hf_dataset
    assert len(rows) == rows.num_rows == 11
    names = [STATE, ACTION, "timestamp", "frame_index", "episode_index", "index", "task_index"]
    assert rows.column_names == names
    assert list(rows.features) == names
    assert rows[0][ACTION].tolist() == [5, -5]
    assert list(rows[0]) == names
    assert [one.tolist() for one in rows[1:3][STATE]] == [[1, 1], [1, 2]]
    assert [int(one) for one in rows["index"]] == [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    assert rows["index"][2] == 7
    assert torch.stack(rows[ACTION][[0, 10]]).tolist() == [[5, -5], [15, -15]]
    assert [int(row["index"]) for row in rows] == list(range(5, 16))
    assert rows.unique("episode_index") == [1, 2]
    part = rows.select([3, 0]).select_columns(["index", ACTION])
    assert part.column_names == [ACTION, "index"]
    assert [int(row["index"]) for row in part] == [8, 5]
    assert rows.filter(lambda row: row["frame_index"] == 2).data.column("index").to_pylist() == [7, 14]
    assert rows.to_pandas()["index"].tolist() == list(range(5, 16))
    assert rows.data.num_rows == 11
    assert "num_rows: 11" in repr(rows)
    assert dataset.select_columns(ACTION)[0].keys() == {ACTION}
    assert dataset.get_raw_item(4)[ACTION].tolist() == [9, -9]
    with pytest.raises(KeyError):
        rows["nothing"]
    with pytest.raises(IndexError):
        rows[11]
    images = open_sample(sample.f4(tmp_path / "f4"), return_uint8=True)
    assert sample.read_level(images.hf_dataset[3][FRONT]) == sample.level(3)
    assert images.hf_dataset[3][FRONT].dtype == images[3][FRONT].dtype == torch.float32


def test_attributes(f3: sample.Sample) -> None:
    dataset = open_sample(f3, revision="main", video_backend="torchcodec")
    assert (dataset.repo_id, dataset.root, dataset.revision) == ("me/made", f3.root, "main")
    assert open_sample(f3).revision == "v3.0"
    assert dataset.fps == 10
    assert dataset.features[ACTION] == {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
    assert dataset.episodes is None
    assert dataset.delta_timestamps is None
    assert dataset.writer is None
    assert dataset.has_pending_frames() is False
    assert "Number of selected samples: '16'" in repr(dataset)
    for name in ("add_frame", "save_episode", "clear_episode_buffer"):
        with pytest.raises(RuntimeError, match="only read"):
            getattr(dataset, name)(*([{}] if name == "add_frame" else []))
    with pytest.warns(DeprecationWarning, match="resume"):
        open_sample(f3, streaming_encoding=True)
    for bad in ({"video_backend": "ffmpeg"}, {"depth_output_unit": "cm"}, {"tolerance_s": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            open_sample(f3, **bad)


def test_A59_no_network_and_nothing_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    made = sample.f1(tmp_path / "home/me/lift")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert LeRobotDataset("me/lift")[0]["index"] == 0
    for root in (None, tmp_path / "nowhere"):
        with pytest.raises(errors.DatasetNotFoundError):
            LeRobotDataset("me/other", root)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    (made.root / f"videos/{FRONT}/chunk-000/file-000.mp4").unlink()
    with pytest.raises(OSError, match="1 video files are missing") as caught:
        LeRobotDataset("me/lift")
    assert f"videos/{FRONT}/chunk-000/file-000.mp4" in str(caught.value)
    assert LeRobotDataset("me/lift", download_videos=False).hf_dataset[3]["index"] == 3


def test_A16_null_video_rows(tmp_path: Path) -> None:
    made = sample.build(tmp_path / "made", cameras={FRONT: Camera(missing=[1])})
    dataset = open_sample(made)
    assert sample.read_level(dataset[13][FRONT]) == made.level(13)
    assert dataset.hf_dataset[6]["index"] == 6
    with pytest.raises(errors.NoFootageError, match="Episode 1"):
        dataset[6]


def test_other_layouts_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"v2\.1"):
        LeRobotDataset("golden/v21", expected.GOLDEN / "v21/v21_video")


def test_a_dataset_pickles(f3: sample.Sample) -> None:
    dataset = open_sample(f3, episodes=[1], delta_timestamps={FRONT: [-0.1, 0.0]}, return_uint8=True)
    dataset[3]
    dataset.hf_dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(copy) == 7
    assert torch.equal(copy[3][FRONT], dataset[3][FRONT])
    assert copy.meta.episodes[1]["length"] == 7


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (2, "spawn")])
def test_A10_a_loader_gives_the_same_with_and_without_workers(
    f3: sample.Sample, workers: int, method: str | None
) -> None:
    dataset = open_sample(f3, delta_timestamps={ACTION: [0.0, 0.1]})
    dataset[0]
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=5, num_workers=workers, multiprocessing_context=method, shuffle=False
    )
    batches = list(loader)
    assert [len(batch["task"]) for batch in batches] == [5, 5, 5, 1]
    assert torch.cat([batch["index"] for batch in batches]).tolist() == list(range(16))
    pictures = torch.cat([batch[WRIST] for batch in batches])
    assert [sample.read_level(one) for one in pictures] == [f3.level(index, WRIST) for index in range(16)]
    assert batches[0][ACTION].shape == (5, 2, 2)
    assert batches[0][f"{ACTION}_is_pad"].tolist()[4] == [False, True]


def test_A66_an_undeclared_column_is_ignored(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    before = open_sample(made)[3]
    path = made.root / "data/chunk-000/file-000.parquet"
    sample.edit_table(path, lambda table: table.append_column("score", pa.array(np.arange(16.0))))
    assert open_sample(made)[3].keys() == before.keys()


def test_A70_a_decoder_that_does_not_load_is_told_on_opening(
    f3: sample.Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(errors.CodecError, match="PyAV does not load"):
        open_sample(f3)
    assert open_sample(f3, download_videos=False).hf_dataset[3]["index"] == 3
