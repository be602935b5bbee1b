"""What both sides record: feature sets, and frames that are pure functions of (recipe, episode, frame).

Needs numpy only, so that the worker in the reference's environment and the tests in ours make the same frames from the
same few lines and nothing has to be shipped between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

NUMBERS: Final = ("float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
DEFAULTS: Final = frozenset({"timestamp", "frame_index", "episode_index", "index", "task_index"})
TASKS: Final = ("lift the cube", "płaskie lądowanie 着陸", "wave", "put it down")


@dataclass(frozen=True)
class Recipe:
    """A recording that either side can make."""

    name: str
    features: Mapping[str, Mapping[str, Any]]
    lengths: tuple[int, ...] = (7, 3, 12)
    fps: int = 30
    task_every: int = 5
    rgb: Mapping[str, Any] = field(default_factory=dict)
    depth: Mapping[str, Any] = field(default_factory=dict)
    use_videos: bool = True
    reference_writes: bool = True
    """False where the reference's own writer cannot record this feature set."""

    @property
    def frames(self) -> int:
        """Frames in all episodes."""
        return sum(self.lengths)

    @property
    def cameras(self) -> list[str]:
        """Names of picture features, depth included."""
        return [name for name, feature in self.features.items() if feature["dtype"] in ("image", "video")]

    def task(self, episode: int, frame: int) -> str:
        """The task of one frame: it changes inside an episode every `task_every` frames."""
        return TASKS[(episode + frame // self.task_every) % len(TASKS)]

    def frame(self, episode: int, frame: int) -> dict[str, Any]:
        """One frame as both `add_frame`s take it, task included."""
        values = {
            name: _value(name, feature, episode, frame)
            for name, feature in self.features.items()
            if feature["dtype"] != "language"
        }
        if "language_persistent" in self.features:
            values["language_persistent"] = _persistent(episode)
        if "language_events" in self.features:
            values["language_events"] = _events(episode, frame)
        return {**values, "task": self.task(episode, frame)}

    def episode(self, episode: int) -> Iterator[dict[str, Any]]:
        """The frames of one episode; past the last length the lengths start again."""
        for frame in range(self.length(episode)):
            yield self.frame(episode, frame)

    def length(self, episode: int) -> int:
        """Frames of one episode."""
        return self.lengths[episode % len(self.lengths)]


def _value(name: str, feature: Mapping[str, Any], episode: int, frame: int) -> Any:
    shape = tuple(feature["shape"])
    rng = np.random.default_rng([episode, frame, *name.encode()])
    if feature["dtype"] in ("image", "video"):
        info = feature.get("info") or {}
        return _depth(rng, shape, name, frame) if info.get("is_depth_map") else _picture(rng, shape, episode, frame)
    if feature["dtype"] == "string":
        return f"épisode {episode} 帧 {frame}" + " ·" * int(rng.integers(0, 3))
    if feature["dtype"] == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    dtype = np.dtype(feature["dtype"])
    if dtype.kind == "f":
        return (10 ** rng.uniform(-3, 3) * rng.standard_normal(shape)).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -(2**40)), min(limits.max, 2**40), shape, endpoint=True).astype(dtype)


def _picture(rng: np.random.Generator, shape: tuple[int, ...], episode: int, frame: int) -> np.ndarray:
    """A moving gradient under heavy noise: no two frames alike, nothing a codec likes."""
    height, width, _ = shape
    rows, columns = np.mgrid[0:height, 0:width]
    base = np.stack(
        [(columns * 3 + 11 * frame) % 256, (rows * 5 + 31 * episode) % 256, (columns + rows + 7 * frame) % 256], axis=-1
    )
    noise = rng.integers(-60, 61, base.shape)
    return np.clip(base + noise, 0, 255).astype(np.uint8)


def _depth(rng: np.random.Generator, shape: tuple[int, ...], name: str, frame: int) -> np.ndarray:
    """Depth with holes (0) and out of range values; integers are millimetres, `_m` names are floats in metres."""
    millimetres = rng.integers(0, 3000, shape) + 20 * frame
    millimetres[rng.random(shape) < 0.05] = 0
    millimetres[rng.random(shape) < 0.02] = 12_000
    if name.endswith("_m"):
        return (millimetres / 1000.0).astype(np.float32)
    return millimetres.astype(np.uint16)


def _persistent(episode: int) -> list[dict[str, Any]]:
    return [
        {
            "role": "assistant",
            "content": f"plan of episode {episode}: saisir, soulever",
            "style": "plan",
            "timestamp": 0.0,
            "camera": None,
            "tool_calls": None,
        }
    ]


def _events(episode: int, frame: int) -> list[dict[str, Any]]:
    if frame % 3 != 1:
        return []
    return [
        {
            "role": "user",
            "content": f"stop {episode}/{frame}",
            "style": "interjection",
            "camera": None,
            "tool_calls": None,
        }
    ]


def _numbers(dtype: str, *shape: int, names: list[str] | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "names": names}


