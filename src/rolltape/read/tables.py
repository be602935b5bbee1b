"""The rows of the frames: columns as arrays, addressed through the episodes table and never by the order of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.errors import FormatError
from rolltape.format.paths import by_file, data_file
from rolltape.format.schema import column_type
from rolltape.read.columns import Column, NumberColumn, convert, join
from rolltape.read.metadata import Metadata
from rolltape.read.parquet import check_parquet, open_parquet, reading
from rolltape.read.threads import Lock

__all__ = ["DataFile", "FrameTable", "Rows"]

Int64s = npt.NDArray[np.int64]

_IDENTITY = ("episode_index", "frame_index", "index")


@dataclass(frozen=True)
class Rows:
    """Which rows of a file are wanted.

    Attributes:
        groups: The row groups to read, or None for all.
        take: Rows to keep of what was read, in this order, or None for all as they are.
        origin: The row number in the file of each row kept, or None where it is 0, 1, 2, ...
    """

    groups: list[int] | None = None
    take: Int64s | None = None
    origin: Int64s | None = None


@dataclass(frozen=True)
class DataFile:
    """One data file and the episodes that are wanted from it.

    Attributes:
        path: Relative path.
        places: Positions of the episodes in the episodes table, ascending.
        start: The first position in the `FrameTable` of the file's rows.
        count: How many rows they are.
    """

    path: str
    places: Int64s
    start: int
    count: int


class FrameTable:
    """The rows of some episodes as columns, each loaded when it is first asked for.

    A frame is addressed as `starts[place of its episode] + frame`, whatever order the files and the rows in them have:
    an episode's rows are those with its `episode_index` in the file that the episodes table names.

    Args:
        meta: The dataset's description.
        places: Positions in `meta.episodes` of the episodes to hold, ascending.

    Attributes:
        starts: int64, for each episode of `meta.episodes` the position of its first frame, -1 where it is not held.
        files: The data files that hold them.
    """

    def __init__(self, meta: Metadata, places: Int64s) -> None:
        self.meta = meta
        self.places = places
        self.starts = np.full(len(meta.episodes), -1, np.int64)
        self.files: list[DataFile] = []
        self._columns: dict[str, Column] = {}
        self._rows: dict[str, Rows] = {}
        self._lock = Lock()
        self._lay_out()

    def __getstate__(self) -> dict[str, object]:
        return {"meta": self.meta, "places": self.places}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state["meta"], state["places"])  # type: ignore[misc]  # columns are loaded again where needed

    def __len__(self) -> int:
        return int(self.meta.episodes.length[self.places].sum())

    def _lay_out(self) -> None:
        episodes = self.meta.episodes
        start = 0
        for number, part in by_file(episodes.data_chunk[self.places], episodes.data_file[self.places]):
            places = self.places[part]
            lengths = episodes.length[places]
            ends = np.cumsum(lengths)
            self.starts[places] = start + ends - lengths
            path = data_file(self.meta.info, *number)
            self.files.append(DataFile(path, places, start, int(ends[-1])))
            start += int(ends[-1])

    def check(self) -> None:
        """Look at the first and last bytes of every data file.

        Raises:
            DamagedFileError: A file is missing, empty, cut off, or a Git LFS pointer.
        """
        for file in self.files:
            check_parquet(self.meta.root, file.path, self.numbers(file))

    def numbers(self, file: DataFile) -> list[int]:
        """Return the numbers of a file's episodes."""
        return [int(one) for one in self.meta.episodes.index[file.places]]

    def column(self, name: str) -> Column:
        """Return one column. Pictures have none here, see `images`."""
        if name not in self._columns:
            self.load([name])
        return self._columns[name]

    def values(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers as an array, read-only."""
        column = self.column(name)
        assert isinstance(column, NumberColumn), name
        return column.values

    def load(self, names: list[str]) -> None:
        """Load columns that are not there yet, all of them in one pass over the files.

        Raises:
            DamagedFileError: A file cannot be read.
            FormatError: A column is missing or does not fit its declaration, or the rows contradict the episodes table.
        """
        with self._lock:
            wanted = [name for name in dict.fromkeys(names) if name not in self._columns]
            if not wanted:
                return
            parts: dict[str, list[Column]] = {name: [] for name in wanted}
            for file in self.files:
                with self.open(file) as opened:
                    rows = self._rows_of(file, opened)
                    table = self._read(file, opened, wanted, rows)
                for name in wanted:
                    feature = self.meta.features[name]
                    parts[name].append(convert(feature, table.column(name), file.path, rows.take))
            for name in wanted:
                feature = self.meta.features[name]
                empty = pa.chunked_array([], column_type(feature))
                self._columns[name] = join(parts[name]) if parts[name] else convert(feature, empty, "no file")

    def open(self, file: DataFile) -> pq.ParquetFile:
        """Return an open data file."""
        return open_parquet(self.meta.root, file.path, self.numbers(file))

    def rows_of(self, file: DataFile) -> Rows:
        """Return which rows of a file are wanted."""
        if file.path not in self._rows:
            with self._lock, self.open(file) as opened:
                self._rows_of(file, opened)
        return self._rows[file.path]

    def _rows_of(self, file: DataFile, opened: pq.ParquetFile) -> Rows:
        if file.path not in self._rows:
            self._rows[file.path] = locate(self, file, opened)
        return self._rows[file.path]

    def _read(self, file: DataFile, opened: pq.ParquetFile, names: list[str], rows: Rows) -> pa.Table:
        present = set(opened.schema_arrow.names)
        for name in names:
            if name not in present:
                raise FormatError(
                    "A declared feature has no column.",
                    where=f"{file.path}, feature {name}",
                    expected=f"{self.meta.features[name].dtype}{list(self.meta.features[name].shape)}",
                    found=f"columns {', '.join(sorted(present))}",
                    fix="Remove the feature from meta/info.json, or open with columns= without it.",
                )

        def read() -> pa.Table:
            if rows.groups is None:
                return opened.read(columns=names)
            return opened.read_row_groups(rows.groups, columns=names)

        return reading(read, self.meta.root, file.path, self.numbers(file))


def locate(table: FrameTable, file: DataFile, opened: pq.ParquetFile) -> Rows:
    """Find the wanted episodes' rows in a file by its identity columns.

    Raises:
        FormatError: A column is missing, or an episode has another number of rows than its length says.
    """
    episodes = table.meta.episodes
    present = set(opened.schema_arrow.names)
    names = [name for name in _IDENTITY if name in present]
    if "episode_index" not in names:
        raise FormatError("A data file lacks a column.", where=file.path, expected="episode_index")
    found = reading(lambda: opened.read(columns=names), table.meta.root, file.path, table.numbers(file))
    of_row = _int64(found, "episode_index", file.path)
    wanted, lengths = episodes.index[file.places], episodes.length[file.places]
    # The usual case: nothing but the wanted episodes, in their order.
    whole = len(of_row) == file.count and np.array_equal(of_row, np.repeat(wanted, lengths))
    frames = _int64(found, "frame_index", file.path) if "frame_index" in names else None
    ordered = frames is None or _ascends(frames, of_row)
    if whole and ordered:
        return Rows()
    rows = _search(table, file, of_row, found)
    if frames is not None and not _ascends(frames[rows], of_row[rows]):
        rows = rows[np.lexsort((frames[rows], np.repeat(np.arange(len(lengths)), lengths)))]
    return _narrow(rows, opened)


def _int64(table: pa.Table, name: str, where: str) -> Int64s:
    column = table.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise FormatError(f"{name} is not a column of whole numbers.", where=where, found=str(column.type))
    return np.asarray(column.to_numpy(), np.int64)


def _ascends(frames: Int64s, of_row: Int64s) -> bool:
    """Return whether frame_index grows from row to row inside each episode; edges between episodes do not count."""
    return bool(np.all((frames[1:] > frames[:-1]) | (of_row[1:] != of_row[:-1])))


def _search(table: FrameTable, file: DataFile, of_row: Int64s, found: pa.Table) -> Int64s:
    """Return the rows of the wanted episodes, one after the other, in the order of the file."""
    episodes = table.meta.episodes
    wanted, lengths = episodes.index[file.places], episodes.length[file.places]
    order = np.argsort(of_row, kind="stable")
    grouped = of_row[order]
    begin, end = np.searchsorted(grouped, wanted, "left"), np.searchsorted(grouped, wanted, "right")
    counts = end - begin
    odd = np.flatnonzero(counts != lengths)
    if not len(odd):
        return order[np.repeat(begin - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))]
    parts = [order[a:b] for a, b in zip(begin, end, strict=True)]
    index = _int64(found, "index", file.path) if "index" in found.column_names else None
    for k in odd:
        # Rows of an abandoned take can carry the same episode number: the global range tells which rows are meant.
        place = file.places[k]
        low, high = int(episodes.from_index[place]), int(episodes.to_index[place])
        rows = parts[k]
        if index is not None:
            # That holds only for rows elsewhere: rows that go on where the range ends say that the range is wrong.
            stale = np.isin(index[rows], (low - 1, high)).any()
            rows = rows if stale else rows[(index[rows] >= low) & (index[rows] < high)]
        if len(rows) != lengths[k]:
            raise _disagreement(file, int(wanted[k]), int(lengths[k]), (low, high), parts[k], index)
        parts[k] = rows
    return np.concatenate(parts)


def _disagreement(
    file: DataFile, episode: int, length: int, stated: tuple[int, int], rows: Int64s, index: Int64s | None
) -> FormatError:
    actual = f"{len(rows)} rows"
    if index is not None and len(rows):
        actual += f", index {index[rows].min()}..{index[rows].max() + 1}"
    return FormatError(
        f"The episodes table and the rows of episode {episode} disagree.",
        where=file.path,
        expected=f"{length} rows, index {stated[0]}..{stated[1]}, as the episodes table says",
        found=actual,
        fix="Run `rolltape check` on the dataset; the other episodes can be opened with episodes=.",
    )


def _narrow(rows: Int64s, opened: pq.ParquetFile) -> Rows:
    """Return the rows with the row groups that hold them, so that nothing else is read."""
    footer = opened.metadata
    sizes = np.array([footer.row_group(k).num_rows for k in range(footer.num_row_groups)], np.int64)
    ends = np.cumsum(sizes)
    used = np.zeros(len(sizes), np.bool_)
    used[np.searchsorted(ends, rows, "right")] = True
    if used.all():
        return Rows(take=rows, origin=rows)
    removed = np.cumsum(np.where(used, 0, sizes))
    take = rows - removed[np.searchsorted(ends, rows, "right")]
    kept = int(sizes[used].sum())
    groups = [int(k) for k in np.flatnonzero(used)]
    same = kept == len(take) and bool(np.array_equal(take, np.arange(kept)))
    return Rows(groups, None if same else take, rows)
