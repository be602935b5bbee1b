"""`rolltape.open`: sources, golden content, and what a dataset offers."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
import sample
from read import expected
from rolltape import errors
from sample import ACTION, FRONT, STATE

CASES = [(name, part) for name in expected.NAMES for part in expected.parts(name)]


def golden(name: str, part: str) -> rolltape.Dataset:
    """A golden dataset opened with our own semantics, as near to lerobot's answer as they come."""
    arguments = expected.arguments(name, part)
    images = [key for key, feature in rolltape.open(expected.root(name)).features.items() if feature.is_image]
    dtype = "uint8" if arguments.pop("return_uint8", False) else "float32"
    return rolltape.open(
        expected.root(name),
        dtype={**dict.fromkeys(cameras(name), dtype), **dict.fromkeys(images, "float32")},
        depth_unit="mm",
        **arguments,
    )


def cameras(name: str) -> list[str]:
    return [key for key, one in rolltape.open(expected.root(name)).features.items() if one.is_camera]


@pytest.mark.parametrize(("name", "part"), CASES)
def test_items_equal_those_of_lerobot_but_for_our_own_rules(name: str, part: str) -> None:
    answer = expected.answers(name)[part]
    dataset = golden(name, part)
    wanted = answer["items"]
    if part == "episodes_2_0":  # the order given is kept here; the reference has storage order
        first = [one for one in wanted if one["episode_index"]["value"] == 2]
        wanted = first + [one for one in wanted if one["episode_index"]["value"] == 0]
    assert len(dataset) == answer["len"]
    for index, (item, one) in enumerate(zip(dataset, wanted, strict=True)):
        if part == "windows_one":  # a window has its axis here, also a window of one step
            videos = [key for key in dataset.info.video_features if key in dataset.view.windows]
            one = {**one, **{key: {**one[key], "shape": [1, *one[key]["shape"]]} for key in videos}}
        expected.assert_item(item, one, f"{name} {part} [{index}]")
        if index < 20:
            expected.assert_item(dataset[index], one, f"{name} {part} [{index}] alone")


