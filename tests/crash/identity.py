"""Pictures that say which take, frame and camera they are, in sixteen dark and bright blocks that survive encoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from sample import FRONT, WRIST

__all__ = ["CAMERAS", "SIZE", "identities", "picture"]

CAMERAS = (FRONT, WRIST)
SIZE = 32
_BLOCKS = 4
_TAKE_BITS = 6
_FRAME_BITS = 9


def picture(take: int, frame: int, camera: str, size: int = SIZE) -> np.ndarray[Any, Any]:
    """Return a colour picture uint8 [size, size, 3] that codes a take (below 64), a frame (below 512) and a camera."""
    code = (CAMERAS.index(camera) << (_TAKE_BITS + _FRAME_BITS)) | (take << _FRAME_BITS) | frame
    bits = (code >> np.arange(_BLOCKS * _BLOCKS)) & 1
    side = size // _BLOCKS
    plane = np.kron(bits.reshape(_BLOCKS, _BLOCKS), np.ones((side, side))) * 200 + 28
    return np.repeat(plane.astype(np.uint8)[..., None], 3, axis=2)


def identities(pictures: np.ndarray[Any, Any]) -> list[tuple[int, int, str]]:
    """Return (take, frame, camera) of pictures uint8 [n, 3, H, W].

    Raises:
        AssertionError: If a block is neither dark nor bright.
    """
    count, _, height, width = pictures.shape
    side, wide = height // _BLOCKS, width // _BLOCKS
    blocks = pictures.mean(axis=1).reshape(count, _BLOCKS, side, _BLOCKS, wide)
    means = blocks[:, :, 1:-1, :, 1:-1].mean(axis=(2, 4)).reshape(count, -1)
    assert ((means < 90) | (means > 166)).all(), f"unreadable blocks: {means[(means >= 90) & (means <= 166)]}"
    codes = ((means > 128) << np.arange(_BLOCKS * _BLOCKS)).sum(axis=1).tolist()
    return [
        (
            (code >> _FRAME_BITS) & ((1 << _TAKE_BITS) - 1),
            code & ((1 << _FRAME_BITS) - 1),
            CAMERAS[code >> (_TAKE_BITS + _FRAME_BITS)],
        )
        for code in codes
    ]
