"""The answers of the real lerobot to the golden datasets, and items of ours brought into the same form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
NAMES = (
    "video_av1",
    "video_h264",
    "two_cameras_resumed",
    "images_png",
    "tabular_types",
    "streamed_h264_60x17",
    "depth_mm",
)


def root(name: str) -> Path:
    """The folder of a golden dataset."""
    return GOLDEN / "v30" / name


@cache
def answers(name: str) -> dict[str, Any]:
    """What lerobot's own reader answers."""
    found: dict[str, Any] = json.loads((GOLDEN / "expected" / f"{name}.json").read_text())
    return found


def parts(name: str) -> list[str]:
    """The recorded ways of reading: whole, windows and so on."""
    return [key for key, value in answers(name).items() if isinstance(value, dict) and "items" in value]


def arguments(name: str, part: str) -> dict[str, Any]:
    """The arguments of `LeRobotDataset` for one of them."""
    found = answers(name)
    chosen: dict[str, Any] = {}
    if part in ("windows", "episodes_1_windows"):
        chosen["delta_timestamps"] = found["delta_timestamps"]
    if part == "windows_one":
        chosen["delta_timestamps"] = found["delta_timestamps_one"]
    if part == "uint8":
        chosen["return_uint8"] = True
    if part.startswith("episodes_1"):
        chosen["episodes"] = [1]
    if part == "episodes_2_0":
        chosen["episodes"] = [2, 0]
    return chosen


def frames_of(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The pictures of one value, as what was hashed: colour uint8 CHW, depth float32 1HW."""
    pictures = array.reshape(-1, *array.shape[-3:])
    if array.dtype == np.float32 and array.shape[-3] == 3:
        levels = np.rint(pictures * np.float32(255)).astype(np.uint8)
        # Not only near to them: the float values are exactly the levels divided by 255.
        np.testing.assert_array_equal(np.divide(levels, np.float32(255), dtype=np.float32), pictures)
        pictures = levels
    return list(pictures)


def digest(picture: npt.NDArray[Any]) -> str:
    """The first 32 hex digits of SHA-256 over a picture's bytes."""
    return hashlib.sha256(np.ascontiguousarray(picture).tobytes()).hexdigest()[:32]


def assert_item(item: Mapping[str, Any], wanted: Mapping[str, Any], at: str) -> None:
    """Hold an item, arrays as numpy, against lerobot's answer: keys, dtypes, shapes and every value."""
    assert set(item) == set(wanted), at
    for key, value in wanted.items():
        where = f"{at}, {key}"
        found = item[key]
        if not isinstance(value, dict):
            assert found == value, where
            continue
        assert isinstance(found, np.ndarray), where
        assert list(found.shape) == value["shape"], where
        assert f"torch.{found.dtype}" == value["dtype"], where
        if "sha256" in value:
            assert [digest(picture) for picture in frames_of(found)] == value["sha256"], where
        else:
            np.testing.assert_array_equal(found, np.array(value["value"], found.dtype), where)
