"""The episodes table as columns: the only authority on which frames exist and where they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rolltape.errors import FormatError, UnknownFeatureError
from rolltape.format.paths import EPISODES_FOLDER

__all__ = ["Episodes", "VideoColumns"]

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_WHERE = EPISODES_FOLDER
_KNOWN = frozenset(
    (
        "episode_index",
        "tasks",
        "length",
        "data/chunk_index",
        "data/file_index",
        "dataset_from_index",
        "dataset_to_index",
    )
)
_OWN_PREFIXES = ("videos/", "stats/", "meta/", "data/", "rolltape/")


@dataclass(frozen=True)
class VideoColumns:
    """Where one camera's pictures are, one entry for each episode in the order of `Episodes.index`.

    Attributes:
        chunk: Chunk number of the video file, int64 (0 where there is no footage).
        file: File number of the video file, int64.
        from_timestamp: Start of the episode inside the file, seconds, float64.
        to_timestamp: End of the episode inside the file, seconds, float64.
        valid: Whether the episode has footage of this camera, bool.
    """

    chunk: Int64s
    file: Int64s
    from_timestamp: Float64s
    to_timestamp: Float64s
    valid: Bools


class Episodes:
    """All episodes, sorted by episode_index, as numpy columns.

    Attributes:
        table: The Arrow table of all columns that were read (no statistics), in the same order.
        index: The episode numbers, int64 ascending.
        length: Frames of each episode.
        from_index: Global number of each episode's first frame.
        to_index: Global number after each episode's last frame.
        data_chunk: Chunk number of the data file with the episode's rows.
        data_file: File number of it.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.index = _integers(table, "episode_index")
        self.length = _integers(table, "length")
        self.from_index = _integers(table, "dataset_from_index")
        self.to_index = _integers(table, "dataset_to_index")
        self.data_chunk = _integers(table, "data/chunk_index")
        self.data_file = _integers(table, "data/file_index")
        self._videos: dict[str, VideoColumns] = {}

    def __len__(self) -> int:
        return len(self.index)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["table"])  # type: ignore[misc]  # rebuilt from the one thing that is pickled

    @cached_property
    def is_dense(self) -> bool:
        """Whether the episodes are numbered 0, 1, 2, ... without a gap."""
        return bool(np.array_equal(self.index, np.arange(len(self.index))))

    def places(self, episodes: npt.ArrayLike) -> Int64s:
        """Return the positions in this table of some episode numbers, -1 for those it does not hold."""
        wanted = np.asarray(episodes, np.int64)
        if not len(self.index):
            return np.full(wanted.shape, -1, np.int64)
        found = np.minimum(np.searchsorted(self.index, wanted), len(self.index) - 1)
        return np.where(self.index[found] == wanted, found, -1)

    def video(self, key: str) -> VideoColumns:
        """Return where the pictures of a camera are.

        Raises:
            FormatError: If the table has no columns for this camera.
        """
        if key not in self._videos:
            self._videos[key] = _video_columns(self.table, key)
        return self._videos[key]

    @cached_property
    def tasks(self) -> list[list[str]]:
        """The task texts of each episode."""
        if "tasks" not in self.table.column_names:
            return [[] for _ in range(len(self))]
        return [list(texts or []) for texts in self.table.column("tasks").to_pylist()]

    @property
    def field_names(self) -> list[str]:
        """The names of the user's per-episode fields."""
        return [name for name in self.table.column_names if name not in _KNOWN and not name.startswith(_OWN_PREFIXES)]

    def field(self, name: str) -> pa.ChunkedArray:
        """Return one per-episode field as an Arrow column.

        Raises:
            UnknownFeatureError: If there is no such field.
        """
        if name not in self.table.column_names:
            raise UnknownFeatureError(
                f"There is no episode field {name!r}.", where=_WHERE, expected=", ".join(self.field_names) or "none"
            )
        return self.table.column(name)

    def row(self, place: int) -> dict[str, Any]:
        """Return one row as plain Python values, statistics left out."""
        return dict(self.table.slice(place, 1).to_pylist()[0])

    def take(self, places: npt.ArrayLike) -> Episodes:
        """Return some of the episodes; the positions must ascend."""
        return Episodes(self.table.take(pa.array(np.asarray(places, np.int64))))


def _integers(table: pa.Table, name: str, *, nulls: bool = False) -> Int64s:
    if name not in table.column_names:
        raise FormatError("The episodes table lacks a column.", where=_WHERE, expected=name)
    column = table.column(name)
    if column.null_count and not nulls:
        row = pc.index(column.is_null(), True).as_py()
        raise FormatError(f"{name} of an episode is null.", where=f"{_WHERE}, row {row}", expected="a number")
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column) if nulls else column
        whole = pc.fill_null(pc.round(column), 0)
        if not pc.all(pc.equal(pc.fill_null(column, 0), whole)).as_py() and len(column):
            raise FormatError(f"{name} is not a whole number.", where=_WHERE, found=str(column.type))
        column = whole
    elif not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise FormatError(f"{name} is not a number.", where=_WHERE, found=str(column.type))
    try:
        filled = pc.fill_null(column.cast(pa.int64()), 0)
    except pa.ArrowInvalid as error:  # infinite, or past 64 bits
        raise FormatError(f"{name} is out of range.", where=_WHERE, found=str(error)) from error
    return np.ascontiguousarray(filled.to_numpy(), np.int64)


def _floats(table: pa.Table, name: str) -> Float64s:
    if name not in table.column_names:
        raise FormatError("The episodes table lacks a column.", where=_WHERE, expected=name)
    column = table.column(name)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise FormatError(f"{name} is not a number.", where=_WHERE, found=str(column.type))
    return np.asarray(column.cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy(), np.float64)


def _video_columns(table: pa.Table, key: str) -> VideoColumns:
    names = [f"videos/{key}/{part}" for part in ("chunk_index", "file_index", "from_timestamp", "to_timestamp")]
    missing = [name for name in names[:3] if name not in table.column_names]
    if missing and not table.num_rows:  # a dataset without episodes has no table, or one without columns
        none, no_time = np.zeros(0, np.int64), np.zeros(0, np.float64)
        return VideoColumns(none, none, no_time, no_time, np.zeros(0, np.bool_))
    if missing:
        raise FormatError(
            "The episodes table lacks the columns of a camera.",
            where=f"{_WHERE}, camera {key}",
            expected=", ".join(missing),
            fix="Rebuild the episodes table, or open with cameras=[] to read the tables alone.",
        )
    begin = _floats(table, names[2])
    end = _floats(table, names[3]) if names[3] in table.column_names else np.full(len(begin), np.nan)
    valid = np.isfinite(begin) & _present(table, names[:2])
    return VideoColumns(
        chunk=_integers(table, names[0], nulls=True),
        file=_integers(table, names[1], nulls=True),
        from_timestamp=begin,
        to_timestamp=end,
        valid=valid,
    )


def _present(table: pa.Table, names: Sequence[str]) -> Bools:
    present = np.ones(table.num_rows, np.bool_)
    for name in names:
        column = table.column(name)
        valid = column.is_valid()
        if pa.types.is_floating(column.type):
            valid = pc.and_(valid, pc.invert(pc.is_nan(pc.fill_null(column, 0.0))))
        present &= np.asarray(valid.to_numpy(), np.bool_)
    return present


def listed(numbers: Iterable[int], most: int = 10) -> str:
    """Return some numbers as text, cut after `most` of them."""
    found = [int(one) for one in numbers]
    return ", ".join(str(one) for one in found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
