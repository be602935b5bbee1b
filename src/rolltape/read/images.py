"""Encoded pictures in the data tables: read by row group when they are needed, kept up to a budget."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rolltape.errors import FormatError, NoFootageError
from rolltape.read.parquet import reading
from rolltape.read.tables import DataFile, FrameTable
from rolltape.read.threads import Lock

__all__ = ["ImageColumn"]

Int64s = npt.NDArray[np.int64]


class ImageColumn:
    """The PNG or TIFF bytes of one camera.

    Args:
        table: The rows of the frames.
        name: The camera.
        memory: Bytes to keep.
    """

    def __init__(self, table: FrameTable, name: str, memory: int = 1 << 30) -> None:
        self.table = table
        self.name = name
        self.memory = memory
        self._starts = np.array([file.start for file in table.files], np.int64)
        self._group_ends: dict[int, Int64s] = {}
        self._kept: OrderedDict[tuple[int, int], pa.Array] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def read(self, positions: Int64s) -> list[bytes]:
        """Return the encoded bytes at ascending positions of the frame table.

        Raises:
            NoFootageError: A row has no picture.
            DamagedFileError: A file cannot be read.
        """
        found: list[bytes] = []
        files = np.searchsorted(self._starts, positions, "right") - 1
        for number in np.unique(files).tolist():
            file = self.table.files[number]
            rows = positions[files == number] - file.start
            origin = self.table.rows_of(file).origin
            found += self._of_file(number, file, rows if origin is None else origin[rows])
        return found

    def _of_file(self, number: int, file: DataFile, rows: Int64s) -> list[bytes]:
        with self._lock:
            ends = self._ends(number, file)
            groups = np.searchsorted(ends, rows, "right")
            missing = [group for group in np.unique(groups).tolist() if (number, group) not in self._kept]
            fresh = self._load(number, file, missing) if missing else {}
            found: list[bytes] = []
            for row, group in zip(rows.tolist(), groups.tolist(), strict=True):
                key = (number, group)
                array = fresh.get(key)
                if array is None:
                    array = self._kept[key]
                    self._kept.move_to_end(key)
                value = array[row - (int(ends[group - 1]) if group else 0)].as_py()
                if value is None:
                    raise NoFootageError(
                        f"A row has no picture of camera {self.name}.", where=f"{file.path}, row {row}", found="null"
                    )
                found.append(value)
            self._trim()
            return found

    def _ends(self, number: int, file: DataFile) -> Int64s:
        if number not in self._group_ends:
            with self.table.open(file) as opened:
                footer = opened.metadata
                sizes = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
            self._group_ends[number] = np.cumsum(np.array(sizes, np.int64))
        return self._group_ends[number]

    def _load(self, number: int, file: DataFile, groups: list[int]) -> dict[tuple[int, int], pa.Array]:
        loaded = {}
        with self.table.open(file) as opened:
            if self.name not in opened.schema_arrow.names:
                raise FormatError("A declared camera has no column.", where=f"{file.path}, feature {self.name}")
            for group in groups:
                table = reading(
                    lambda group=group: opened.read_row_group(group, columns=[self.name]),  # type: ignore[misc]
                    self.table.meta.root,
                    file.path,
                    self.table.numbers(file),
                )
                array = self._bytes(table.column(self.name), file)
                loaded[(number, group)] = array
                self._kept[(number, group)] = array
                self._size += array.nbytes
        return loaded

    def _bytes(self, column: pa.ChunkedArray, file: DataFile) -> pa.Array:
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0)
        if pa.types.is_struct(array.type) and array.type.get_field_index("bytes") >= 0:
            return (
                array.field("bytes") if not array.null_count else array.flatten()[array.type.get_field_index("bytes")]
            )
        if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
            return array
        raise FormatError(
            "The column does not hold pictures.",
            where=f"{file.path}, feature {self.name}",
            expected="struct with bytes",
            found=str(array.type),
        )

    def _trim(self) -> None:
        while self._size > self.memory and len(self._kept) > 1:
            _, array = self._kept.popitem(last=False)
            self._size -= array.nbytes
