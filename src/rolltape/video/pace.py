"""How fast an encoder can be fed that never tells."""

from __future__ import annotations

import time

__all__ = ["Pace"]

_FIRST_S, _LONGEST_S = 0.002, 0.1
_LONGER, _SHORTER = 1.5, 0.95


class Pace:
    """A pause between pictures that grows while the encoder falls behind, and shrinks while it keeps up."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._last = 0.0

    def wait(self) -> None:
        """Wait until the pause since the last picture is over; not at all while the encoder keeps up."""
        if self._pause >= _FIRST_S:
            time.sleep(max(0.0, self._last + self._pause - time.monotonic()))
        self._last = time.monotonic()

    def saw(self, kept_up: bool) -> None:
        """Take in whether the encoder gave a packet for the picture just put."""
        self._pause = self._pause * _SHORTER if kept_up else min(_LONGEST_S, max(_FIRST_S, self._pause * _LONGER))
