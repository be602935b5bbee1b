"""The ring: order, room, and interrupts in the middle of a frame."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from rolltape.errors import ClosedError
from rolltape.write.ring import FrameCount, Ring


def put(ring: Ring, value: int) -> None:
    ring.put(np.full((2, 2, 3), value, np.uint8))
    ring.count.value += 1
    ring.wake()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_frames_come_in_order_and_are_copies() -> None:
    ring = Ring(FrameCount(), room=4)
    frame = np.zeros((2, 2, 3), np.uint8)
    for value in range(4):
        frame[:] = value
        ring.put(frame)
        ring.count.value += 1
    ring.end()
    seen = []
    while (one := ring.peek()) is not None:
        seen.append(int(one[0, 0, 0]))
        ring.release(1)
    assert seen == [0, 1, 2, 3]


def test_a_frame_is_seen_only_when_the_count_has_moved_on() -> None:
    count = FrameCount()
    ring = Ring(count, room=4)
    ring.put(np.full((1, 1, 3), 1, np.uint8))
    assert ring.waiting == 0
    ring.put(np.full((1, 1, 3), 2, np.uint8))  # the first one was interrupted before it counted
    count.value += 1
    ring.end()
    first = ring.peek()
    assert first is not None
    assert first[0, 0, 0] == 2
    assert ring.peek() is None


def test_put_waits_while_the_ring_is_full_and_nothing_is_dropped() -> None:
    ring = Ring(FrameCount(), room=3)
    done = threading.Event()

    def fill() -> None:
        for value in range(20):
            put(ring, value)
        ring.end()
        done.set()

    thread = threading.Thread(target=fill)
    thread.start()
    wait_for(lambda: ring.waiting == 3)
    assert not done.wait(0.05)
    seen = []
    while (one := ring.peek()) is not None:
        seen.append(int(one[0, 0, 0]))
        assert ring.waiting <= 3
        ring.release(1)
    thread.join()
    assert seen == list(range(20))
    assert ring.slots <= 4


def test_an_encoder_that_looks_ahead_does_not_block_the_ring() -> None:
    """Frames that were looked at and not released take further slots; their content stays as it was."""
    ring = Ring(FrameCount(), room=2)
    held = []
    for value in range(50):
        put(ring, value)
        one = ring.peek()
        assert one is not None
        held.append(one)
    assert [int(one[0, 0, 0]) for one in held] == list(range(50))
    ring.release(50)
    ring.reset(FrameCount())
    assert ring.slots <= 4


def test_a_failed_reader_does_not_leave_the_caller_waiting() -> None:
    ring = Ring(FrameCount(), room=1)
    put(ring, 0)
    threading.Timer(0.05, ring.fail).start()
    ring.put(np.zeros((2, 2, 3), np.uint8))
    assert ring.count.value == 1


def test_nothing_is_put_after_the_end() -> None:
    ring = Ring(FrameCount(), room=2)
    ring.end()
    with pytest.raises(ClosedError):
        put(ring, 0)


def test_slots_follow_the_frames_shape() -> None:
    ring = Ring(FrameCount(), room=2)
    for shape, dtype in (((4, 4, 3), np.uint8), ((5, 5), np.uint16), ((5, 5), np.float32)):
        ring.put(np.ones(shape, dtype))
        ring.count.value += 1
        one = ring.peek()
        assert one is not None
        assert (one.shape, one.dtype) == (shape, dtype)
        ring.release(1)
