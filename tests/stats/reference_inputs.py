"""Inputs on which the reference's own answers are kept, made by arithmetic alone so that they never change.

Imports nothing but numpy: `make_reference.py` uses it inside the reference's environment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def unit(count: int, seed: int) -> npt.NDArray[np.float64]:
    """Numbers spread over [0, 1) without order."""
    mixed = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(seed * 40503)) % np.uint64(
        1 << 32
    )
    mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(1 << 32)
    mixed = (mixed ^ (mixed >> np.uint64(13))) * np.uint64(3266489917) % np.uint64(1 << 32)
    return (mixed ^ (mixed >> np.uint64(16))).astype(np.float64) / (1 << 32)


def columns() -> dict[str, tuple[list[int], Array]]:
    """Number columns: name to (feature shape, values of one episode)."""
    return {
        "float32": ([6], (unit(200 * 6, 1).reshape(200, 6) * 4 - 1).astype(np.float32)),
        "float64": ([3], unit(333 * 3, 2).reshape(333, 3) ** 5 * 1e4),
        "scalar": ([1], unit(57, 3).astype(np.float32)),
        "int64": ([2], np.floor(unit(400, 4).reshape(200, 2) * 1000).astype(np.int64) - 300),
        "bool": ([1], unit(90, 5) < 0.3),
        "tensor": ([2, 3], unit(600, 6).reshape(100, 2, 3).astype(np.float32)),
        "cube": ([2, 2, 2], unit(400, 7).reshape(50, 2, 2, 2)),
        "bytes": ([4], np.floor(unit(800, 8).reshape(200, 4) * 256).astype(np.uint8)),
        "one_row": ([3], np.array([[1.5, -2.0, 0.25]], np.float32)),
        "one_scalar": ([1], np.array([7], np.int64)),
        "two_rows": ([2], np.array([[0.0, 5.0], [1.0, 5.0]], np.float64)),
        "constant": ([2], np.full((40, 2), 0.1, np.float64)),
        "large_offset": ([2], 1e6 + unit(300, 9).reshape(150, 2)),
        "outlier": ([1], np.where(np.arange(150) == 77, 1e9, unit(150, 10))),
    }


def pictures() -> dict[str, tuple[bool, Array]]:
    """Cameras: name to (depth?, frames [n, H, W, C] or [n, H, W])."""

    def colour(frames: int, height: int, width: int, seed: int) -> Array:
        noise = unit(height * width * 3, seed).reshape(height, width, 3)
        drift = unit(frames, seed + 1)[:, None, None, None]
        return np.floor((noise[None] * 0.6 + drift * 0.4) * 256).astype(np.uint8)

    def depth(frames: int, height: int, width: int, seed: int) -> Array:
        noise = unit(height * width, seed).reshape(height, width)
        return 400.0 + 3000.0 * noise[None] + 100.0 * np.arange(frames)[:, None, None]

    return {
        "small": (False, colour(7, 24, 32, 20)),
        "thinned": (False, colour(5, 240, 320, 22)),
        "tall": (False, colour(3, 451, 202, 24)),
        "sampled": (False, colour(140, 12, 16, 26)),
        "flat": (False, np.full((4, 10, 10, 3), 77, np.uint8)),
        "millimetres": (True, depth(6, 40, 50, 28).astype(np.uint16)),
        "metres": (True, (depth(6, 40, 50, 30) / 1000).astype(np.float32)),
    }
