"""What `add_frame` accepts: every problem of a frame at once, and values in the form that is stored.

Accepted, beyond arrays of exactly the declared dtype and shape:

- torch tensors, lists and tuples; for a feature of shape (1,) also plain numbers and arrays without axes;
- casts that lose nothing by dtype alone (int32 to int64, uint8 to float32, float32 to float64), whatever the values,
  so that a frame is never refused in the middle of a take for a value that just did not fit; Python numbers and numpy
  scalars count as having no precision of their own and are rounded to the feature's, as numpy does with them;
- pictures as HWC or CHW, uint8 or floats in [0, 1], PIL images; a shape that fits both ways is taken as declared;
- depth as HW, HW1 or 1HW: integers are millimetres, floats are metres;
- items read back from a dataset: generated columns (`timestamp`, `frame_index`, ..., `*_is_pad`) are ignored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from rolltape.errors import FrameError
from rolltape.format import DEFAULT_FEATURES, Feature
from rolltape.format.features import is_storable

__all__ = ["FrameForm", "NonFinite"]

NonFinite = Literal["refuse", "keep"]
_Array = np.ndarray[Any, Any]
_Convert = Callable[[Feature, Any], Any]
_GENERATED = frozenset(DEFAULT_FEATURES)


class _Problem(Exception):
    """One line about one value."""


class FrameForm:
    """The form a frame must have, made once from the features and used for every frame.

    Args:
        features: All features of the dataset; the five generated ones are not expected in a frame.
        non_finite: What to do with NaN and infinity in float columns: refuse the frame, or keep them.

    Attributes:
        columns: The numeric features, in the order of the values that `read` gives first.
        texts: The string features, which follow.
        cameras: The cameras, which come last.
        depth_units: The unit of each depth camera for which it is known.

    Example:
        >>> from rolltape.format import parse_features
        >>> form = FrameForm(parse_features({"action": {"dtype": "float32", "shape": [2]}}))
        >>> form.read({"action": [0, 1]}, "lift", 0)
        ([array([0., 1.], dtype=float32)], 'lift')
    """

    def __init__(self, features: Mapping[str, Feature], non_finite: NonFinite = "refuse") -> None:
        wanted = [feature for name, feature in features.items() if name not in DEFAULT_FEATURES]
        self.features = dict(features)
        self.non_finite = non_finite
        self.columns = [feature for feature in wanted if feature.is_numeric]
        self.texts = [feature for feature in wanted if feature.is_string]
        self.cameras = [feature for feature in wanted if feature.is_camera]
        self.depth_units = _known_units(features)
        self._language = [feature.name for feature in wanted if feature.is_language]
        self._plan = [
            (feature.name, feature.numpy_dtype, feature.shape, feature.numpy_dtype.kind == "f", feature)
            for feature in self.columns
        ]
        self._rest = self.texts + self.cameras
        self._expected = len(self._plan) + len(self._rest)

    def read(self, frame: Mapping[str, Any], task: str | None, number: int) -> tuple[list[Any], str]:
        """Return the frame's values in stored form (numbers, texts, cameras) and its task.

        The frame itself is never changed.

        Args:
            frame: Feature name to value; may hold the task under `task`.
            task: The task, which wins over the one in the frame.
            number: The frame's number in the episode, for messages.

        Raises:
            FrameError: With one line for each problem, if there is any.
        """
        values: list[Any] = []
        problems: list[str] = []
        if not isinstance(frame, Mapping):
            raise FrameError("The frame is not a mapping.", [f"expected feature names to values, got {_kind(frame)}"])
        if task is None:
            task = frame.get("task")
        if not isinstance(task, str) or not is_storable(task):
            problems.append(
                "task: missing; give it as add_frame(frame, task=...)" if task is None else _task_problem(task)
            )
        for name, dtype, shape, is_float, feature in self._plan:
            value = frame.get(name)
            if not (type(value) is np.ndarray and value.dtype == dtype and value.shape == shape):
                value = self._converted(feature, frame, _number, problems)
                if value is None:
                    continue
            # Bytes, for that is the fastest way to ask whether one of a few flags is not set.
            if is_float and 0 in np.isfinite(value).tobytes():
                self._meet_non_finite(name, value, problems)
            values.append(value)
        for feature in self._rest:
            value = self._converted(feature, frame, self._reader(feature), problems)
            if value is not None:
                values.append(value)
        if problems or self._language or len(frame) != self._expected + ("task" in frame):
            problems += self._extra(frame)
        if problems:
            raise FrameError(
                "The frame does not fit the dataset's features.",
                problems,
                where=f"frame {number} of the open episode",
                fix="Correct the frame and add it again; the frames before it are kept.",
            )
        return values, task  # type: ignore[return-value]  # a missing task is among the problems

    def forget_depth_units(self, features: Mapping[str, Feature]) -> None:
        """Forget the depth units that only a discarded take told of: those that `features` do not have."""
        self.depth_units = _known_units(features)

    def _converted(self, feature: Feature, frame: Mapping[str, Any], convert: _Convert, problems: list[str]) -> Any:
        if feature.name not in frame:
            problems.append(f"{feature.name}: missing; expected {_wanted(feature)}")
            return None
        try:
            return convert(feature, _plain(frame[feature.name]))
        except _Problem as problem:
            problems.append(f"{feature.name}: {problem}")
            return None

    def _reader(self, feature: Feature) -> _Convert:
        if feature.is_string:
            return _text
        return self._depth if feature.is_depth else _picture

    def _depth(self, feature: Feature, value: Any) -> _Array:
        array = _pixels(feature, value)
        unit = "m" if array.dtype.kind == "f" else "mm"
        known = self.depth_units.get(feature.name)
        if known is not None and known != unit:
            raise _Problem(
                f"the dataset holds depth in {known} ({'floats' if known == 'm' else 'integers'}), got {array.dtype}"
            )
        height, width, _ = feature.hwc
        if array.shape not in ((height, width), (height, width, 1), (1, height, width)):
            raise _Problem(_shape_text(f"({height}, {width}), ({height}, {width}, 1) or (1, {height}, {width})", array))
        array = array.reshape(height, width)
        if unit == "m":
            return array.astype(np.float32, copy=False)
        if array.dtype != np.uint16:
            if array.dtype.kind not in "iu":
                raise _Problem(f"wanted depth as integers (mm) or floats (m), got {array.dtype}")
            if array.size and (array.min() < 0 or array.max() > 65535):
                raise _Problem(f"wanted millimetres in 0..65535, got {array.min()}..{array.max()}")
            array = array.astype(np.uint16)
        return array

    def _meet_non_finite(self, name: str, value: _Array, problems: list[str]) -> None:
        if self.non_finite == "keep":
            return
        places = [tuple(int(axis) for axis in place) for place in np.argwhere(~np.isfinite(value))[:4]]
        found = ", ".join(f"{value[place]} at {list(place)}" for place in places)
        problems.append(
            f'{name}: wanted finite numbers, got {found}; non_finite="keep" keeps them (statistics will suffer)'
        )

    def _extra(self, frame: Mapping[str, Any]) -> list[str]:
        dropped = [name for name in self._language if frame.get(name) is not None and len(frame[name]) > 0]
        if dropped:
            warnings.warn(
                f"{', '.join(dropped)}: language columns are filled in after the recording; what was given is dropped.",
                stacklevel=5,
            )
        extra = [name for name in frame if name not in self.features and name != "task" and not self._is_mask(name)]
        return [f"{name}: not a feature of this dataset" for name in extra]

    def _is_mask(self, name: Any) -> bool:
        return isinstance(name, str) and name.endswith("_is_pad") and name.removesuffix("_is_pad") in self.features


def _known_units(features: Mapping[str, Feature]) -> dict[str, str]:
    return {name: one.depth_unit for name, one in features.items() if one.is_depth and one.depth_unit is not None}


def first_depth_units(form: FrameForm, values: Sequence[Any]) -> dict[str, str]:
    """Return the unit of each depth camera that a frame's values show, for those not known yet."""
    return {
        feature.name: "m" if value.dtype.kind == "f" else "mm"
        for feature, value in zip(form.cameras, values[len(values) - len(form.cameras) :], strict=True)
        if feature.is_depth and feature.name not in form.depth_units
    }


