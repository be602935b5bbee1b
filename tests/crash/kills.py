"""A recording at 30 frames a second in a process of its own, and a board in shared memory that says how far it is."""

from __future__ import annotations

import mmap
import pickle
import random
import struct
import time
from pathlib import Path
from typing import Any

from crash.children import quiet
from crash.story import ENCODERS, FEATURES, Progress, Take, Teller
from rolltape.write import Writer

__all__ = ["RATE", "Board", "record_until_killed"]

RATE = 30
_HALF = 1 << 16


class Board:
    """Two pages in a file, written in turns: a process that is killed while it writes one leaves the other.

    Args:
        path: The file.
        create: Whether it is made.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(2 * _HALF + 8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def write(self, value: Any) -> None:
        """Replace what the board says."""
        turn = 1 - self._map[0]
        data = pickle.dumps(value)
        at = 8 + turn * _HALF
        self._map[at : at + 4 + len(data)] = struct.pack("<I", len(data)) + data
        self._map[0] = turn

    def read(self) -> Any:
        """Return what the board says, or None before the first word."""
        at = 8 + self._map[0] * _HALF
        size = struct.unpack_from("<I", self._map, at)[0]
        return pickle.loads(self._map[at + 4 : at + 4 + size]) if size else None

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()


def record_until_killed(root: Path, board_path: Path, encoder: str, spool_seconds: float, seed: int) -> None:
    """Record takes of some frames to some seconds, at 30 a second, discard some, pack now and then, without an end."""
    quiet(board_path)
    board = Board(board_path)
    rng = random.Random(seed)
    options: dict[str, Any] = {"spool_seconds": spool_seconds, "rgb_encoder": ENCODERS[encoder]}
    writer = Writer.create(root, RATE, FEATURES, episode_fields={"operator": "string"}, **options)
    clock = Pacer()

    def told(progress: Progress) -> None:
        waiting = max(writer.waiting.values(), default=0)
        board.write((progress, waiting, stated_loss(writer), clock.worst))
        if progress.saving is None:
            clock.wait()

    teller = Teller(told=told)
    for number in range(5, 64):
        teller.record(writer, Take(number, rng.choice((3, 10, 25, 60, 120))), save=rng.random() > 0.2)
        if number % 4 == 0:
            writer.pack(keep_old=number % 8 == 0)
        if number % 11 == 0:
            writer.finalize()
            writer = Writer.resume(root, **options)
            clock = Pacer()
    time.sleep(600)


def stated_loss(writer: Writer) -> float:
    """Return what the writer says may be lost, in seconds."""
    return writer.stated_loss_s.max


class Pacer:
    """Keeps a loop to its rate; a loop that is late goes on from there.

    Attributes:
        worst: The longest time a frame took, in seconds: how busy the machine is.
    """

    def __init__(self) -> None:
        self._next = self._last = time.monotonic()
        self.worst = 0.0

    def wait(self) -> None:
        """Wait for the time of the next frame."""
        now = time.monotonic()
        self._next = max(self._next + 1 / RATE, now - 1 / RATE)
        time.sleep(max(0.0, self._next - now))
        now = time.monotonic()
        self.worst = max(self.worst, now - self._last)
        self._last = now
