"""Features: what one column or camera of a dataset is, with every spelling that datasets in the wild use.

Source of the format: the LeRobotDataset v3.0 `meta/info.json`, key `features`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from rolltape.errors import FormatError

__all__ = ["DEFAULT_FEATURES", "Feature", "parse_feature", "parse_features", "with_defaults"]

_CHANNELS = (1, 3, 4)
_TEXT_DTYPES = ("string", "language")
_CAMERA_DTYPES = ("image", "video")
_NUMERIC_KINDS = "biuf"
_MAX_ELEMENTS = 1 << 31


@dataclass(frozen=True)
class Feature:
    """One column or camera.

    Attributes:
        name: The feature's name, such as `observation.state`.
        dtype: A numpy dtype name, or one of string, image, video, language.
        shape: The shape of one frame's value. Cameras keep the declared order, see `layout`.
        names: The element names in whatever form the dataset has: list, mapping or None.
        info: The `info` block of a camera (codec, depth marks and the like), or None where there is none.
        extra: Other keys of the feature, kept as they are.

    Example:
        >>> camera = parse_feature("observation.images.front", {"dtype": "video", "shape": [480, 640, 3]})
        >>> camera.layout, camera.hwc, camera.is_depth
        ('HWC', (480, 640, 3), False)
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    names: Any = None
    info: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_video(self) -> bool:
        """Whether the pictures live in MP4 files."""
        return self.dtype == "video"

    @property
    def is_image(self) -> bool:
        """Whether the pictures live in the data table, as PNG or TIFF bytes."""
        return self.dtype == "image"

    @property
    def is_camera(self) -> bool:
        """Whether the feature is a picture."""
        return self.dtype in _CAMERA_DTYPES

    @property
    def is_string(self) -> bool:
        """Whether the value is one text."""
        return self.dtype == "string"

    @property
    def is_language(self) -> bool:
        """Whether the value is a list of language rows."""
        return self.dtype == "language"

    @property
    def is_numeric(self) -> bool:
        """Whether the value is a number, a bool or an array of them."""
        return self.dtype not in _CAMERA_DTYPES and self.dtype not in _TEXT_DTYPES

    @property
    def is_depth(self) -> bool:
        """Whether the camera holds distances. Three spellings of the mark are in use."""
        if not self.is_camera:
            return False
        info = self.info or {}
        marks = (info.get("is_depth_map"), info.get("video.is_depth_map"), self._older_info.get("video.is_depth_map"))
        return any(bool(mark) for mark in marks)

    @property
    def video_info(self) -> Mapping[str, Any]:
        """What the dataset says of a camera's video: its `info` block, or the `video_info` of older datasets."""
        return self.info or self._older_info

    @property
    def _older_info(self) -> Mapping[str, Any]:
        older = self.extra.get("video_info")
        return older if isinstance(older, Mapping) else {}

    @property
    def depth_unit(self) -> Literal["m", "mm"] | None:
        """The recorded unit of a depth camera, or None where the dataset does not say."""
        unit = (self.info or {}).get("depth_unit")
        return unit if unit in ("m", "mm") else None

    @property
    def layout(self) -> Literal["HWC", "CHW"]:
        """The order of a camera's declared shape: by its names where they say it, else by the place of the channels."""
        names = self.names if isinstance(self.names, (list, tuple)) else ()
        if len(names) == 3:
            if names[2] in ("channel", "channels", "c"):
                return "HWC"
            if names[0] in ("channel", "channels", "c"):
                return "CHW"
        return "HWC" if self.shape[2] in _CHANNELS or self.shape[0] not in _CHANNELS else "CHW"

    @property
    def hwc(self) -> tuple[int, int, int]:
        """Height, width and channels of a camera."""
        a, b, c = self.shape
        return (a, b, c) if self.layout == "HWC" else (b, c, a)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of the values: of numbers as declared, of pictures uint8, of texts object."""
        if self.is_numeric:
            return np.dtype(self.dtype)
        return np.dtype(np.uint8) if self.is_camera else np.dtype(object)

    @property
    def size(self) -> int:
        """How many numbers one frame's value has."""
        return math.prod(self.shape)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of one frame's value in an item. A feature of shape [1] is a scalar there, as in the reference."""
        return () if self.shape == (1,) and not self.is_camera else self.shape

    @property
    def element_names(self) -> list[str] | None:
        """One label for each element of a vector, or None where the dataset has none that fit.

        Accepts a flat list, `{"motors": [...]}` and similar groups, and `{"delta_x": 0, ...}`.
        """
        names: Any = self.names
        if isinstance(names, Mapping):
            values = list(names.values())
            if values and all(type(value) is int for value in values):
                names = [key for key, _ in sorted(names.items(), key=lambda pair: pair[1])]
            else:
                names = [label for group in values if isinstance(group, (list, tuple)) for label in group]
        if isinstance(names, (list, tuple)) and any(isinstance(label, (list, tuple)) for label in names):
            names = [label for group in names for label in (group if isinstance(group, (list, tuple)) else [group])]
        if not isinstance(names, (list, tuple)) or len(names) != self.size:
            return None
        return [str(label) for label in names]

    def with_info(self, **entries: Any) -> Feature:
        """Return the feature with entries of its `info` block set."""
        return replace(self, info={**(self.info or {}), **entries})

    def to_json(self) -> dict[str, Any]:
        """Return what `info.json` holds for this feature."""
        known: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape), "names": self.names}
        if self.info is not None:
            known["info"] = dict(self.info)
        return {**known, **self.extra}


