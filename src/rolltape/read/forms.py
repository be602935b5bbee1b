"""Forms of pictures: dtype, layout, size and unit, and how a decoded picture gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rolltape.format.features import Feature
from rolltape.format.rate import TOLERANCE_S

__all__ = ["PictureFormat", "in_unit", "place", "to_float"]

_MM_PER_METRE = np.float32(1000.0)


@dataclass(frozen=True)
class PictureFormat:
    """What pictures look like when they are handed out.

    Attributes:
        dtype: uint8 as decoded, or float32: value / 255, computed in float32. Depth is always float32.
        dtypes: The dtype of single cameras, where it differs.
        layout: CHW or HWC.
        resize: (height, width), or None for the size in the video. Colour is averaged over areas when it shrinks and
            interpolated linearly when it grows; depth takes the nearest pixel, for distances do not mix.
        depth_unit: m or mm; `stored` leaves pictures of data tables in their own unit.
        tolerance_s: How far a picture's time may be from the wanted time, in videos that are not on the frame grid.
    """

    dtype: Literal["uint8", "float32"] = "uint8"
    dtypes: Mapping[str, Literal["uint8", "float32"]] = field(default_factory=dict)
    layout: Literal["CHW", "HWC"] = "CHW"
    resize: tuple[int, int] | None = None
    depth_unit: Literal["m", "mm", "stored"] = "m"
    tolerance_s: float = TOLERANCE_S

    def of(self, camera: Feature) -> np.dtype[Any]:
        """Return the dtype of a camera's pictures."""
        return np.dtype(np.float32 if camera.is_depth else self.dtypes.get(camera.name, self.dtype))

    def shape(self, height: int, width: int, channels: int) -> tuple[int, int, int]:
        """Return the shape of one picture of this size."""
        height, width = self.resize or (height, width)
        return (channels, height, width) if self.layout == "CHW" else (height, width, channels)


def to_float(picture: npt.NDArray[np.uint8], out: npt.NDArray[np.float32]) -> None:
    """Fill `out` with picture / 255 in float32, the values of the reference's division."""
    np.divide(picture, np.float32(255.0), out=out, dtype=np.float32)


def place(picture: npt.NDArray[Any], out: npt.NDArray[Any], form: PictureFormat) -> None:
    """Fill `out` with a picture [H, W, C], resized, laid out and converted as wanted."""
    if form.resize is not None and picture.shape[:2] != form.resize:
        picture = _resize(picture, form.resize)
    if form.layout == "CHW":
        picture = picture.transpose(2, 0, 1)
    if out.dtype == picture.dtype:
        np.copyto(out, picture)
    else:
        to_float(picture, out)


def _resize(picture: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[Any]:
    from PIL import Image

    height, width = size
    if picture.dtype != np.uint8:
        rows = np.minimum((np.arange(height) + 0.5) * picture.shape[0] / height, picture.shape[0] - 1).astype(np.intp)
        columns = np.minimum((np.arange(width) + 0.5) * picture.shape[1] / width, picture.shape[1] - 1).astype(np.intp)
        nearest: npt.NDArray[Any] = picture[rows[:, None], columns]
        return nearest
    shrinks = height <= picture.shape[0] and width <= picture.shape[1]
    method = Image.Resampling.BOX if shrinks else Image.Resampling.BILINEAR
    flat = picture[..., 0] if picture.shape[2] == 1 else picture
    resized = np.asarray(Image.fromarray(flat).resize((width, height), method))
    return resized[..., None] if resized.ndim == 2 else resized


def in_unit(values: npt.NDArray[np.float32], stored: str | None, wanted: str) -> npt.NDArray[np.float32]:
    """Return distances in the wanted unit; those whose unit nobody knows stay as they are."""
    if stored is None or wanted in (stored, "stored"):
        return values
    return values * _MM_PER_METRE if stored == "m" else values / _MM_PER_METRE
