"""The samples of a fragmented MP4: `moof` boxes, each with the times and sizes of the few samples behind it.

A recording that must survive a kill cannot keep its tables for the end: it writes them in pieces (ISO/IEC 14496-12,
8.8). A `moov` names the tracks and their default values; then comes `moof` and `mdat` again and again. This module
gives the same `Samples` as the tables of a finished file do, and nothing above it knows the difference.

What a `moof` claims is bounded by the bytes: the samples of a run have a table, or one size for all, and then they
must fit the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rolltape.errors import ContainerError
from rolltape.video.box import Box, Int64Array
from rolltape.video.boxes import Movie, RunDefaults, Track
from rolltape.video.samples import Samples, unroll

__all__ = ["gather"]

# tfhd and trun: which fields there are
_BASE, _ENTRY, _DURATION, _SIZE, _FLAGS, _BASE_IS_MOOF = 0x1, 0x2, 0x8, 0x10, 0x20, 0x20000
_RUN_OFFSET, _RUN_FIRST_FLAGS, _RUN_DURATION, _RUN_SIZE, _RUN_FLAGS, _RUN_SHIFT = 0x1, 0x4, 0x100, 0x200, 0x400, 0x800
_NOT_SYNC = 0x10000  # in a sample's flags
# What was never written: a sector of zeros, which no codec writes, or zeros at the end, where the last one is shorter.
_UNWRITTEN = re.compile(rb"\0{512}|\0+\Z")
_FURTHEST = 2**60  # bytes and ticks; beyond that sums would overflow
_FIX = "Copy or download it again; a take that was interrupted can be recovered by rolltape."


@dataclass
class _Gathering:
    """What was found so far: per run an int64 array of (offset, size, decode time, shift, duration, flags)."""

    movie: Movie
    track: Track
    room: int  # bytes that runs without a table of sizes may still claim
    clock: int = 0  # decode time of the next sample, where a fragment does not say
    runs: list[Int64Array] = field(default_factory=list)


def gather(movie: Movie, track: Track, view: memoryview, *, allow_cut: bool = False) -> Samples:
    """Return the samples of a track of a fragmented MP4, those in the tables of its `moov` included.

    Args:
        movie: From `parse_movie`.
        track: One of its video tracks.
        view: The bytes of the whole file.
        allow_cut: Take a file that ends anywhere, as a killed writer leaves it: the samples up to the first whose
            bytes are not all there. The file ends where zeros show that a sector was never written.

    Raises:
        ContainerError: The fragments do not add up, are encrypted, or (without `allow_cut`) the file is cut off.
    """
    hole = _UNWRITTEN.search(view) if allow_cut else None
    if hole is not None:
        view = view[: hole.start()]
    found = _Gathering(movie, track, len(view))
    if track.tables is not None and len(track.tables.sizes):
        held = unroll(movie, track)
        found.clock = int(held.dts[-1] + held.duration[-1])
        flags = np.where(held.key, 0, _NOT_SYNC)
        found.runs.append(np.stack([held.offset, held.size, held.dts, held.pts - held.dts, held.duration, flags]))
    file = Box(view, 0, len(view), "", movie.where)
    try:
        for moof in _fragments(file, allow_cut):
            _fragment(found, moof)
    except ContainerError:
        if not allow_cut:  # else a page of the last fragment was never written: what came before it counts
            raise
    return _samples(found, len(view), allow_cut)


def _fragments(file: Box, allow_cut: bool) -> Iterator[Box]:
    """Every `moof`. In a file that may be cut off, the walk ends at the first box that is not whole."""
    last = 0
    try:
        for name, box in file.children():
            if name == "\0\0\0\0":
                raise box.error("The file ends in zeros.")
            last = box.end
            if name == "moof":
                yield box
    except ContainerError as error:
        if allow_cut:
            return
        raise _cut_off(file, f"{error.what} ({error.where})") from error
    if last < file.end and not allow_cut:
        raise _cut_off(file, f"{file.end - last} bytes after the last box")


def _cut_off(file: Box, found: str) -> ContainerError:
    return ContainerError("The fragmented MP4 is cut off.", where=file.where, found=found, fix=_FIX)


def _fragment(found: _Gathering, moof: Box) -> None:
    """Add the runs of one `moof`."""
    begin = _header(moof)
    implied = begin  # where data begins that says nothing of its place
    for name, traf in moof.children():
        if name != "traf":
            continue
        tfhd = traf.need("tfhd")
        flags, number = tfhd.number("I", 0) & 0xFFFFFF, tfhd.number("I", 4)
        base, defaults, entry = _traf_defaults(tfhd, flags, found.track)
        if base is None:
            base = begin if flags & _BASE_IS_MOOF else implied
        ours = number == found.track.number
        if ours and entry != 1:
            raise tfhd.error("The samples use several sample entries.", expected="entry 1", found=entry)
        implied = _runs(found, traf, base, defaults, ours)


def _header(box: Box) -> int:
    """Where a box begins, its header included."""
    size = int.from_bytes(box.view[box.start - 8 : box.start - 4], "big")
    return box.start - (8 if size == box.end - box.start + 8 else 16)


def _traf_defaults(tfhd: Box, flags: int, track: Track) -> tuple[int | None, RunDefaults, int]:
    """Base of the data's places (None: not given), defaults, and the sample entry."""
    at, base = 8, None
    if flags & _BASE:
        base, at = tfhd.number("Q", at), at + 8
    values = [1, track.defaults.duration, track.defaults.size, track.defaults.flags]
    for k, bit in enumerate((_ENTRY, _DURATION, _SIZE, _FLAGS)):
        if flags & bit:
            values[k], at = tfhd.number("I", at), at + 4
    entry, duration, size, sample_flags = values
    return base, RunDefaults(duration, size, sample_flags), entry