def _camera(height: int, width: int, *, dtype: str = "video", depth: bool = False) -> dict[str, Any]:
    feature: dict[str, Any] = {
        "dtype": dtype,
        "shape": (height, width, 1 if depth else 3),
        "names": ["height", "width", "channels"],
    }
    if depth:
        feature["info"] = {"is_depth_map": True}
    return feature


BASE: Final = {
    "observation.state": _numbers("float32", 3, names=["x", "y", "z"]),
    "action": _numbers("float32", 2, names=["pan", "tilt"]),
}
KINDS: Final = {
    **BASE,
    **{f"typed.{dtype}": _numbers(dtype, 1) for dtype in NUMBERS},
    **{f"vector.{dtype}": _numbers(dtype, 4) for dtype in NUMBERS},
    "grip": _numbers("float32", 1, names=["grip"]),
    "next.done": _numbers("bool", 1),
    "contacts": _numbers("bool", 3),
    "note": {"dtype": "string", "shape": (1,), "names": None},
    "tactile": _numbers("float32", 2, 3, names=["finger", "axis"]),
    "volume": _numbers("int32", 2, 2, 2),
    "größe.Länge": _numbers("float32", 2),
}
LANGUAGE: Final = {
    "language_persistent": {"dtype": "language", "shape": (1,), "names": None},
    "language_events": {"dtype": "language", "shape": (1,), "names": None},
}
FRONT: Final = "observation.images.front"
WRIST: Final = "observation.images.wrist"
DEPTH: Final = "observation.images.front_depth"

RECIPES: Final = {
    recipe.name: recipe
    for recipe in (
        Recipe("tables", KINDS),
        Recipe("language", {**BASE, **LANGUAGE}, reference_writes=False),
        Recipe("av1", {**BASE, FRONT: _camera(66, 94)}),
        Recipe("h264", {**BASE, FRONT: _camera(50, 86)}, rgb={"vcodec": "h264", "g": 4}, lengths=(9, 8, 14)),
        Recipe(  # the reference's own join fails on a short clip after one with B-frames
            "h264_uneven",
            {**BASE, FRONT: _camera(50, 86)},
            rgb={"vcodec": "h264", "g": 8},
            lengths=(25, 1, 2, 14, 1),
            reference_writes=False,
        ),
        Recipe("h264_long", {**BASE, FRONT: _camera(72, 102)}, rgb={"vcodec": "h264", "g": 30}, lengths=(40, 33)),
        Recipe(  # written by the reference with x265's open GOPs, which it cannot read in windows itself
            "hevc", {**BASE, FRONT: _camera(70, 106)}, rgb={"vcodec": "hevc", "g": 5}, reference_writes=False
        ),
        Recipe(
            "hevc_closed",
            {**BASE, FRONT: _camera(70, 106)},
            rgb={"vcodec": "hevc", "g": 5, "extra_options": {"x265-params": "open-gop=0"}},
        ),
        Recipe(
            "images",
            {**BASE, FRONT: _camera(37, 53, dtype="image"), WRIST: _camera(31, 29, dtype="image")},
            use_videos=False,
        ),
        Recipe("depth_mm", {**BASE, FRONT: _camera(64, 72), DEPTH: _camera(66, 78, depth=True)}),
        Recipe("depth_m", {**BASE, DEPTH + "_m": _camera(66, 78, depth=True)}),
        Recipe(
            "depth_linear",
            {**BASE, DEPTH: _camera(66, 78, depth=True)},
            depth={"depth_min": 0.2, "depth_max": 4.0, "use_log": False},
        ),
        Recipe(
            "depth_images",
            {
                **BASE,
                DEPTH: _camera(33, 41, dtype="image", depth=True),
                DEPTH + "_m": _camera(33, 41, dtype="image", depth=True),
            },
            use_videos=False,
        ),
        Recipe("two_cameras", {**BASE, FRONT: _camera(96, 128), WRIST: _camera(64, 66)}, lengths=(11, 6, 9, 13, 8)),
        Recipe(
            "everything",
            {
                **KINDS,
                FRONT: _camera(66, 94),
                WRIST: _camera(31, 29, dtype="image"),
                DEPTH: _camera(66, 78, depth=True),
            },
        ),
        Recipe(  # two cameras that fill their 1 MiB files at different times
            "rolling",
            {**BASE, FRONT: _camera(192, 256), WRIST: _camera(96, 128)},
            rgb={"vcodec": "h264", "crf": 8},
            lengths=(11, 6, 9, 13, 8),
        ),
        Recipe("many", {**BASE, FRONT: _camera(48, 64)}, rgb={"vcodec": "h264"}, lengths=(4, 2, 5), fps=25),
        Recipe("one_frame", {**KINDS, FRONT: _camera(66, 94)}, lengths=(1, 2, 1), reference_writes=False),
        Recipe(
            "statistics", {**KINDS, FRONT: _camera(66, 94), DEPTH: _camera(66, 78, depth=True)}, lengths=(120, 9, 2)
        ),
        Recipe("statistics_large", {**BASE, FRONT: _camera(306, 402)}, lengths=(12,), rgb={"vcodec": "h264"}),
    )
}
