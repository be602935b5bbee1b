"""Small frames cut from the big ones, for many short episodes."""

from __future__ import annotations

from typing import Any

from benchmarks import workload

VECTORS = ("observation.state", "action")


def short_frames(frames: list[dict[str, Any]], count: int, size: int) -> list[dict[str, Any]]:
    """The first `count` frames with one `size` x `size` picture."""
    return [_cut(frame, size, workload.CAMERAS[:1]) for frame in frames[:count]]


def square_frames(frames: list[dict[str, Any]], count: int, size: int) -> list[dict[str, Any]]:
    """The first `count` frames with two `size` x `size` pictures."""
    return [_cut(frame, size, workload.CAMERAS) for frame in frames[:count]]


def _cut(frame: dict[str, Any], size: int, cameras: tuple[str, ...]) -> dict[str, Any]:
    pictures = {name: frame[name][100 : 100 + size, 200 : 200 + size].copy() for name in cameras}
    return {**{key: frame[key] for key in VECTORS}, **pictures}
