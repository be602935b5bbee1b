"""The sample tables unrolled: one number per sample, checked against each other before anything is repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rolltape.errors import ContainerError
from rolltape.video.boxes import Int64Array, Movie, SampleTables, Track

__all__ = ["Samples", "unroll"]

_LIMIT = 2**62


@dataclass(frozen=True)
class Samples:
    """One entry per sample, in decode order.

    Attributes:
        offset, size: Bytes of the sample in the file, int64 [n].
        dts, pts: Decode and presentation time in track ticks, int64 [n]; the edit list is not applied.
        duration: Track ticks, int64 [n].
        key: Keyframes, bool [n].
    """

    offset: Int64Array
    size: Int64Array
    dts: Int64Array
    pts: Int64Array
    duration: Int64Array
    key: np.ndarray[tuple[int], np.dtype[np.bool_]]


def unroll(movie: Movie, track: Track, *, total_bytes: int | None = None) -> Samples:
    """Return the samples of a track.

    Args:
        movie: For the file's name.
        track: A video track with tables.
        total_bytes: Size of the file; samples that reach beyond it are refused. None: not checked.

    Raises:
        ContainerError: The tables contradict each other or the file's size.
    """
    tables = track.tables
    if tables is None:
        raise ContainerError("The track has no sample tables.", where=movie.where, found=track.kind)
    n = len(tables.sizes)
    duration = _repeat(tables.stts, n, movie.where, "stts")
    dts = np.cumsum(duration) - duration
    shift = 0 if tables.ctts is None else _repeat(tables.ctts, n, movie.where, "ctts")
    return Samples(
        offset=_offsets(tables, n, movie.where, total_bytes),
        size=tables.sizes,
        dts=dts,
        pts=dts + shift,
        duration=duration,
        key=_keys(tables.sync, n, movie.where),
    )


def _repeat(runs: Int64Array, n: int, where: str, name: str) -> Int64Array:
    """Unroll (count, value) runs to n values; surplus at the end is cut, a lack is an error."""
    counts, total = _clip(runs[:, 0], n)
    if total < n:
        raise ContainerError(
            "A sample table is shorter than the list of samples.",
            where=f"{where}, box {name}",
            expected=f"{n} samples",
            found=total,
        )
    values = np.repeat(runs[:, 1], counts)
    if n and int(np.abs(values).max()) > _LIMIT // max(1, n):
        raise ContainerError("The times of the samples overflow.", where=f"{where}, box {name}")
    return values


def _clip(counts: Int64Array, n: int) -> tuple[Int64Array, int]:
    """Counts cut down so that they sum to at most n, and that sum. Exact for any 32-bit counts."""
    ends = np.minimum(np.cumsum(np.minimum(counts, n + 1)), n)
    clipped = np.diff(ends, prepend=np.int64(0))
    return clipped, int(ends[-1]) if len(ends) else 0


def _offsets(tables: SampleTables, n: int, where: str, total_bytes: int | None) -> Int64Array:
    stsc, chunks = tables.stsc, len(tables.chunks)
    if n == 0:
        return np.zeros(0, np.int64)
    first = stsc[:, 0]
    if not len(stsc) or first[0] != 1 or (np.diff(first) <= 0).any():
        raise ContainerError("The runs of chunks do not ascend from 1.", where=f"{where}, box stsc")
    if (stsc[:, 2] != 1).any():
        raise ContainerError("The samples use several sample entries.", where=f"{where}, box stsc", expected="entry 1")
    ends = np.minimum(np.append(first[1:] - 1, chunks), chunks)
    per_chunk = np.repeat(stsc[:, 1], np.diff(ends, prepend=np.int64(0)))
    counts, total = _clip(per_chunk, n)
    if total < n:
        raise ContainerError(
            "There are fewer places in the chunks than samples.",
            where=f"{where}, box stsc",
            expected=f"{n} samples",
            found=total,
        )
    end = np.cumsum(tables.sizes)
    begin = end - tables.sizes
    starts = np.cumsum(counts) - counts  # first sample of each chunk
    base = tables.chunks - begin[np.minimum(starts, n - 1)]
    offset: Int64Array = np.repeat(base, counts) + begin
    if total_bytes is not None:
        beyond = (offset < 0) | (offset > total_bytes - tables.sizes)
        if beyond.any():
            k = int(np.argmax(beyond))
            raise ContainerError(
                "A sample lies beyond the end of the file.",
                where=f"{where}, sample {k} of {n}",
                expected=f"at least {int(offset[k] + tables.sizes[k])} bytes",
                found=f"{total_bytes} bytes",
                fix="The file is cut off; copy or download it again.",
            )
    return offset


def _keys(sync: Int64Array | None, n: int, where: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if sync is None:
        return np.ones(n, np.bool_)
    if len(sync) and (int(sync.min()) < 1 or int(sync.max()) > n):
        raise ContainerError(
            "A keyframe number is out of range.",
            where=f"{where}, box stss",
            expected=f"1 to {n}",
            found=f"{int(sync.min())} to {int(sync.max())}",
        )
    key = np.zeros(n, np.bool_)
    key[sync - 1] = True
    return key
