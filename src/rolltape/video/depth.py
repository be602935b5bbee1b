"""Distances as 12-bit codes for a video, and back: the reference's arithmetic, operation by operation.

A code is `rint(4095 * (g(d) - g(min)) / (g(max) - g(min)))`, clipped to 0..4095, with `g(d) = log(d + shift)` or,
without `use_log`, `g(d) = d`. Logarithmic steps are fine near the camera, where depth sensors are exact.

The reference works in float32 and rounds at each step, so the order of operations is part of the format: encoding
is done in the unit of the input (metres or millimetres), decoding in metres. The largest error of a code is
`quantisation_step` / 2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rolltape.errors import FormatError

if TYPE_CHECKING:
    from rolltape.format.encoders import DepthEncoderConfig

__all__ = ["MAX_CODE", "Unit", "count_outside", "dequantize", "quantisation_step", "quantize", "unit_of"]

Unit = Literal["m", "mm"]

MAX_CODE = 4095
_MM = 1000.0


def unit_of(dtype: npt.DTypeLike) -> Unit:
    """Return the unit that raw depth of a dtype is in: floats are metres, integers millimetres."""
    return "m" if np.issubdtype(np.dtype(dtype), np.floating) else "mm"


def quantize(frame: npt.NDArray[Any], unit: Unit | None, config: DepthEncoderConfig) -> npt.NDArray[np.uint16]:
    """Return the codes of a depth picture, uint16 [H, W], 0 to 4095.

    Args:
        frame: Distances [H, W], [H, W, 1] or [1, H, W], any number type.
        unit: `"m"`, `"mm"`, or None: by dtype, see `unit_of`.
        config: Range, shift and scale.

    Distances outside the range get the nearest code (see `count_outside`); NaN and, on a logarithmic scale, what
    lies below `-shift` get code 0.

    Example:
        >>> from rolltape.format import DepthEncoderConfig
        >>> quantize(np.array([[0.01, 1.0, 10.0, 99.0]], np.float32), "m", DepthEncoderConfig())
        array([[   0,  755, 4095, 4095]], dtype=uint16)
    """
    depth = _squeeze(frame).astype(np.float32)
    low, high, shift = _scale(_unit(unit, frame), config)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if config.use_log:
            bottom, top = math.log(float(low + shift)), math.log(float(high + shift))
            share = (np.log(depth + shift) - bottom) / (top - bottom)
        else:
            share = (depth - low) / (high - low)
        codes = np.rint(share * MAX_CODE).clip(0, MAX_CODE)
    np.nan_to_num(codes, copy=False, nan=0.0)
    result: npt.NDArray[np.uint16] = codes.astype(np.uint16)
    return result


def count_outside(frame: npt.NDArray[Any], unit: Unit | None, config: DepthEncoderConfig) -> int:
    """Return how many measured distances a code cannot hold, because they lie outside the range or are not numbers.

    Zero means "no measurement" to depth cameras and is not counted.
    """
    low, high, _ = _scale(_unit(unit, frame), config)
    depth = _squeeze(frame)
    return int(np.count_nonzero(~((depth >= low) & (depth <= high)) & (depth != 0)))


def dequantize(
    codes: npt.NDArray[Any],
    config: DepthEncoderConfig,
    unit: Unit = "mm",
    *,
    out: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """Return the distances of codes as float32, of the same shape.

    Args:
        codes: Codes of any shape, 0 to 4095.
        config: Range, shift and scale with which they were made.
        unit: `"m"`, or `"mm"`: rounded to whole millimetres, 0 to 65535.
        out: Where to put them, float32 of the shape of `codes`; None: a new array.

    Example:
        >>> from rolltape.format import DepthEncoderConfig
        >>> dequantize(np.array([0, 755, 4095], np.uint16), DepthEncoderConfig())
        array([   10.,  1000., 10000.], dtype=float32)
    """
    if unit not in ("m", "mm"):
        raise FormatError("The unit of depth is unknown.", expected="'m' or 'mm'", found=repr(unit))
    table = _distances(config.depth_min, config.depth_max, config.shift, config.use_log, unit)
    return np.take(table, codes, out=out, mode="clip")


@lru_cache(maxsize=64)
def _distances(low: float, high: float, shift: float, use_log: bool, unit: Unit) -> npt.NDArray[np.float32]:
    """The distance of every code, float32 [4096].

    Products and sums are rounded to float32 one by one, as the reference does; the exponential is rounded once. The
    reference's own exponential (torch's) differs from that in about one code of a hundred, by one unit in the last
    place of a metre and never in whole millimetres.
    """
    bottom = math.log(low + shift) if use_log else low
    top = math.log(high + shift) if use_log else high
    single = np.float32
    values = np.arange(MAX_CODE + 1).astype(single) * single((top - bottom) / MAX_CODE) + single(bottom)
    if use_log:
        values = np.exp(values.astype(np.float64)).astype(single) - single(shift)
    values = values.clip(single(low), single(high))
    if unit == "mm":
        values = np.rint(values * single(_MM)).clip(single(0), single(65535))
    values.flags.writeable = False
    return values


def quantisation_step(distance: float, config: DepthEncoderConfig) -> float:
    """Return the distance between neighbouring codes, in metres, at a distance in metres.

    Example:
        >>> from rolltape.format import DepthEncoderConfig
        >>> round(quantisation_step(1.0, DepthEncoderConfig()), 6)
        0.00148
    """
    if not config.use_log:
        return (config.depth_max - config.depth_min) / MAX_CODE
    span = math.log(config.depth_max + config.shift) - math.log(config.depth_min + config.shift)
    return (distance + config.shift) * span / MAX_CODE


def _unit(unit: Unit | None, frame: npt.NDArray[Any]) -> Unit:
    if unit is None:
        return unit_of(frame.dtype)
    if unit not in ("m", "mm"):
        raise FormatError("The unit of depth is unknown.", expected="'m' or 'mm'", found=repr(unit))
    return unit


def _scale(unit: Unit, config: DepthEncoderConfig) -> tuple[np.float32, np.float32, np.float32]:
    """Range and shift in the unit, float32."""
    factor = 1.0 if unit == "m" else _MM
    return (
        np.float32(config.depth_min * factor),
        np.float32(config.depth_max * factor),
        np.float32(config.shift * factor),
    )


def _squeeze(frame: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if frame.ndim == 3:
        if frame.shape[0] == 1:
            return np.asarray(frame[0])
        if frame.shape[-1] == 1:
            return np.asarray(frame[..., 0])
    return frame
