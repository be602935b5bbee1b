"""Statistics of one camera's pictures, gathered while they are recorded.

Which frames are looked at is known only when the episode ends, for it depends on the episode's length. So of every
frame a compact record is kept: how often each value occurs in the thinned picture (256 counts a channel for colour,
the values that occur for whole millimetres), or the thinned picture itself for float metres.

The statistics are of the frames as they were recorded, before any encoding.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import EpisodeError
from rolltape.format import Feature
from rolltape.format.episode_stats import episode_stats, sample_indices, subsample, value_stats
from rolltape.format.quantiles import PictureHistogram
from rolltape.format.sketch import Bins, Sketch
from rolltape.format.stats import QUANTILES, FeatureStats, StatisticsWarning, merge

__all__ = ["MEMORY_LIMIT", "PictureStats"]

MEMORY_LIMIT = 64 << 20
"""Bytes of records that one camera keeps in memory; more goes to a file.

A 640x480 frame has a record of 1.5 KiB in colour (24 minutes at 30 frames a second stay in memory), of at most 77 KB as
depth, in millimetres usually a tenth of that.
"""

_MILLIMETRES = 1 << 16
_GROUP = 4 << 20
_OVERHEAD = 48


class PictureStats:
    """The statistics of one camera in one take.

    `add` is called for each recorded frame, by one thread; `finish` once, when that thread has ended.

    Args:
        feature: The camera.
        spill: Where records go that are more than `memory` bytes: a file of this name, made only then and removed by
            `finish` and `discard`. None takes a nameless file of the system.
        memory: How many bytes of records stay in memory.

    Example:
        >>> camera = Feature("observation.images.front", "video", (48, 64, 3))
        >>> pictures = PictureStats(camera)
        >>> for level in (0, 255):
        ...     pictures.add(np.full((48, 64, 3), level, np.uint8))
        >>> stats = pictures.finish(2)
        >>> stats["mean"].shape, float(stats["mean"][0, 0, 0]), stats["count"].tolist()
        ((3, 1, 1), 0.5, [2])
    """

    def __init__(self, feature: Feature, *, spill: Path | None = None, memory: int = MEMORY_LIMIT) -> None:
        self.feature = feature
        self._channels = feature.hwc[2]
        self._offsets = np.arange(self._channels, dtype=np.intp) * 256
        self._records = _Records(spill, memory)
        self._dtype: np.dtype[Any] | None = None
        self._counts: np.dtype[Any] = np.dtype(np.uint16)
        self._histogram: PictureHistogram | None = None
        self._finished: tuple[int, FeatureStats] | None = None

    @property
    def frames(self) -> int:
        """How many frames were added."""
        return len(self._records)

    @property
    def memory(self) -> int:
        """How many bytes of records are in memory."""
        return self._records.memory

    @property
    def histogram(self) -> PictureHistogram:
        """The pixels that the statistics are of, for the dataset's quantiles; known after `finish`."""
        if self._histogram is None:
            raise EpisodeError("The pictures' statistics are not finished.", where=f"camera {self.feature.name}")
        return self._histogram

    def add(self, frame: npt.NDArray[Any]) -> None:
        """Take the next frame; nothing of it is kept but the record.

        Args:
            frame: Colour uint8 [H, W, C]; depth [H, W] (or [H, W, 1]), whole millimetres or float metres.

        Raises:
            EpisodeError: If the frame is not of this kind.
        """
        if frame.ndim == 2 and not self.feature.is_depth and self._channels == 1:
            frame = frame[:, :, None]
        elif self.feature.is_depth and frame.ndim == 3 and 1 in (frame.shape[0], frame.shape[2]):
            frame = frame[:, :, 0] if frame.shape[2] == 1 else frame[0]
        if self._dtype is None:
            self._start(frame)
        if frame.dtype != self._dtype or frame.ndim != (2 if self.feature.is_depth else 3):
            raise self._unfit(frame)
        small = subsample(frame)
        if not self.feature.is_depth:
            if small.shape[2] != self._channels:
                raise self._unfit(frame)
            # One count for all channels, each with its own 256 bins.
            places = (small + self._offsets).reshape(-1)
            counts = np.bincount(places, minlength=256 * self._channels)
            self._records.append(counts.astype(self._counts).tobytes())
        elif frame.dtype.kind == "f":
            self._records.append(np.ascontiguousarray(small, np.float32).tobytes())
        else:
            self._records.append(self._millimetres(small))

    def _start(self, frame: npt.NDArray[Any]) -> None:
        kinds = "uif" if self.feature.is_depth else "u"
        if frame.dtype.kind not in kinds or (not self.feature.is_depth and frame.dtype != np.uint8):
            raise self._unfit(frame)
        self._dtype = frame.dtype
        if subsample(frame).size // (1 if self.feature.is_depth else self._channels) > 0xFFFF:
            self._counts = np.dtype(np.uint32)

    def _unfit(self, frame: npt.NDArray[Any]) -> EpisodeError:
        wanted = "depth [H, W] of one dtype" if self.feature.is_depth else f"uint8 [H, W, {self._channels}]"
        return EpisodeError(
            "The picture is not what the camera's statistics expect.",
            where=f"camera {self.feature.name}, frame {self.frames}",
            expected=wanted,
            found=f"{frame.dtype} of shape {frame.shape}",
        )

    def _millimetres(self, small: npt.NDArray[Any]) -> bytes:
        flat = small.reshape(-1)
        if flat.dtype != np.uint16 and (flat.min() < 0 or flat.max() >= _MILLIMETRES):
            raise EpisodeError(
                "A depth picture has values that no millimetre count of 16 bits can hold.",
                where=f"camera {self.feature.name}, frame {self.frames}",
                expected="0 to 65535",
                found=f"{flat.min()} to {flat.max()}",
            )
        counts = np.bincount(flat)
        values = np.flatnonzero(counts)
        return values.astype(np.uint16).tobytes() + counts[values].astype(self._counts).tobytes()

    def finish(self, length: int | None = None) -> FeatureStats:
        """Return the statistics of an episode's pictures.

        Args:
            length: How many frames the episode has; all that were added by default. Fewer than were added takes the
                first ones. The records are given up; another call with the same length gives the same again.

        Returns:
            `min`, `max`, `mean`, `std` and quantiles, float64 [C, 1, 1] from 0 to 1 for colour, [1, 1, 1] in the
            recorded unit for depth; `count`, the number of frames looked at, int64 [1].

        Raises:
            EpisodeError: If fewer frames were added than the episode has.
        """
        length = self.frames if length is None else length
        if self._finished is not None and self._finished[0] == length:
            return dict(self._finished[1])
        if length > self.frames or length <= 0:
            raise EpisodeError(
                "There are fewer pictures than rows.",
                where=f"camera {self.feature.name}",
                expected=f"{length} pictures",
                found=f"{self.frames} pictures",
            )
        picked = sample_indices(length)
        records = self._records.read(picked.tolist())
        if not self.feature.is_depth:
            stats, pixels = self._colour(records)
        elif self._dtype is not None and self._dtype.kind == "f":
            stats, pixels = self._metres(records)
        else:
            stats, pixels = self._whole_depth(records)
        self._records.close()
        self._histogram = PictureHistogram(pixels, len(picked))
        shaped: FeatureStats = {stat: array.reshape(-1, 1, 1) for stat, array in stats.items() if stat != "count"}
        count = np.array([len(picked)], np.int64)
        found = {
            **{stat: shaped[stat] for stat in ("min", "max", "mean", "std")},
            "count": count,
            **{key: shaped[key] for key in QUANTILES},
        }
        self._finished = (length, found)
        return dict(found)

    def discard(self) -> None:
        """Forget all records and remove the file, if there is one."""
        self._records.close()

    def _colour(self, records: Iterator[bytes]) -> tuple[FeatureStats, Sketch | Bins]:
        counts = np.zeros(256 * self._channels, np.int64)
        for record in records:
            counts += np.frombuffer(record, self._counts)
        many = counts.reshape(self._channels, 256)
        stats = value_stats(np.arange(256), many)
        return {stat: array / 255.0 for stat, array in stats.items()}, Bins(0, many)

    def _whole_depth(self, records: Iterator[bytes]) -> tuple[FeatureStats, Sketch | Bins]:
        counts = np.zeros(_MILLIMETRES, np.int64)
        for record in records:
            kinds = len(record) // (2 + self._counts.itemsize)
            values = np.frombuffer(record, np.uint16, kinds)
            counts[values] += np.frombuffer(record, self._counts, kinds, 2 * kinds)
        occurs = np.flatnonzero(counts)
        low, high = int(occurs[0]), int(occurs[-1]) + 1
        return value_stats(np.arange(low, high), counts[low:high]), Bins(low, counts[None, low:high].copy())

    def _metres(self, records: Iterator[bytes]) -> tuple[FeatureStats, Sketch | Bins]:
        plain = Feature(self.feature.name, "float32", (1,))
        sketch = Sketch.empty(1, np.float32)
        parts = []
        for values in _grouped(records):
            sketch = sketch.insert(values[:, None])
            parts.append({plain.name: episode_stats(values, plain)})
        if len(parts) == 1:
            return parts[0][plain.name], sketch
        found = sketch.quantiles(list(QUANTILES.values()))
        whole = merge(parts, {plain.name: dict(zip(QUANTILES, found, strict=True))})
        return whole[plain.name], sketch


