"""Keeping the time of the control loop, and measuring how well it was kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rolltape.errors import RecordError

__all__ = ["Cadence", "Pace"]

_TOLERANCE = 0.05
"""How far the measured rate may be from the stated one, as a part of it, before it is said."""

_SLICE_S = 0.02


@dataclass(frozen=True)
class Pace:
    """How an episode's loop kept its time.

    Attributes:
        hz: The measured mean rate, or None with fewer than two ticks.
        worst_interval_s: The longest time between the starts of two ticks, in seconds, or None.
        late: Ticks that began more than a tenth of a period after their time.
        fps: The rate that it should have had.
    """

    hz: float | None
    worst_interval_s: float | None
    late: int
    fps: float

    @property
    def kept(self) -> bool:
        """Whether the measured rate is within 5 % of the stated one."""
        return self.hz is None or abs(self.hz / self.fps - 1) <= _TOLERANCE


class Cadence:
    """Lets ticks begin in time, on the clock on the wall, and measures when they did.

    A tick that comes late moves all later ones: the loop never runs faster than its rate to catch up.

    Args:
        fps: Ticks a second.
        strict: Raise when the mean rate of an episode falls more than 5 % short for a second or more.
        clock: Gives seconds, from anywhere.
        sleep: Waits for seconds.

    Example:
        >>> now = [0.0]
        >>> def sleep(seconds): now[0] += seconds
        >>> cadence = Cadence(10, clock=lambda: now[0], sleep=sleep)
        >>> cadence.begin()
        >>> for _ in range(5): cadence.tick()
        >>> round(cadence.pace().hz, 6), cadence.pace().late
        (10.0, 0)
    """

    def __init__(
        self,
        fps: float,
        *,
        strict: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._fps, self._strict, self._clock, self._sleep = float(fps), strict, clock, sleep
        self.begin()

    def begin(self) -> None:
        """Begin an episode: the next tick may start at once."""
        self._first: float | None = None
        self._last = self._due = 0.0
        self._ticks = self._late = 0
        self._worst = 0.0

    @property
    def late(self) -> int:
        """Late ticks in this episode so far."""
        return self._late

    def tick(self, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Wait until the next tick is due, and take its time.

        Args:
            interrupted: Looked at while waiting; the wait ends when it is true.

        Raises:
            RecordError: `strict` is set and the rate is not kept.
        """
        now = self._clock()
        if self._first is None:
            self._first = self._last = self._due = now
            self._ticks = 1
            return
        self._due += 1 / self._fps
        while (left := self._due - now) > 0 and not interrupted():
            self._sleep(min(left, _SLICE_S))
            now = self._clock()
        if now > self._due + 0.1 / self._fps:
            self._late += 1
        self._due = max(self._due, now - 0.1 / self._fps)
        self._worst = max(self._worst, now - self._last)
        self._last = now
        self._ticks += 1
        if self._strict and now - self._first >= 1.0 and not self.pace().kept:
            raise RecordError(
                "The loop cannot keep its rate.",
                expected=f"{self._fps:g} Hz",
                found=f"{self.pace().hz:.1f} Hz over {now - self._first:.1f} s; longest tick {self._worst:.3f} s",
                fix="Lower the rate or the picture size, use a faster codec, or record without strict_rate.",
            )

    def pace(self) -> Pace:
        """Return how the time was kept in this episode so far."""
        if self._ticks < 2 or self._first is None:
            return Pace(None, None, self._late, self._fps)
        span = self._last - self._first
        return Pace((self._ticks - 1) / span if span > 0 else None, self._worst, self._late, self._fps)