def _checked_shape(shape: Any, at: str) -> tuple[int, ...]:
    if isinstance(shape, (int, np.integer)) and not isinstance(shape, bool):
        shape = (int(shape),)
    if not isinstance(shape, (list, tuple)) or not 1 <= len(shape) <= 5:
        raise FormatError("The shape is not a list of one to five sizes.", where=at, found=repr(shape))
    sizes = []
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise FormatError("A size in the shape is not a whole number.", where=at, found=repr(shape))
        sizes.append(int(size))
    if math.prod(sizes) > _MAX_ELEMENTS:
        raise FormatError("The shape is too large.", where=at, expected=f"at most {_MAX_ELEMENTS}", found=repr(shape))
    return tuple(sizes)


def _checked_dtype(dtype: Any, at: str) -> str:
    if isinstance(dtype, str) and dtype in (*_CAMERA_DTYPES, *_TEXT_DTYPES):
        return dtype
    try:
        parsed: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        parsed = np.dtype(object)
    if parsed.kind not in _NUMERIC_KINDS or parsed.itemsize > 8:
        raise FormatError(
            "The dtype is unknown.",
            where=at,
            expected="float16/32/64, int8..64, uint8..64, bool, string, image, video or language",
            found=repr(dtype),
        )
    return parsed.name


def is_storable(text: str) -> bool:
    """Return whether UTF-8 can hold a text: half characters (lone surrogates) it cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_feature(name: str, entry: Any, *, where: str | None = None) -> Feature:
    """Return the feature that one entry of `features` describes.

    Args:
        name: The feature's name. It may not contain a slash, for it becomes a folder and a column name.
        entry: The mapping with dtype, shape, names and optionally info.
        where: The file the entry comes from, for messages.

    Raises:
        FormatError: If the entry does not describe a feature.
    """
    at = f"{where}, feature {name!r}" if where else f"feature {name!r}"
    if isinstance(entry, Feature):
        entry = entry.to_json()
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or name in (".", "..") or "\0" in name:
        raise FormatError("The feature's name cannot be used.", where=at, expected="a text without slashes")
    if not is_storable(name):
        raise FormatError("The feature's name cannot be used.", where=at, expected="a text that UTF-8 can hold")
    if not isinstance(entry, Mapping):
        raise FormatError("The feature is not described by a mapping.", where=at, found=type(entry).__name__)
    missing = [key for key in ("dtype", "shape") if key not in entry]
    if missing:
        raise FormatError("The feature's description is incomplete.", where=at, expected=" and ".join(missing))
    dtype, shape = _checked_dtype(entry["dtype"], at), _checked_shape(entry["shape"], at)
    if dtype in _CAMERA_DTYPES and len(shape) != 3:
        raise FormatError(
            "A camera's shape has three sizes.", where=at, expected="[height, width, channels]", found=shape
        )
    info = entry.get("info")
    if info is not None and not isinstance(info, Mapping):
        raise FormatError("The feature's info is not a mapping.", where=at, found=type(info).__name__)
    names = entry.get("names")
    names = list(names) if isinstance(names, tuple) else names
    extra = {key: value for key, value in entry.items() if key not in ("dtype", "shape", "names", "info")}
    return Feature(name, dtype, shape, names, None if info is None else dict(info), extra)


DEFAULT_FEATURES: dict[str, Feature] = {
    "timestamp": Feature("timestamp", "float32", (1,)),
    "frame_index": Feature("frame_index", "int64", (1,)),
    "episode_index": Feature("episode_index", "int64", (1,)),
    "index": Feature("index", "int64", (1,)),
    "task_index": Feature("task_index", "int64", (1,)),
}
"""The five columns that every dataset has."""


def parse_features(entries: Any, *, where: str | None = None) -> dict[str, Feature]:
    """Return all features of a dataset in their order.

    Raises:
        FormatError: If one of them is malformed; the message names it.
    """
    if not isinstance(entries, Mapping):
        raise FormatError("features is not a mapping.", where=where, found=type(entries).__name__)
    return {name: parse_feature(name, entry, where=where) for name, entry in entries.items()}


def with_defaults(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features a new dataset has: the user's, then the five defaults, which win."""
    return {**{name: one for name, one in features.items() if name not in DEFAULT_FEATURES}, **DEFAULT_FEATURES}
