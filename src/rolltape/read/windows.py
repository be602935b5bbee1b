"""Time windows: offsets in whole frames, clamped inside the episode, with a mask that says where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import UsageError, WindowError
from rolltape.format.rate import TOLERANCE_S, Rate

__all__ = ["Window", "parse_windows"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FURTHEST = 1 << 53


@dataclass(frozen=True)
class Window:
    """The frames of one key around the frame that is asked for.

    Attributes:
        steps: Offsets in frames, int64 [T]; 0 is the frame itself.
    """

    steps: Int64s

    def __len__(self) -> int:
        return len(self.steps)

    def frames(self, frame: Int64s, length: Int64s) -> tuple[Int64s, Bools]:
        """Return the frame numbers inside the episodes, and where they were clamped.

        Args:
            frame: Frame number in its episode, int64 [B].
            length: Length of that episode, int64 [B].

        Returns:
            int64 [B, T] within 0..length-1, and bool [B, T], true where the wanted frame lies outside the episode.
        """
        wanted = frame[:, None] + self.steps
        inside = np.minimum(np.maximum(wanted, 0), length[:, None] - 1)
        return inside, inside != wanted

    def around(self, frame: int, length: int) -> tuple[Int64s, Bools]:
        """Return the same for one frame of one episode: int64 [T] and bool [T]."""
        wanted = self.steps + frame
        inside = np.minimum(np.maximum(wanted, 0), length - 1)
        return inside, inside != wanted


def parse_windows(
    rate: Rate,
    delta_timestamps: Mapping[str, Iterable[float]] | None,
    delta_steps: Mapping[str, Iterable[int]] | None,
    tolerance_s: float = TOLERANCE_S,
) -> dict[str, Window]:
    """Return the windows by key.

    Args:
        rate: The dataset's frame rate.
        delta_timestamps: Offsets in seconds by key; each within `tolerance_s` of a multiple of 1 / fps.
        delta_steps: Offsets in frames by key.
        tolerance_s: Seconds.

    Raises:
        WindowError: An offset does not fall on a frame, or a list is empty.
        UsageError: A key is in both mappings.
    """
    windows: dict[str, Window] = {}
    for key, deltas in _offsets("delta_timestamps", delta_timestamps):
        windows[key] = _window(key, rate.steps(deltas, tolerance_s, key))
    for key, steps in _offsets("delta_steps", delta_steps):
        if key in windows:
            raise UsageError(f"{key} has a window in delta_timestamps and in delta_steps.", fix="Keep one of them.")
        windows[key] = _window(key, steps)
    return windows


def _offsets(name: str, windows: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield each key with its list of offsets."""
    if not isinstance(windows or {}, Mapping):
        raise WindowError(f"{name} is not a mapping.", expected="key to offsets", found=type(windows).__name__)
    for key, offsets in (windows or {}).items():
        if isinstance(offsets, (str, bytes)) or not isinstance(offsets, Iterable):
            raise WindowError("A window is not a list of offsets.", where=f"{name}, {key}", found=repr(offsets))
        yield key, list(offsets)


def _window(key: str, steps: list[Any]) -> Window:
    if not steps:
        raise WindowError("A window is empty.", where=key, expected="one offset or more")
    for step in steps:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise WindowError("An offset is not a whole number of frames.", where=key, found=repr(step))
        if abs(int(step)) > _FURTHEST:
            raise WindowError("An offset is out of range.", where=key, expected="at most 2^53 frames", found=repr(step))
    return Window(np.array(steps, np.int64))
