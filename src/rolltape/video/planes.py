"""A decoder's or encoder's plane as an array, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["plane_array"]


def plane_array(plane: Any, dtype: npt.DTypeLike, width: int, height: int, channels: int = 1) -> npt.NDArray[Any]:
    """Return a view [H, W] or [H, W, channels] of a `VideoPlane`; the padding at the end of each row is left out."""
    item = np.dtype(dtype).itemsize
    if channels == 1:
        return np.ndarray((height, width), dtype, plane, strides=(plane.line_size, item))
    return np.ndarray((height, width, channels), dtype, plane, strides=(plane.line_size, item * channels, item))
