"""The ring between `add_frame` and a camera's encoder: frames wait here, and none is ever dropped."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

from rolltape.errors import ClosedError

__all__ = ["FrameCount", "Ring"]

_GLANCE_S = 0.1
"""How long a wait lasts before it looks again: a wake-up that an interrupt swallowed costs no more than this."""


class FrameCount:
    """How many frames of the open take are whole.

    All cameras and the rows share one count, and it moves on after the last of them has the frame. So a take that is
    interrupted in the middle of a frame has that frame nowhere, whichever cameras had it already.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Ring:
    """Slots for the frames of one camera, used again and again.

    The caller puts frame number `count.value`; it can be seen once the count has moved past it. A slot is free again
    when its frame was released, which the encoder's thread does when the frame's packet is in the container.

    Args:
        count: The whole frames of the take.
        room: How many frames may wait unseen before `put` waits. Frames that the encoder has seen and still holds
            take further slots, so a codec that looks far ahead does not use up the room.

    Example:
        >>> count = FrameCount()
        >>> ring = Ring(count, room=2)
        >>> ring.put(np.ones((2, 2, 3), np.uint8)); count.value += 1; ring.wake()
        >>> int(ring.peek().sum()); ring.release(1)
        12
    """

    def __init__(self, count: FrameCount, room: int = 30) -> None:
        self.count = count
        self.room = max(1, int(room))
        self._changed = threading.Condition(threading.Lock())
        self._free: list[np.ndarray[Any, Any]] = []
        self._held: deque[np.ndarray[Any, Any]] = deque()
        self._released = 0
        self._seen = 0
        self._ended = False
        self._failed = False

    @property
    def waiting(self) -> int:
        """How many whole frames the encoder has not looked at yet."""
        return max(0, self.count.value - self._seen)

    @property
    def slots(self) -> int:
        """How many slots there are, free ones included."""
        return len(self._free) + len(self._held)

    def put(self, frame: np.ndarray[Any, Any]) -> None:
        """Copy a frame into the slot of the next frame, after waiting for room.

        Putting the same frame number again replaces it. Returns without a copy when the reader has failed, so that the
        caller can report why.
        """
        number = self.count.value
        with self._changed:
            while number - self._seen >= self.room and not self._failed:
                self._changed.wait(_GLANCE_S)
            if self._failed:
                return
            if self._ended:
                raise ClosedError("The take has ended.", fix="Save or discard it before adding frames.")
            if number - self._released < len(self._held):
                slot = self._held[-1]
            else:
                slot = self._taken_slot(frame)
                self._held.append(slot)
        if slot.shape != frame.shape or slot.dtype != frame.dtype:
            slot = self._held[-1] = np.empty(frame.shape, frame.dtype)
        np.copyto(slot, frame)

    def _taken_slot(self, frame: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        while self._free:
            slot = self._free.pop()
            if slot.shape == frame.shape and slot.dtype == frame.dtype:
                return slot
        return np.empty(frame.shape, frame.dtype)

    def wake(self) -> None:
        """Tell the reader that the count has moved on."""
        with self._changed:
            self._changed.notify_all()

    def peek(self) -> np.ndarray[Any, Any] | None:
        """Return the next frame that was not looked at yet, after waiting for one, or None when the take has ended."""
        with self._changed:
            while self._seen >= self.count.value:
                if self._ended:
                    return None
                self._changed.wait(_GLANCE_S)
            frame = self._held[self._seen - self._released]
            self._seen += 1
            self._changed.notify_all()
            return frame

    def release(self, frames: int) -> None:
        """Free the slots of the `frames` oldest frames that were looked at."""
        with self._changed:
            for _ in range(min(frames, self._seen - self._released)):
                self._free.append(self._held.popleft())
                self._released += 1
            self._changed.notify_all()

    def end(self) -> None:
        """Say that no frame follows: `peek` gives the rest, then None."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def fail(self) -> None:
        """Say that nobody looks any more, so that `put` does not wait for ever."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def reset(self, count: FrameCount) -> None:
        """Make the ring ready for another take. The slots are kept."""
        with self._changed:
            self._free.extend(self._held)
            self._held.clear()
            self.count = count
            self._released = self._seen = 0
            self._ended = self._failed = False
            del self._free[self.room * 2 :]
