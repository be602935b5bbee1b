"""Pictures equal, bit for bit, to what the real lerobot returns for the same files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rolltape.format import DepthEncoderConfig, RGBEncoderConfig
from rolltape.video import VideoFile, depth, video_info

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "data" / "golden"
NAMES = ("video_av1", "video_h264", "two_cameras_resumed", "streamed_h264_60x17", "depth_mm")


def digest(array: Any) -> str:
    """First 32 hex digits of SHA-256, as the expected answers have it."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]


def config_of(info: dict[str, Any]) -> RGBEncoderConfig | DepthEncoderConfig:
    return (DepthEncoderConfig if info["is_depth_map"] else RGBEncoderConfig).from_info(info)


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_of_the_goldens(name: str) -> None:
    root = GOLDEN / "v30" / name
    expected = json.loads((GOLDEN / "expected" / f"{name}.json").read_text())["whole"]["items"]
    info = json.loads((root / "meta" / "info.json").read_text())
    files = sorted((root / "meta" / "episodes").rglob("*.parquet"))
    episodes = [row for file in files for row in pq.read_table(file).to_pylist()]
    cameras = {key: value["info"] for key, value in info["features"].items() if value["dtype"] == "video"}
    assert cameras
    for key, described in cameras.items():
        item = 0
        for row in episodes:
            chunk, file = row[f"videos/{key}/chunk_index"], row[f"videos/{key}/file_index"]
            with VideoFile(root / "videos" / key / f"chunk-{chunk:03d}" / f"file-{file:03d}.mp4") as video:
                first = video.index.frame_of(row[f"videos/{key}/from_timestamp"])
                ranks = range(first, first + row["length"])
                if described["is_depth_map"]:
                    codes = video.read_raw(ranks)
                    frames: Any = depth.dequantize(codes, DepthEncoderConfig.from_info(described))[:, None]
                else:
                    frames = video.read(ranks)
            for frame in frames:
                assert [digest(frame)] == expected[item][key]["sha256"], (key, item)
                item += 1
        assert item == len(expected)


@pytest.mark.parametrize("name", NAMES)
def test_probed_info_of_the_goldens(name: str) -> None:
    root = GOLDEN / "v30" / name
    features = json.loads((root / "meta" / "info.json").read_text())["features"]
    for key, feature in features.items():
        if feature["dtype"] == "video":
            recorded = {name: value for name, value in feature["info"].items() if name != "depth_unit"}
            found = video_info(root / "videos" / key / "chunk-000" / "file-000.mp4", config_of(feature["info"]))
            assert found == recorded
            assert [name for name in found if name != "is_depth_map"] == [n for n in recorded if n != "is_depth_map"]


COLOUR = json.loads((HERE / "colour" / "expected.json").read_text())


@pytest.mark.parametrize("name", COLOUR)
def test_colours_equal_torchcodec(name: str) -> None:
    """Noise in odd sizes, with matrix and range tags, 8 and 10 bits; answers of torchcodec 0.11.1 on FFmpeg 5.1."""
    with VideoFile(HERE / "colour" / name) as video:
        assert [digest(frame) for frame in video.read(range(3))] == COLOUR[name]
        rows = video.read(range(3), layout="HWC")
    assert [digest(frame.transpose(2, 0, 1)) for frame in rows] == COLOUR[name]