def _grouped(records: Iterator[bytes]) -> Iterator[npt.NDArray[np.float32]]:
    """Join float pictures to arrays of some million values, so that memory stays bounded."""
    group: list[npt.NDArray[np.float32]] = []
    size = 0
    for record in records:
        group.append(np.frombuffer(record, np.float32))
        size += len(group[-1])
        if size >= _GROUP:
            yield np.concatenate(group)
            group, size = [], 0
    if group:
        yield np.concatenate(group)


class _Records:
    """Byte strings in the order they came: the last ones in memory, earlier ones in a file when they get too many."""

    def __init__(self, path: Path | None, limit: int) -> None:
        self.memory = 0
        self._path = path
        self._limit: float = limit
        self._count = 0
        self._held: list[bytes] = []
        self._ends = [0]
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return self._count

    def append(self, record: bytes) -> None:
        self._count += 1
        self._held.append(record)
        self.memory += len(record) + _OVERHEAD
        if self.memory > self._limit:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile() if self._path is None else open(self._path, "w+b")  # noqa: SIM115
            self._file.seek(self._ends[-1])
            self._file.write(b"".join(self._held))
            self._file.flush()
        except OSError as error:
            # Statistics are not worth a take: go on in memory.
            self._limit = float("inf")
            warnings.warn(
                f"Picture statistics stay in memory, for they cannot be written to {self._path or 'a temporary file'}:"
                f" {error.strerror}.",
                StatisticsWarning,
                stacklevel=2,
            )
            return
        for record in self._held:
            self._ends.append(self._ends[-1] + len(record))
        self._held = []
        self.memory = 0

    def read(self, numbers: list[int]) -> Iterator[bytes]:
        spilled = len(self._ends) - 1
        for number in numbers:
            if number >= spilled:
                yield self._held[number - spilled]
            elif self._file is not None:
                self._file.seek(self._ends[number])
                yield self._file.read(self._ends[number + 1] - self._ends[number])

    def close(self) -> None:
        """Forget the records; only their number stays known."""
        if self._file is not None:
            self._file.close()
            self._file = None
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        self._held = []
        self._ends = [0]
        self.memory = 0

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()
