"""Frame rate as an exact fraction: frames are counted in integers, seconds appear only at the edges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from rolltape.errors import FormatError, WindowError

__all__ = ["TOLERANCE_S", "Rate"]

TOLERANCE_S = 1e-4
"""How far a time may be from a frame's, in seconds: the reference's default."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Frames per second, exactly.

    Attributes:
        fps: The number as `info.json` holds it: an int, or the shortest decimal of a fractional rate.
        fraction: The exact rate that the frame grid uses.

    Example:
        >>> rate = Rate.parse(29.97, fraction=[30000, 1001])
        >>> rate.fraction, rate.seconds(30000)
        (Fraction(30000, 1001), 1001.0)
        >>> Rate.parse(10).frame_at(0.29)
        3
    """

    fps: int | float
    fraction: Fraction

    @classmethod
    def parse(cls, fps: Any, fraction: Any = None, *, where: str | None = None) -> Rate:
        """Return the rate that a number (and, where known, a pair `[n, d]`) stands for.

        Raises:
            FormatError: If `fps` is not a finite number above zero, or the pair is not a fraction close to it.
        """
        if isinstance(fps, Fraction):
            number = int(fps) if fps.denominator == 1 else float(fps)
            return cls(number, fps) if fps > 0 else cls.parse(number, where=where)
        if isinstance(fps, bool) or not isinstance(fps, (int, float, np.integer, np.floating)):
            raise FormatError("fps is not a number.", where=where, expected="a finite number above 0", found=repr(fps))
        if not math.isfinite(fps) or fps <= 0:
            raise FormatError("fps is out of range.", where=where, expected="a finite number above 0", found=repr(fps))
        fps = int(fps) if isinstance(fps, np.integer) else float(fps) if isinstance(fps, np.floating) else fps
        exact = Fraction(int(fps)) if fps == int(fps) else Fraction(repr(fps))
        if fraction is None:
            return cls(fps, exact)
        pair = list(fraction) if isinstance(fraction, (list, tuple)) else []
        if len(pair) != 2 or not all(type(part) is int and part > 0 for part in pair):
            raise FormatError(
                "fps_fraction is not a fraction.",
                where=where,
                expected="[n, d], integers above 0",
                found=repr(fraction),
            )
        known = Fraction(*pair)
        if abs(float(known) - float(fps)) > 0.01 * float(fps):
            raise FormatError("fps and fps_fraction disagree.", where=where, expected=str(fps), found=str(known))
        return cls(fps, known)

    @property
    def is_whole(self) -> bool:
        """Whether the rate is an integer number of frames a second, as the reference demands."""
        return self.fraction.denominator == 1

    @overload
    def seconds(self, frames: int) -> float: ...
    @overload
    def seconds(self, frames: npt.NDArray[Any]) -> npt.NDArray[np.float64]: ...
    def seconds(self, frames: int | npt.NDArray[Any]) -> float | npt.NDArray[np.float64]:
        """Return the time of a frame number, or of an array of them, in seconds (float64, correctly rounded)."""
        if isinstance(frames, np.ndarray):
            return frames.astype(np.float64) * self.fraction.denominator / self.fraction.numerator
        return float(int(frames) / self.fraction)

    def timestamps(self, count: int) -> npt.NDArray[np.float32]:
        """Return the timestamps of the frames 0..count-1 of an episode: frame / fps, rounded once to float32."""
        return self.seconds(np.arange(count, dtype=np.int64)).astype(np.float32)

    def frame_at(self, seconds: float) -> int:
        """Return the number of the frame nearest to a time."""
        return round(Fraction(seconds) * self.fraction)

    def frames_at(self, seconds: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the numbers of the frames nearest to many times."""
        scaled = np.asarray(seconds, np.float64) * self.fraction.numerator / self.fraction.denominator
        return np.rint(scaled).astype(np.int64)

    def steps(self, deltas: Iterable[float], tolerance_s: float = TOLERANCE_S, key: str = "") -> list[int]:
        """Return time offsets as whole frames.

        Raises:
            WindowError: If an offset is further than `tolerance_s` from a multiple of 1 / fps.
        """
        steps, off = [], []
        for delta in deltas:
            if not isinstance(delta, (int, float, np.integer, np.floating)) or not math.isfinite(delta):
                raise WindowError("A time offset is not a finite number.", where=key or None, found=repr(delta))
            frames = float(delta) * float(self.fraction)
            if abs(frames - round(frames)) / float(self.fraction) > tolerance_s:
                off.append(float(delta))
            steps.append(round(frames))
        if off:
            raise WindowError(
                "Time offsets fall between frames.",
                where=key or None,
                expected=f"multiples of 1/{self.fps} s, within {tolerance_s} s",
                found=", ".join(str(delta) for delta in off),
                fix="Use offsets on the frame grid, give delta_steps instead, or raise tolerance_s.",
            )
        return steps

    def __str__(self) -> str:
        return str(self.fps)
