"""Small recordings with our own writer, and what is on the disk afterwards. Frames carry their identity."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rolltape
from rolltape.format import RGBEncoderConfig
from rolltape.write import Writer
from sample import FRONT, WRIST, level, read_level

STATE = "observation.state"
SIZE = 32
H264 = RGBEncoderConfig(vcodec="h264")


def vector(name: str, size: int = 2, dtype: str = "float32") -> dict[str, Any]:
    """One vector feature."""
    return {name: {"dtype": dtype, "shape": [size], "names": None}}


def camera(name: str = FRONT, dtype: str = "video", size: int = SIZE) -> dict[str, Any]:
    """One colour camera."""
    return {name: {"dtype": dtype, "shape": [size, size, 3], "names": ["height", "width", "channels"]}}


TABLES = {**vector(STATE), **vector("action")}
ONE_CAMERA = {**TABLES, **camera()}


def create(root: Path, features: Mapping[str, Any] | None = None, **options: Any) -> Writer:
    """A new recording at 10 fps; cameras in H.264 unless said. Each episode is on the disk when it is saved."""
    chosen = ONE_CAMERA if features is None else features
    options.setdefault("rgb_encoder", H264)
    has_cameras = any(feature["dtype"] in ("image", "video") for feature in chosen.values())
    options.setdefault("durability", "relaxed" if has_cameras else "full")
    return Writer.create(root, options.pop("fps", 10), chosen, **options)


def picture(code: int, size: int = SIZE) -> np.ndarray[Any, Any]:
    """A flat picture whose grey level codes a number."""
    return np.full((size, size, 3), level(code), np.uint8)


def frame(features: Mapping[str, Any], episode: int, number: int, code: int) -> dict[str, Any]:
    """The frame with an identity: state = [episode, number], action = [code, -code], cameras show the code."""
    values: dict[str, Any] = {}
    for name, feature in features.items():
        if feature["dtype"] in ("image", "video"):
            values[name] = picture(code + (3 if name == WRIST else 0), feature["shape"][0])
        elif name == STATE:
            values[name] = np.array([episode, number], np.float32)
        else:
            values[name] = np.array([code, -code], np.float32)
    return values


def add(
    writer: Writer, length: int, features: Mapping[str, Any] | None = None, *, task: str = "lift", at: int = 0
) -> None:
    """Add frames to the open episode; codes go on from `at` past what was saved."""
    chosen = ONE_CAMERA if features is None else features
    for number in range(length):
        code = writer.total_frames + number + at
        writer.add_frame(frame(chosen, writer.total_episodes, number, code), task=task)


def record(
    root: Path, lengths: Iterable[int] = (5, 7, 4), features: Mapping[str, Any] | None = None, **options: Any
) -> Path:
    """A finished recording."""
    with create(root, features, **options) as writer:
        for length in lengths:
            add(writer, length, features)
            writer.save_episode()
    return root


def info(root: Path) -> dict[str, Any]:
    """What info.json holds."""
    return dict(json.loads((root / "meta/info.json").read_text()))


def rows(root: Path) -> pa.Table:
    """All episode rows, in the order of the files' numbers."""
    return pa.concat_tables([pq.read_table(path) for path in sorted((root / "meta/episodes").glob("*/*.parquet"))])


def files(root: Path, under: str = "") -> list[str]:
    """All files, relative to the root."""
    return sorted(path.relative_to(root).as_posix() for path in (root / under).rglob("*") if path.is_file())


def snapshot(root: Path) -> dict[str, bytes]:
    """The content of every file but the lock's owner."""
    return {name: (root / name).read_bytes() for name in files(root) if not name.startswith(".rolltape/")}


def codes(root: Path, key: str = FRONT) -> list[int]:
    """The grey level of every frame's picture, as read back."""
    dataset = rolltape.open(root)
    return [read_level(dataset[index][key]) for index in range(len(dataset))]


def levels(count: int, shift: int = 0) -> list[int]:
    """The grey levels of the first frames."""
    return [level(code + shift) for code in range(count)]


def check_whole(root: Path, episodes: int, frames: int, cameras: Iterable[str] = (FRONT,)) -> None:
    """Everything that must hold of a dataset at every moment: counters, rows, numbers, pictures, no leftovers."""
    found = info(root)
    assert (found["total_episodes"], found["total_frames"]) == (episodes, frames)
    assert found["splits"] == {"train": f"0:{episodes}"}
    dataset = rolltape.open(root)
    assert (dataset.num_episodes, len(dataset)) == (episodes, frames)
    table = dataset.table()
    assert table.column("index").to_pylist() == list(range(frames))
    state = np.asarray(table.column(STATE).to_pylist())
    assert state[:, 0].tolist() == table.column("episode_index").to_pylist()
    assert state[:, 1].tolist() == table.column("frame_index").to_pylist()
    for key in cameras:
        assert codes(root, key) == levels(frames, 3 if key == WRIST else 0)
    for name in files(root):
        assert name.startswith(".rolltape/") or not name.endswith(".tmp")


def leftovers(root: Path) -> list[str]:
    """What is in the work folder, if it is there."""
    return sorted(os.listdir(root / ".rolltape")) if (root / ".rolltape").exists() else []


def recovered_marks(root: Path) -> list[bool]:
    """For each episode, whether it was brought back after a kill."""
    return [bool(mark) for mark in rows(root).column("rolltape/recovered").to_pylist()]
