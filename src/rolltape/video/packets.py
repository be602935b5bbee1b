"""Encoded frames moved from file to file without touching a pixel: join clips, cut at keyframes.

The rules of every file made here:

* Frame number k = round(presentation time x fps), counted from the first frame taken. The numbers must be 0, 1, 2,
  ... without gap or repeat; a source with irregular times is refused, never bent.
* Ticks are exact (see `tick_grid`), every sample lasts one frame, decode times are rebuilt over the whole file
  (clips may differ in their reorder delay), and the first frame is shown at 0.
* All parts have the same decoder configuration, byte for byte: another needs another file.
* A part starts at a keyframe and ends where no frame of it leans on what follows.

Only bytes are copied, in long runs; the head comes first, so the file can be read while it is being downloaded.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from rolltape.errors import EncodeError, VideoError
from rolltape.video.encode import tick_grid
from rolltape.video.index import MediaIndex, index_file
from rolltape.video.moov import Layout, head
from rolltape.video.whole import is_whole

if TYPE_CHECKING:
    from rolltape.format.rate import Rate

__all__ = ["Source", "cut", "cut_points", "join", "same_decoder", "take", "whole_prefix", "whole_prefixes"]

_COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class Source:
    """A stretch of a video to copy.

    Attributes:
        path: The file.
        first: Number of the first frame to take.
        count: How many frames; None: all from `first` on.
        index: The file's index, where it is known already.
    """

    path: str | os.PathLike[str]
    first: int = 0
    count: int | None = None
    index: MediaIndex | None = None


def same_decoder(one: MediaIndex, other: MediaIndex) -> bool:
    """Return whether one decoder can go on from one video to the other without being configured anew."""
    keys = ("codec", "fourcc", "width", "height", "rotation", "extradata")
    return all(getattr(one, key) == getattr(other, key) for key in keys)


def cut_points(index: MediaIndex) -> npt.NDArray[np.int64]:
    """Return the frame numbers where a video can be cut without re-encoding, 0 and the end included, ascending.

    A cut can be made before a keyframe when all frames before it in the file are shown before it, and all after it
    after it.
    """
    n = index.n
    if n == 0 or n != len(index.pts):  # packets that an edit list hides cannot be moved as they are
        return np.unique([0, n]).astype(np.int64)
    rank = _ranks(index)
    before = np.concatenate([[-1], np.maximum.accumulate(rank)[:-1]])
    clean = np.flatnonzero(index.key & (before == np.arange(n) - 1) & (rank == np.arange(n)))
    return np.append(clean, n).astype(np.int64)


def whole_prefixes(index: MediaIndex, rate: Rate) -> npt.NDArray[np.int64]:
    """Return every m for which the first m samples, in decode order, show the frames 0..m-1 without a gap; ascending.

    A file may be cut behind these (`MediaIndex.prefix`); elsewhere frames would be missing in between, because those
    that are shown earlier come later in the file. To keep equally many frames of several cameras, take the largest
    number that they have in common.
    """
    if not len(index.pts):
        return np.zeros(1, np.int64)
    numbers = _frame_numbers(index.pts - index.pts.min(), index.timescale, rate)
    # Of distinct numbers from 0 on, the first m are 0..m-1 when the largest of them is m-1.
    whole = np.flatnonzero(np.maximum.accumulate(numbers) == np.arange(len(numbers))) + 1
    same = np.sort(numbers)
    distinct = len(numbers) if (np.diff(same) > 0).all() else int(same[np.argmax(np.diff(same) <= 0)])
    return np.concatenate([[0], whole[whole <= distinct]]).astype(np.int64)


def whole_prefix(index: MediaIndex, rate: Rate) -> int:
    """Return the largest of `whole_prefixes`: how many frames a take that was cut off keeps."""
    return int(whole_prefixes(index, rate)[-1])


def take(path: str | os.PathLike[str], rate: Rate, most: int | None = None) -> MediaIndex:
    """Return the index of what can be kept of a take, which may have been cut off anywhere.

    The frames 0..m-1 of it are whole, and no frame between them is missing; `join` and `cut` take it as it is:
    `join([Source(path, index=index)], target, rate)`, where m is at least 1. It ends before the first sample that has
    zeros where a page was never written.

    Args:
        path: The file.
        rate: Its frame rate.
        most: Keep no more frames than this (and fewer where the file cannot be cut there); None: all that is whole.

    Raises:
        DamagedFileError: The file is missing or cannot be read.
        ContainerError: Not even the head of the file is there: no frame was written.
    """
    index = index_file(path, allow_cut=True)
    index = index.prefix(_written(path, index))
    counts = whole_prefixes(index, rate)
    return index.prefix(int(counts[counts <= (len(index.pts) if most is None else max(0, most))][-1]))


def _written(path: str | os.PathLike[str], index: MediaIndex) -> int:
    """How many samples from the start are whole."""
    with open(path, "rb") as file:
        for count, (offset, size) in enumerate(zip(index.offset.tolist(), index.size.tolist())):
            file.seek(offset)
            if not is_whole(index.codec, file.read(size)):
                return count
    return len(index.offset)


def join(sources: Sequence[Source | str | os.PathLike[str]], target: str | os.PathLike[str], rate: Rate) -> int:
    """Write one MP4 with the frames of all sources, in order, and return their number.

    Args:
        sources: Files, or stretches of files that start and end at cut points.
        target: The file to write; it is written anew. The caller fsyncs and renames it.
        rate: Frame rate of all sources and of the result.

    Raises:
        VideoError: The sources differ in decoder configuration, have irregular times, or a stretch does not fall on
            cut points.
        ContainerError: A source is not a readable MP4.
        EncodeError: The file cannot be written.

    Example:
        >>> join(["episode-0.mp4", Source("episode-1.mp4", count=50)], "both.mp4.tmp", Rate.parse(30))  # doctest: +SKIP
        150
    """
    parts = [_part(source if isinstance(source, Source) else Source(source), rate) for source in sources]
    if not parts:
        raise VideoError("There is nothing to join.", where=os.fspath(target), expected="at least one source")
    first = parts[0].index
    for part in parts[1:]:
        if not same_decoder(first, part.index):
            raise VideoError(
                "The videos have different decoder configurations and cannot share a file.",
                where=part.index.where,
                expected=f"as in {first.where}: {_described(first)}",
                found=_described(part.index),
                fix="Start a new file, or encode one of them again.",
            )
    timescale, step = tick_grid(rate)
    *begun, total = np.cumsum([0, *(part.count for part in parts)]).tolist()
    layout = Layout(
        entry=first.entry,
        width=first.width,
        height=first.height,
        rotation=first.rotation,
        timescale=timescale,
        step=step,
        sizes=np.concatenate([part.index.size[part.positions] for part in parts]),
        frames=np.concatenate([part.frames + start for part, start in zip(parts, begun)]),
        keys=np.concatenate(
            [np.flatnonzero(part.index.key[part.positions]) + start for part, start in zip(parts, begun)]
        ),
    )
    try:
        with open(target, "wb") as out:
            out.write(head(layout))
            for part in parts:
                _copy(part, out)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(target)
        raise EncodeError("The video file cannot be written.", where=os.fspath(target), found=error.strerror) from error
    return int(total)


def cut(source: Source, target: str | os.PathLike[str], rate: Rate) -> int:
    """Write one stretch of a video as a file of its own, without re-encoding, and return its number of frames.

    Raises:
        VideoError: The stretch does not start and end at cut points (see `cut_points`), or its times are irregular.
    """
    return join([source], target, rate)


@dataclass(frozen=True)
class _Part:
    """A stretch that was checked: a contiguous run of samples that shows the frames 0..count-1."""

    path: Path
    index: MediaIndex
    positions: slice
    frames: npt.NDArray[np.int64]  # number of the frame in each sample, from 0
    count: int


def _part(source: Source, rate: Rate) -> _Part:
    index = index_file(source.path) if source.index is None else source.index
    end = index.n if source.count is None else source.first + source.count
    if not 0 <= source.first < end <= index.n:
        raise VideoError(
            "The stretch is not in the video.",
            where=index.where,
            expected=f"frames within 0 to {index.n}",
            found=f"{source.first} to {end}",
        )
    if index.n != len(index.offset):
        raise VideoError(
            "The edit list hides some of the frames, so the packets cannot be moved as they are.",
            where=index.where,
            expected=f"{len(index.offset)} frames shown",
            found=index.n,
        )
    points = cut_points(index)
    for edge in (source.first, end):
        if edge not in points:
            near = points[np.argsort(np.abs(points - edge), kind="stable")[:2]]
            raise VideoError(
                "The video cannot be cut here without re-encoding.",
                where=f"{index.where}, frame {edge}",
                expected=f"a keyframe that nothing leans over; nearest at {' and '.join(str(k) for k in sorted(near))}",
                found="a frame inside a group",
            )
    positions = slice(source.first, end)  # at cut points, the number of the frame is the number of the sample
    pts = index.pts[positions] - index.ticks[source.first]
    numbers = _frame_numbers(pts, index.timescale, rate)
    if not np.array_equal(np.sort(numbers), np.arange(end - source.first)):
        bad = int(np.argmax(np.sort(numbers) != np.arange(end - source.first)))
        raise VideoError(
            "The times of the frames do not lie on the frame grid.",
            where=f"{index.where}, frame {source.first + bad}",
            expected=f"one frame every 1/{rate.fps} s",
            found=f"{float(np.sort(pts)[bad]) / index.timescale:.6f} s for frame {bad}",
        )
    return _Part(Path(source.path), index, positions, numbers, end - source.first)


def _frame_numbers(ticks: npt.NDArray[np.int64], timescale: int, rate: Rate) -> npt.NDArray[np.int64]:
    """round(ticks / timescale * fps), in integers."""
    num, den = rate.fraction.numerator, rate.fraction.denominator * timescale
    return (2 * ticks * num + den) // (2 * den)


def _ranks(index: MediaIndex) -> npt.NDArray[np.int64]:
    """Presentation rank of each sample, by position; the edit list is left out of account."""
    rank = np.empty(len(index.pts), np.int64)
    rank[np.argsort(index.pts, kind="stable")] = np.arange(len(rank))
    return rank


def _copy(part: _Part, out: BinaryIO) -> None:
    """Copy the samples' bytes, neighbours in one go."""
    offset, size = part.index.offset[part.positions], part.index.size[part.positions]
    ends = offset + size
    breaks = np.flatnonzero(offset[1:] != ends[:-1]) + 1
    begin = offset[np.concatenate([[0], breaks])]
    until = ends[np.concatenate([breaks - 1, [len(ends) - 1]])]
    with open(part.path, "rb") as file:
        for start, stop in zip(begin.tolist(), until.tolist()):
            file.seek(start)
            while start < stop:
                data = file.read(min(_COPY_BYTES, stop - start))
                if not data:
                    raise VideoError("The video became shorter while it was copied.", where=part.path)
                out.write(data)
                start += len(data)


def _described(index: MediaIndex) -> str:
    return f"{index.codec} {index.width}x{index.height}, {len(index.extradata)} bytes of configuration"