def test_what_a_dataset_offers(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", episode_fields={"success": [True, False, True]})
    dataset = rolltape.open(made.root)
    assert dataset.root == made.root
    assert (dataset.num_frames, dataset.num_episodes, dataset.fps) == (16, 3, 10)
    assert dataset.info.robot_type == "tabletop"
    assert list(dataset.features)[:3] == [STATE, ACTION, FRONT]
    assert dataset.cameras == (FRONT,)
    assert dataset.tasks.text(1) == "b"
    assert dataset.stats is not None
    assert dataset.stats[ACTION]["max"].tolist() == [15, 0]
    assert dataset.meta.episodes.length.tolist() == [5, 7, 4]
    for part in ("3 episodes", "16 frames at 10 fps", FRONT, "float32 [2]"):
        assert part in repr(dataset)
    assert "Batch of 2" in repr(dataset.batch([0, 1]))


def test_indices(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    dataset = rolltape.open(made.root)
    assert dataset[-1]["index"] == 15
    assert dataset[np.int64(3)]["index"] == 3
    assert dataset[True]["index"] == 1
    assert [int(item["index"]) for item in dataset[2:9:3]] == [2, 5, 8]
    assert [int(item["index"]) for item in dataset[::-5]] == [15, 10, 5, 0]
    assert [sample.read_level(item[FRONT]) for item in dataset[12:]] == [made.level(index) for index in range(12, 16)]
    assert dataset[5:5] == []
    for bad in (16, -17, 10**12):
        with pytest.raises(errors.FrameIndexError, match="-16 to 15"):
            dataset[bad]
        with pytest.raises(IndexError):
            dataset.batch([0, bad])
    with pytest.raises(TypeError, match="batch"):
        dataset["action"]  # type: ignore[call-overload]  # what a user might try
    with pytest.raises(errors.FrameIndexError):
        dataset.batch([0.5])
    assert dataset.batch([]).size == 0
    assert dataset.batch(iter([3, 4])).indices.tolist() == [3, 4]


def test_an_episode(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", episode_fields={"success": [True, False, True]})
    dataset = rolltape.open(made.root, episodes=[2, 1])
    episode = dataset.episode(1)
    assert len(episode) == 7
    assert episode.frames == range(4, 11)
    assert episode.tasks == ["b"]
    assert episode.fields == {"success": False}
    assert episode.row["dataset_from_index"] == 5
    assert episode.seconds == 0.7
    assert [int(item["frame_index"]) for item in episode] == list(range(7))
    assert [int(item["frame_index"]) for item in episode[-2:]] == [5, 6]
    assert episode[-1]["frame_index"] == 6
    assert sample.read_level(episode[0][FRONT]) == made.level(5)
    assert episode.batch()["frame_index"].tolist() == list(range(7))
    with pytest.raises(errors.FrameIndexError, match="Episode 1 has no frame 7"):
        episode[7]
    with pytest.raises(errors.SelectionError, match="one of 2, 1"):
        dataset.episode(0)


def test_A59_a_repo_id_is_found_under_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.f1(tmp_path / "home/me/lift")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    assert len(rolltape.open("me/lift")) == 16
    monkeypatch.delenv("HF_LEROBOT_HOME")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (tmp_path / "home").rename(tmp_path / "lerobot")
    assert len(rolltape.open("me/lift")) == 16
    with pytest.raises(errors.DatasetNotFoundError, match="does not download") as caught:
        rolltape.open("me/nothing")
    assert str(tmp_path / "lerobot/me/nothing") in str(caught.value)
    assert not (tmp_path / "lerobot/me/nothing").exists()


@pytest.mark.parametrize("cache", ["lerobot/hub", "hub"])
def test_A59_a_snapshot_that_was_downloaded_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    folder = tmp_path / cache / "datasets--me--lift"
    old = sample.f1(folder / "snapshots/0123456789abcdef")
    sample.f1(folder / "snapshots/fedcba9876543210", lengths=(2, 2, 2))
    (folder / "refs").mkdir()
    (folder / "refs/v3.0").write_text("0123456789abcdef")
    (folder / "refs/main").write_text("fedcba9876543210")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in ("HF_LEROBOT_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    assert rolltape.open("me/lift").root == old.root
    (folder / "refs/v3.0").write_text("../../../elsewhere")
    assert len(rolltape.open("me/lift")) == 6


def test_A59_a_folder_that_is_not_whole_names_what_is_missing(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", data_files=[[0], [1], [2]])
    (made.root / "data/chunk-000/file-001.parquet").unlink()
    with pytest.raises(errors.DamagedFileError, match=r"data/chunk-000/file-001\.parquet"):
        rolltape.open(made.root)


@pytest.mark.parametrize(
    "source", ["hf://datasets/me/x", "s3://b/x", "gs://b/x", "az://b/x", "https://example.org/x", "ftp://example.org/x"]
)
def test_other_sources_are_refused_by_name(source: str) -> None:
    with pytest.raises(errors.UnsupportedFormatError, match="comes later") as caught:
        rolltape.open(source)
    assert source in str(caught.value)


def test_paths_of_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sample.f1(tmp_path / "f1")
    monkeypatch.chdir(tmp_path)
    for source in ("f1", "./f1", str(made.root), made.root, f"file://{made.root}"):
        assert len(rolltape.open(source)) == 16
    link = tmp_path / "link"
    os.symlink(made.root, link)
    assert sample.read_level(rolltape.open(link)[3][FRONT]) == made.level(3)
    with pytest.raises(errors.UnsupportedFormatError, match="single file"):
        rolltape.open(made.root / "meta/info.json")


@pytest.mark.parametrize("kind", [RuntimeError, OSError, ImportError])
def test_A70_a_decoder_that_does_not_load_is_told_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    made = sample.f1(tmp_path / "f1")
    load = builtins.__import__

    def broken(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "av":
            raise kind("libavutil.so.60: cannot open shared object file")
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(errors.CodecError, match="libavutil") as caught:
        rolltape.open(made.root)
    assert "pip install" in str(caught.value)
    assert rolltape.open(made.root, cameras=[])[3]["index"] == 3