def _plain(value: Any) -> Any:
    """Return a tensor as an array, anything else as it is. Torch itself is never imported."""
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        # A column has no place for the mask.
        if np.any(value.mask):
            raise _Problem("wanted an array without masked values; fill them yourself (array.filled)")
        return np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "detach"):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:  # RuntimeError: sparse, on the meta device, ...
        raise _Problem(f"the tensor cannot become an array: {error}") from None


def _number(feature: Feature, value: Any) -> _Array:
    dtype, shape = feature.numpy_dtype, feature.shape
    weak = not isinstance(value, np.ndarray)
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise _Problem(f"wanted {_wanted(feature)}, got {_kind(value)}")
    if array.shape != shape:
        if not (array.shape == () and shape == (1,)):
            raise _Problem(_shape_text(str(shape), array) + _dtype_text(dtype, array, weak))
        array = array.reshape(1)
    if array.dtype == dtype:
        return array
    if weak and _fits(array, dtype):
        return array.astype(dtype)
    if not np.can_cast(array.dtype, dtype, "safe"):
        raise _Problem(f"wanted dtype {dtype}, got {array.dtype}; cast it yourself if the loss is meant")
    return array.astype(dtype)


def _fits(array: _Array, dtype: np.dtype[Any]) -> bool:
    """Return whether plain numbers can stand in a column: of the same kind, or whole numbers in a float column."""
    kinds = array.dtype.kind, dtype.kind
    if kinds[1] == "f":
        return kinds[0] in "iuf"
    if kinds[1] in "iu" and kinds[0] in "iu":
        limits = np.iinfo(dtype)
        return bool(array.min() >= limits.min and array.max() <= limits.max) if array.size else True
    return False


