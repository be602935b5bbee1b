"""`meta/info.json`: the schema, the counters and the path templates of a dataset.

Source of the format: LeRobotDataset v3.0. Keys that are not known here are kept and written back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rolltape.errors import FormatError
from rolltape.format.features import Feature, parse_features
from rolltape.format.json_text import json_text
from rolltape.format.rate import Rate

__all__ = ["CODEBASE_VERSION", "DATA_PATH", "VIDEO_PATH", "Info", "parse_info"]

CODEBASE_VERSION = "v3.0"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_MAX_SIZE_MB = 1 << 24
_MAX_COUNT = 1 << 53


@dataclass(frozen=True)
class Info:
    """What `meta/info.json` says.

    Attributes:
        fps: Frames per second as the file has it. `rate` is the exact form.
        features: All features in their order, the five defaults included.
        chunks_size: Files in one chunk folder.
        data_files_size_in_mb: Size limit of a data file, MiB.
        video_files_size_in_mb: Size limit of a video file, MiB.
        video_path: The template of video paths, or None for a dataset without videos.
        splits: Half-open episode ranges as text, such as `{"train": "0:50"}`.
        tools: Function schemas, or None where the file has none.
        extra: Keys unknown here, kept as they are.
    """

    fps: int | float
    features: dict[str, Feature]
    codebase_version: str = CODEBASE_VERSION
    total_episodes: int = 0
    total_frames: int = 0
    total_tasks: int = 0
    chunks_size: int = 1000
    data_files_size_in_mb: int | float = 100
    video_files_size_in_mb: int | float = 200
    data_path: str = DATA_PATH
    video_path: str | None = VIDEO_PATH
    robot_type: str | None = None
    splits: dict[str, str] = field(default_factory=dict)
    tools: list[Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> Rate:
        """The exact frame rate."""
        return Rate.parse(self.fps, self.extra.get("fps_fraction"))

    @property
    def video_features(self) -> dict[str, Feature]:
        """The cameras whose pictures live in MP4 files."""
        return {name: feature for name, feature in self.features.items() if feature.is_video}

    @property
    def image_features(self) -> dict[str, Feature]:
        """The cameras whose pictures live in the data table."""
        return {name: feature for name, feature in self.features.items() if feature.is_image}

    @property
    def camera_features(self) -> dict[str, Feature]:
        """All cameras."""
        return {name: feature for name, feature in self.features.items() if feature.is_camera}

    @property
    def depth_features(self) -> dict[str, Feature]:
        """The cameras that hold distances."""
        return {name: feature for name, feature in self.features.items() if feature.is_depth}

    @property
    def column_features(self) -> dict[str, Feature]:
        """The features that have a column in the data table: all but videos."""
        return {name: feature for name, feature in self.features.items() if not feature.is_video}

    def replace(self, **changes: Any) -> Info:
        """Return a copy with some of the fields changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return the content of `info.json` as plain JSON types, known keys first, in the reference's order."""
        known: dict[str, Any] = {
            "codebase_version": self.codebase_version,
            "fps": self.fps,
            "features": {name: feature.to_json() for name, feature in self.features.items()},
            "total_episodes": self.total_episodes,
            "total_frames": self.total_frames,
            "total_tasks": self.total_tasks,
            "chunks_size": self.chunks_size,
            "data_files_size_in_mb": self.data_files_size_in_mb,
            "video_files_size_in_mb": self.video_files_size_in_mb,
            "data_path": self.data_path,
            "video_path": self.video_path,
            "robot_type": self.robot_type,
            "splits": dict(self.splits),
        }
        if self.tools is not None:
            known["tools"] = self.tools
        return {**known, **self.extra}

    def to_json_bytes(self) -> bytes:
        """Return the bytes of `info.json`: UTF-8, four spaces, non-ASCII kept."""
        return (json_text(self.to_json()) + "\n").encode()


_KNOWN = frozenset(one.name for one in fields(Info)) - {"extra"}


def load_json_object(data: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in `data`.

    Raises:
        FormatError: If it is empty, not UTF-8, not JSON, or not an object.
    """
    if not data.strip(b"\0 \t\r\n"):
        raise FormatError("The file is empty.", where=where, fix="Restore it, or rebuild it with a repair.")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError("The file is not JSON.", where=where, found=str(error)) from error
    if not isinstance(value, dict):
        raise FormatError("The file does not hold a JSON object.", where=where, found=type(value).__name__)
    return value


def _count(content: Mapping[str, Any], key: str, default: int, where: str, least: int = 0) -> int:
    value = content.get(key, default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not least <= value <= _MAX_COUNT:
        raise FormatError(
            f"{key} is out of range.", where=where, expected=f"a whole number >= {least}", found=repr(value)
        )
    return value


def _size(content: Mapping[str, Any], key: str, default: int, where: str) -> int | float:
    value = content.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MAX_SIZE_MB:
        raise FormatError(f"{key} is out of range.", where=where, expected="a number of MiB above 0", found=repr(value))
    return value


def _text(content: Mapping[str, Any], key: str, default: str | None, where: str, *, optional: bool) -> Any:
    value = content.get(key, default)
    if not (isinstance(value, str) or (optional and value is None)):
        raise FormatError(f"{key} is not a text.", where=where, found=repr(value))
    return value


def parse_info(data: bytes | Mapping[str, Any], *, where: str = "meta/info.json") -> Info:
    """Return what the bytes (or the parsed JSON) of an `info.json` say.

    Raises:
        FormatError: If a field is malformed; the message names it. The version is not checked here.
    """
    content = load_json_object(data, where) if isinstance(data, bytes) else dict(data)
    for key in ("fps", "features"):
        if key not in content:
            raise FormatError(f"{key} is missing.", where=where, expected="a v3.0 info.json")
    Rate.parse(content["fps"], content.get("fps_fraction"), where=f"{where}, fps")
    splits = content.get("splits") or {}
    if not isinstance(splits, Mapping):
        raise FormatError("splits is not a mapping.", where=where, found=type(splits).__name__)
    tools = content.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise FormatError("tools is not a list.", where=where, found=type(tools).__name__)
    return Info(
        fps=content["fps"],
        features=parse_features(content["features"], where=where),
        codebase_version=_text(content, "codebase_version", CODEBASE_VERSION, where, optional=False),
        total_episodes=_count(content, "total_episodes", 0, where),
        total_frames=_count(content, "total_frames", 0, where),
        total_tasks=_count(content, "total_tasks", 0, where),
        chunks_size=_count(content, "chunks_size", 1000, where, least=1),
        data_files_size_in_mb=_size(content, "data_files_size_in_mb", 100, where),
        video_files_size_in_mb=_size(content, "video_files_size_in_mb", 200, where),
        data_path=_text(content, "data_path", DATA_PATH, where, optional=False),
        video_path=_text(content, "video_path", VIDEO_PATH, where, optional=True),
        robot_type=_text(content, "robot_type", None, where, optional=True),
        splits=dict(splits),
        tools=tools,
        extra={key: value for key, value in content.items() if key not in _KNOWN},
    )
