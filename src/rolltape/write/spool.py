"""The spool: a ring on a mapped file, so that frames wait for a slow encoder on the disk and outlive the process.

The file starts with a page for its mark and the generation of the take that uses it, then comes a table with an entry
per slot, then the slots. Frame k is in slot k modulo the number of slots. A slot counts only when its entry has the
frame's number, the take's generation and the checksum of the pixels; the number is taken away before the pixels change
and put back after them. A slot is used again only when its frame's packet has been in the video file for longer than
the file's buffers can hold it back.
"""

from __future__ import annotations

import errno
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rolltape.errors import CommitError
from rolltape.format import Feature
from rolltape.store import MappedSpace, local
from rolltape.write.ring import FrameCount, OnFull, Ring
from rolltape.write.take_note import SpoolNote

__all__ = ["FLUSH_S", "Spool", "read_spool"]

_Array = np.ndarray[Any, Any]

FLUSH_S = 0.2
"""How long a packet may be held back by the video file's buffers."""

_MARK = b"rolltape spool 1"
_PAGE = 4096
_ENTRY = np.dtype([("number", "<i8"), ("generation", "<u8"), ("sum", "<u8"), ("xor", "<u8")])
_EMPTY = -1
_GENERATIONS = itertools.count(1)


class Spool(Ring):
    """A ring on a mapped file. It is made once for a camera and used by one take after the other.

    Args:
        feature: The camera.
        path: Where the file is made; `move` puts it elsewhere.
        seconds: How many seconds of frames have room.
        fps: Frames a second.
        held: How many frames the encoder itself holds; they have slots besides.
        on_full: See `Ring`.

    Raises:
        CommitError: If there is not that much room on the disk.
    """

    def __init__(
        self, feature: Feature, path: Path, *, seconds: float, fps: float, held: int, on_full: OnFull = "wait"
    ) -> None:
        super().__init__(FrameCount(), max(1, math.ceil(seconds * fps)), on_full)
        height, width, channels = feature.hwc
        self.feature = feature
        self.path = path
        self.generation = 0
        self._margin = math.ceil(FLUSH_S * fps) + 1
        self._count = self.room + held + self._margin + 1
        self._nbytes = -(-height * width * (4 if feature.is_depth else channels) // 64) * 64
        self._shape: tuple[int, ...] = (height, width) if feature.is_depth else (height, width, channels)
        self._dtype: np.dtype[Any] = np.dtype(np.uint8)
        size = _data_at(self._count) + self._count * self._nbytes
        try:
            local.allocate_file(path, size)
            self._space = MappedSpace(path)
        except OSError as error:
            raise CommitError(
                "The spool cannot be made.",
                errno=error.errno,
                where=feature.name,
                expected=f"{size / (1 << 20):.0f} MiB for {seconds:g} s of pictures",
                found=error.strerror,
                fix="Make room on the disk, or use a smaller spool (spool_seconds)."
                if error.errno == errno.ENOSPC
                else "Record to another disk, or without a spool (spool_seconds=0).",
            ) from error
        # Every page is touched now: a page's first write makes the file system do work, for which no frame shall wait.
        np.frombuffer(self._space.view, np.uint8)[::_PAGE] = 0
        self._space.view[: len(_MARK)] = _MARK
        self._table = np.frombuffer(self._space.view, _ENTRY, self._count, _PAGE)

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return self._count

    def begin(self, count: FrameCount, dtype: np.dtype[Any]) -> None:
        """Make the spool ready for another take: what it holds counts no more."""
        self.generation = next(_GENERATIONS)
        self._dtype = dtype
        self._table["number"] = _EMPTY
        self.reset(count)

    def note(self) -> SpoolNote:
        """Return what recovery must know."""
        return SpoolNote(self.path.name, self._count, self._shape, self._dtype.name, self.generation)

    def move(self, target: Path) -> None:
        """Give the file another name on the same file system."""
        local.rename(self.path, target)
        self.path = target

    def close(self) -> None:
        """Let go of the file and leave it as it is."""
        self._table = np.zeros(0, _ENTRY)
        self._space.close()

    def reset(self, count: FrameCount) -> None:
        """See `Ring`."""
        with self._changed:
            self.count = count
            self._released = self._seen = 0
            self._ended = self._failed = False

    def _is_full(self, number: int) -> bool:
        return number - self._count >= max(0, self._released - self._margin)

    def _claimed(self, number: int, frame: _Array) -> _Array:
        return self._slot(number)

    def _slot(self, number: int) -> _Array:
        at = _data_at(self._count) + (number % self._count) * self._nbytes
        size = math.prod(self._shape)
        return np.frombuffer(self._space.view, self._dtype, size, at).reshape(self._shape)

    def _fill(self, slot: _Array, number: int, frame: _Array) -> None:
        entry = self._table[number % self._count]
        entry["number"] = _EMPTY
        np.copyto(slot, frame, casting="no")
        entry["generation"] = self.generation
        entry["sum"], entry["xor"] = _checksum(slot)
        entry["number"] = number

    def _waiting_frame(self) -> _Array:
        return self._slot(self._seen)

    def _let_go(self, frames: int) -> None:
        self._released += frames


def read_spool(folder: Path, note: SpoolNote) -> tuple[MappedSpace | None, dict[int, Callable[[], _Array]]]:
    """Return the frames that are whole in a spool: by number, what gives the frame.

    Args:
        folder: The take's folder.
        note: What the take's note says of the spool.

    Returns:
        The mapped file, to be closed after use, or None where there is none, and the frames.
    """
    path = folder / note.file
    dtype = np.dtype(note.dtype)
    size = math.prod(note.shape)
    try:
        nbytes = (path.stat().st_size - _data_at(note.slots)) // max(1, note.slots)
        space = MappedSpace(path)
    except (OSError, ValueError):
        return None, {}
    if nbytes < size * dtype.itemsize or bytes(space.view[: len(_MARK)]) != _MARK:
        space.close()
        return None, {}
    table = np.frombuffer(space.view, _ENTRY, note.slots, _PAGE).copy()
    found: dict[int, Callable[[], _Array]] = {}
    for at, entry in enumerate(table):
        number = int(entry["number"])
        if number % note.slots != at or number < 0 or int(entry["generation"]) != note.generation:
            continue
        frame = np.frombuffer(space.view, dtype, size, _data_at(note.slots) + at * nbytes).reshape(note.shape)
        if _checksum(frame) == (int(entry["sum"]), int(entry["xor"])):
            found[number] = frame.copy
    return space, found


def _data_at(slots: int) -> int:
    """Return where the first slot begins."""
    return _PAGE + -(-slots * _ENTRY.itemsize // _PAGE) * _PAGE


def _checksum(frame: _Array) -> tuple[int, int]:
    """Return two checksums of a frame's bytes; pages of zeros and mixed frames change them."""
    flat = frame.reshape(-1).view(np.uint8)
    whole = len(flat) // 8 * 8
    words = flat[:whole].view("<u8")
    rest = int.from_bytes(flat[whole:].tobytes(), "little")
    total = (int(words.sum(dtype=np.uint64)) + rest) & 0xFFFF_FFFF_FFFF_FFFF
    return total, int(np.bitwise_xor.reduce(words, initial=np.uint64(0))) ^ rest