def _text(feature: Feature, value: Any) -> str:
    if not isinstance(value, str):
        raise _Problem(f"wanted a text (str), got {_kind(value)}")
    if not is_storable(value):
        raise _Problem(_surrogates(value))
    return value


def _picture(feature: Feature, value: Any) -> _Array:
    """Return a colour or grey picture as uint8 HWC, a view where it can be one."""
    array = _pixels(feature, value)
    height, width, channels = feature.hwc
    forms = {"HWC": (height, width, channels), "CHW": (channels, height, width)}
    order = ["HWC", "CHW"] if feature.layout == "HWC" else ["CHW", "HWC"]
    if channels == 1 and array.shape == (height, width):
        array = array[:, :, None]
    elif array.shape == forms[order[0]]:
        array = array if order[0] == "HWC" else array.transpose(1, 2, 0)
    elif array.shape == forms[order[1]]:
        array = array if order[1] == "HWC" else array.transpose(1, 2, 0)
    else:
        raise _Problem(_shape_text(f"{forms[order[0]]} or {forms[order[1]]}", array))
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise _Problem(f"wanted uint8, or floats in [0, 1], got {array.dtype}")
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if not (low >= 0.0 and high <= 1.0):
        raise _Problem(f"wanted floats in [0, 1], got {low:.6g} to {high:.6g}")
    scaled = np.multiply(array, 255.0, dtype=array.dtype if array.dtype != np.float16 else np.float32)
    return np.rint(scaled, out=scaled).astype(np.uint8)


def _pixels(feature: Feature, value: Any) -> _Array:
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "getbands") and hasattr(value, "convert"):  # a PIL image, without loading PIL to find out
        if feature.is_depth:
            if value.mode not in ("I;16", "I", "F", "L"):
                raise _Problem(f"wanted a depth picture of mode I;16, I or F, got {value.mode}")
            return np.asarray(value)
        wanted = {1: ("L", ("L", "1")), 3: ("RGB", ("RGB", "L", "P", "1")), 4: ("RGBA", ("RGBA", "RGB"))}
        mode, modes = wanted.get(feature.hwc[2], ("RGB", ("RGB",)))
        if value.mode not in modes:
            raise _Problem(f"wanted a PIL image of mode {mode}, got {value.mode}")
        array = np.asarray(value if value.mode == mode else value.convert(mode))
        if array.shape[:2] != feature.hwc[:2]:
            raise _Problem(f"wanted a PIL image of {feature.hwc[1]}x{feature.hwc[0]}, got {value.width}x{value.height}")
        return array[:, :, None] if array.ndim == 2 else array
    if isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError):
            array = np.asarray(None)
        if array.dtype.kind in "iu" and not feature.is_depth and array.size and 0 <= array.min() <= array.max() <= 255:
            array = array.astype(np.uint8)
        if array.dtype.kind in "iuf":
            return array
    raise _Problem(f"wanted an array or a PIL image, got {_kind(value)}")


def _wanted(feature: Feature) -> str:
    if feature.is_string:
        return "a text (str)"
    if feature.is_depth:
        return f"a depth picture, {feature.hwc[0]}x{feature.hwc[1]} (height x width)"
    if feature.is_camera:
        return f"a picture of shape {feature.shape}, uint8"
    return f"{feature.dtype} of shape {feature.shape}"


def _shape_text(wanted: str, array: _Array) -> str:
    return f"wanted shape {wanted}, got {array.shape}"


def _dtype_text(dtype: np.dtype[Any], array: _Array, weak: bool) -> str:
    return "" if weak or np.can_cast(array.dtype, dtype, "safe") else f"; wanted dtype {dtype}, got {array.dtype}"


def _task_problem(task: Any) -> str:
    return f"task: {_surrogates(task) if isinstance(task, str) else f'wanted a text (str), got {_kind(task)}'}"


def _surrogates(text: str) -> str:
    return f"wanted a text that UTF-8 can hold, got {text!a}; half characters come from bytes decoded wrongly"


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} of shape {tuple(shape)}"
