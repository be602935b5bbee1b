"""Still pictures as bytes: PNG for colour, TIFF for depth."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import DecodeError, EncodeError

__all__ = ["decode_image", "encode_png", "encode_tiff"]

_SIXTEEN_BIT = ("I;16", "I;16B", "I;16L", "I;16N")


def encode_png(picture: npt.NDArray[np.uint8], level: int = 6) -> bytes:
    """Return a picture as PNG.

    Args:
        picture: uint8 [H, W, 3] RGB.
        level: zlib level; 6 is what image datasets are stored with, 1 is four times as fast and a little larger.

    Raises:
        EncodeError: Another shape or dtype.
    """
    from PIL import Image

    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise EncodeError(
            "The picture does not fit a PNG.",
            expected="uint8 [H, W, 3]",
            found=f"{picture.dtype} {list(picture.shape)}",
        )
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(buffer, "PNG", compress_level=level)
    return buffer.getvalue()


def encode_tiff(depth: npt.NDArray[Any]) -> bytes:
    """Return a depth picture as an uncompressed TIFF, without loss.

    Args:
        depth: uint16 (millimetres) or float32 (metres), [H, W], [H, W, 1] or [1, H, W].

    Raises:
        EncodeError: Another shape or dtype.
    """
    from PIL import Image

    plane = depth[0] if depth.ndim == 3 and depth.shape[0] == 1 else depth
    plane = plane[..., 0] if plane.ndim == 3 and plane.shape[-1] == 1 else plane
    if plane.ndim != 2 or plane.dtype not in (np.dtype(np.uint16), np.dtype(np.float32)):
        raise EncodeError(
            "The depth picture does not fit a TIFF.",
            expected="uint16 or float32 [H, W]",
            found=f"{depth.dtype} {list(depth.shape)}",
        )
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(plane)).save(buffer, "TIFF", compression="raw")
    return buffer.getvalue()


def decode_image(data: bytes | memoryview, *, where: str | None = None) -> npt.NDArray[Any]:
    """Return a stored picture: uint8 [H, W, 3] RGB, or for depth uint16 or float32 [H, W].

    Raises:
        DecodeError: The bytes are no picture.

    Example:
        >>> decode_image(encode_png(np.zeros((2, 3, 3), np.uint8))).shape
        (2, 3, 3)
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.mode in _SIXTEEN_BIT:
                return np.asarray(image, np.uint16)
            if image.mode in ("F", "I"):
                return np.asarray(image)
            return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DecodeError(
            "A stored picture cannot be decoded.",
            where=where,
            found=f"{len(data)} bytes: {error}",
            fix="Run rolltape check.",
        ) from error
