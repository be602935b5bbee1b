"""The ring between `add_frame` and a camera's encoder: frames wait here, and none is ever dropped."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Literal

import numpy as np

from rolltape.errors import ClosedError, EncodeError

__all__ = ["FrameCount", "OnFull", "Ring"]

OnFull = Literal["wait", "error"]
"""What `add_frame` does when a camera's encoder is too far behind: wait for it, or end the take with an error."""

_Array = np.ndarray[Any, Any]

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
        on_full: Whether `put` waits for room, or refuses the frame.

    Example:
        >>> count = FrameCount()
        >>> ring = Ring(count, room=2)
        >>> ring.put(np.ones((2, 2, 3), np.uint8)); count.value += 1; ring.wake()
        >>> int(ring.peek().sum()); ring.release(1)
        12
    """

    def __init__(self, count: FrameCount, room: int = 30, on_full: OnFull = "wait") -> None:
        self.count = count
        self.room = max(1, int(room))
        self.on_full = on_full
        self._changed = threading.Condition(threading.Lock())
        self._free: list[_Array] = []
        self._held: deque[_Array] = deque()
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

    def put(self, frame: _Array) -> None:
        """Copy a frame into the slot of the next frame, after waiting for room.

        Putting the same frame number again replaces it. Returns without a copy when the reader has failed, so that the
        caller can report why.

        Raises:
            EncodeError: If there is no room and `on_full` is "error".
            ClosedError: If the take has ended.
        """
        number = self.count.value
        with self._changed:
            while self._is_full(number) and not self._failed:
                if self.on_full == "error":
                    raise self._overflow(number)
                self._changed.wait(_GLANCE_S)
            if self._failed:
                return
            if self._ended:
                raise ClosedError("The take has ended.", fix="Save or discard it before adding frames.")
            slot = self._claimed(number, frame)
        self._fill(slot, number, frame)

    def _is_full(self, number: int) -> bool:
        return number - self._seen >= self.room

    def _overflow(self, number: int) -> EncodeError:
        return EncodeError(
            "A camera's encoder cannot keep up, and there is no room for another frame.",
            where=f"frame {number}",
            expected=f"at most {self.room} frames that wait",
            found=f"{self.waiting}",
            fix="The frames before it are whole: save_episode keeps them. Then use a faster preset or codec, or a "
            "larger spool (spool_seconds).",
        )

    def _claimed(self, number: int, frame: _Array) -> _Array:
        if number - self._released < len(self._held):
            slot = self._held[-1]
            if slot.shape != frame.shape or slot.dtype != frame.dtype:
                slot = self._held[-1] = np.empty(frame.shape, frame.dtype)
        else:
            slot = self._taken_slot(frame)
            self._held.append(slot)
        return slot

    def _fill(self, slot: _Array, number: int, frame: _Array) -> None:
        np.copyto(slot, frame)

    def _taken_slot(self, frame: _Array) -> _Array:
        while self._free:
            slot = self._free.pop()
            if slot.shape == frame.shape and slot.dtype == frame.dtype:
                return slot
        return np.empty(frame.shape, frame.dtype)

    def wake(self) -> None:
        """Tell the reader that the count has moved on."""
        with self._changed:
            self._changed.notify_all()

    def peek(self) -> _Array | None:
        """Return the next frame that was not looked at yet, after waiting for one, or None when the take has ended."""
        with self._changed:
            while self._seen >= self.count.value:
                if self._ended:
                    return None
                self._changed.wait(_GLANCE_S)
            frame = self._waiting_frame()
            self._seen += 1
            self._changed.notify_all()
            return frame

    def release(self, frames: int) -> None:
        """Free the slots of the `frames` oldest frames that were looked at."""
        with self._changed:
            self._let_go(min(frames, self._seen - self._released))
            self._changed.notify_all()

    def _waiting_frame(self) -> _Array:
        return self._held[self._seen - self._released]

    def _let_go(self, frames: int) -> None:
        for _ in range(frames):
            self._free.append(self._held.popleft())
            self._released += 1

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