def _runs(found: _Gathering, traf: Box, base: int, defaults: RunDefaults, ours: bool) -> int:
    """Add the runs of a track fragment when it is of our track; return where its data ends."""
    if abs(base) > _FURTHEST:
        raise traf.error("The place of the samples overflows.", found=base)
    place, start = base, found.clock
    for name, box in traf.children():
        if ours and name == "senc":
            raise box.error("The video is encrypted.")
        if ours and name == "tfdt":
            start = box.number("Q" if box.number("B", 0) == 1 else "I", 4)
    for name, box in traf.children():
        if name != "trun":
            continue
        flags, count = box.number("I", 0) & 0xFFFFFF, box.number("I", 4)
        if flags & _RUN_OFFSET:
            place = base + box.number("i", 8)
        if not ours:
            place = min(place + _length(box, flags, count, defaults), _FURTHEST)
            continue
        if start > _FURTHEST:
            raise traf.error("The decode time overflows.", found=start)
        run = _run(found, box, flags, count, defaults)
        if run.shape[1]:
            run[0] += place
            run[2] += start
            place, start = int(run[0, -1] + run[1, -1]), int(run[2, -1] + run[4, -1])
            found.runs.append(run)
    if ours:
        found.clock = start
    return place


def _columns(box: Box, flags: int, count: int) -> tuple[dict[int, Int64Array], int]:
    """The table of a run, a column per field that it has, and the first sample's flags (-1: none of its own)."""
    at = 8 + (4 if flags & _RUN_OFFSET else 0)
    first = -1
    if flags & _RUN_FIRST_FLAGS:
        first, at = box.number("I", at), at + 4
    fields = [bit for bit in (_RUN_DURATION, _RUN_SIZE, _RUN_FLAGS, _RUN_SHIFT) if flags & bit]
    if not fields:
        return {}, first
    table = box.array(">u4", len(fields), count, at).reshape(count, len(fields))
    return {bit: table[:, k] for k, bit in enumerate(fields)}, first


def _length(box: Box, flags: int, count: int, defaults: RunDefaults) -> int:
    """Bytes of the samples of a run of another track."""
    columns, _ = _columns(box, flags, count)
    return int(columns[_RUN_SIZE].sum()) if _RUN_SIZE in columns else count * defaults.size


def _run(found: _Gathering, box: Box, flags: int, count: int, defaults: RunDefaults) -> Int64Array:
    """The samples of one run; places and times count from 0."""
    columns, first = _columns(box, flags, count)
    if not columns or _RUN_SIZE not in columns:
        # Nothing but the file's size bounds a run without a table; a file that is cut off may hold less of it.
        if defaults.size == 0 and count > 0 and not columns:
            raise box.error("The samples of a run have no size.", found=f"{count} samples")
        if not columns:
            count = min(count, found.room // max(1, defaults.size) + 1)
            found.room = max(0, found.room - count * defaults.size)
    run = np.empty((6, count), np.int64)
    run[1] = columns.get(_RUN_SIZE, defaults.size)
    run[4] = columns.get(_RUN_DURATION, defaults.duration)
    run[5] = columns.get(_RUN_FLAGS, defaults.flags)
    run[3] = columns[_RUN_SHIFT].astype(np.int32) if _RUN_SHIFT in columns else 0  # signed, as files of version 0 have
    run[0] = np.cumsum(run[1]) - run[1]
    run[2] = np.cumsum(run[4]) - run[4]
    if first >= 0 and count:
        run[5, 0] = first
    return run


def _samples(found: _Gathering, nbytes: int, allow_cut: bool) -> Samples:
    rows = np.concatenate(found.runs, axis=1) if found.runs else np.zeros((6, 0), np.int64)
    offset, size = rows[0], rows[1]
    beyond = (offset < 0) | (offset > nbytes - size)
    if beyond.any():
        k = int(np.argmax(beyond))
        if not allow_cut:
            raise ContainerError(
                "The fragmented MP4 is cut off: a sample lies beyond the end of the file.",
                where=f"{found.movie.where}, sample {k} of {rows.shape[1]}",
                expected=f"at least {int(offset[k] + size[k])} bytes",
                found=f"{nbytes} bytes",
                fix=_FIX,
            )
        rows = rows[:, :k]
    offset, size, dts, shift, duration, flags = (np.ascontiguousarray(row) for row in rows)
    return Samples(offset, size, dts, dts + shift, duration, (flags & _NOT_SYNC) == 0)
