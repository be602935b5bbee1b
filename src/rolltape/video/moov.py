"""The head of an MP4 with one video track, made from arrays: `ftyp` and `moov`, before the pictures' bytes.

Every frame lasts the same number of ticks. Decode times count up evenly from 0; `ctts` says how much later each
frame is shown, and the edit list takes the reorder delay off again, so that the first frame is shown at 0 and the
last has a duration: the average rate of the file is exactly the frame rate.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Layout", "head"]

_PER_CHUNK = 64
_UNITY, _ONE = 0x00010000, 0x40000000
_TURNS = {0: (1, 0, 0, 1), 90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}


@dataclass(frozen=True)
class Layout:
    """What the head must say.

    Attributes:
        entry: The sample entry, a whole box.
        width, height, rotation: Of the picture.
        timescale, step: Ticks per second and per frame.
        sizes: int64 [n]: bytes of each sample in decode order; they follow the head without gaps.
        frames: int64 [n]: number of the frame in each sample: a permutation of 0..n-1.
        keys: int64 [k]: positions of the keyframes.
    """

    entry: bytes
    width: int
    height: int
    rotation: int
    timescale: int
    step: int
    sizes: npt.NDArray[np.int64]
    frames: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]


def head(layout: Layout) -> bytes:
    """Return everything that comes before the first sample: `ftyp`, `moov` and the head of `mdat`."""
    total = int(layout.sizes.sum())
    ftyp = _box("ftyp", b"isom\0\0\2\0isomiso2" + layout.entry[4:8] + b"mp41")
    mdat = (
        struct.pack(">I4s", 8 + total, b"mdat") if total < 2**32 - 8 else struct.pack(">I4sQ", 1, b"mdat", 16 + total)
    )
    # The chunks' places depend on the head's length, which does not depend on their values.
    length = len(ftyp) + len(_moov(layout, 0, wide=False)) + len(mdat)
    wide = length + total >= 2**32
    length += len(_moov(layout, 0, wide=wide)) - len(_moov(layout, 0, wide=False)) if wide else 0
    return ftyp + _moov(layout, length, wide=wide) + mdat


def _moov(layout: Layout, first: int, *, wide: bool) -> bytes:
    n = len(layout.sizes)
    length = n * layout.step
    mvhd = _full(
        "mvhd",
        1,
        0,
        struct.pack(">QQIQiH10x", 0, 0, layout.timescale, length, _UNITY, 0x0100) + _matrix(0) + bytes(24) + _u32(2),
    )
    return _box("moov", mvhd + _box("trak", _tkhd(layout, length) + _edts(layout, length) + _mdia(layout, first, wide)))


def _tkhd(layout: Layout, length: int) -> bytes:
    fields = struct.pack(">QQIIQ8xhhhH", 0, 0, 1, 0, length, 0, 0, 0, 0) + _matrix(layout.rotation)
    return _full("tkhd", 1, 3, fields + struct.pack(">II", layout.width << 16, layout.height << 16))


def _edts(layout: Layout, length: int) -> bytes:
    delay = _delay(layout.frames) * layout.step
    return _box("edts", _full("elst", 1, 0, _u32(1) + struct.pack(">Qqhh", length, delay, 1, 0)))


def _mdia(layout: Layout, first: int, wide: bool) -> bytes:
    length = len(layout.sizes) * layout.step
    mdhd = _full("mdhd", 1, 0, struct.pack(">QQIQHH", 0, 0, layout.timescale, length, 0x55C4, 0))
    hdlr = _full("hdlr", 0, 0, struct.pack(">I4s12x", 0, b"vide") + b"VideoHandler\0")
    dinf = _box("dinf", _full("dref", 0, 0, _u32(1) + _full("url ", 0, 1, b"")))
    minf = _full("vmhd", 0, 1, bytes(8)) + dinf + _stbl(layout, first, wide)
    return _box("mdia", mdhd + hdlr + _box("minf", minf))


def _stbl(layout: Layout, first: int, wide: bool) -> bytes:
    n = len(layout.sizes)
    tables = [
        _full("stsd", 0, 0, _u32(1) + layout.entry),
        _full("stts", 0, 0, _u32(1) + struct.pack(">II", n, layout.step)),
    ]
    if len(layout.keys) < n:
        tables.append(_full("stss", 0, 0, _u32(len(layout.keys)) + (layout.keys + 1).astype(">u4").tobytes()))
    late = (layout.frames + _delay(layout.frames) - np.arange(n)) * layout.step
    if late.any():
        starts = np.flatnonzero(np.diff(late, prepend=late[0] - 1))
        runs = np.stack([np.diff(starts, append=n), late[starts]], axis=1)
        tables.append(_full("ctts", 0, 0, _u32(len(runs)) + runs.astype(">u4").tobytes()))
    full, rest = divmod(n, _PER_CHUNK)
    runs_of_chunks = [(1, _PER_CHUNK, 1)] * (full > 0) + [(full + 1, rest, 1)] * (rest > 0)
    tables.append(
        _full("stsc", 0, 0, _u32(len(runs_of_chunks)) + b"".join(struct.pack(">III", *run) for run in runs_of_chunks))
    )
    tables.append(_full("stsz", 0, 0, struct.pack(">II", 0, n) + layout.sizes.astype(">u4").tobytes()))
    places = first + (np.cumsum(layout.sizes) - layout.sizes)[::_PER_CHUNK]
    tables.append(
        _full("co64" if wide else "stco", 0, 0, _u32(len(places)) + places.astype(">u8" if wide else ">u4").tobytes())
    )
    return _box("stbl", b"".join(tables))


def _delay(frames: npt.NDArray[np.int64]) -> int:
    """By how many frames decoding runs ahead of showing."""
    return int((np.arange(len(frames)) - frames).max(initial=0))


def _matrix(rotation: int) -> bytes:
    a, b, c, d = _TURNS[rotation]
    return struct.pack(">9i", a * _UNITY, b * _UNITY, 0, c * _UNITY, d * _UNITY, 0, 0, 0, _ONE)


def _box(name: str, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), name.encode("latin-1")) + body


def _full(name: str, version: int, flags: int, body: bytes) -> bytes:
    return _box(name, struct.pack(">I", version << 24 | flags) + body)


def _u32(number: int) -> bytes:
    return struct.pack(">I", number)
