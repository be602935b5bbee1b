"""The rows of an open take on the disk: an Arrow stream that grows by a batch several times a second.

A batch is handed to the system in one piece, so a killed process leaves whole batches. After a power cut the end of
the file may be zeros, or half there; every batch therefore carries its number of frames, the number of its first frame
and a checksum of its values, and what cannot prove itself ends the take.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rolltape.format import Feature
from rolltape.store import local
from rolltape.write.columns import number_column, number_values

__all__ = ["ROWS_FILE", "LoggedRows", "Piece", "RowLog", "read_rows"]

ROWS_FILE = "rows.arrow"
_TASK = "task"
_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Piece:
    """Some frames of a take.

    Attributes:
        first: The number of the first of them.
        count: How many there are.
        columns: The number features' values [count, *shape], in the order of the features.
        texts: The text features' values.
        tasks: The tasks.
    """

    first: int
    count: int
    columns: Sequence[_Array]
    texts: Sequence[Sequence[str]]
    tasks: Sequence[str]


class RowLog:
    """Writes the rows of one take.

    Args:
        path: The file.
        columns: The number features.
        texts: The text features.
        schema: The schema of the dataset's data files, for the types of the columns.

    Attributes:
        frames: How many frames are in the file.
    """

    def __init__(self, path: Path, columns: Sequence[Feature], texts: Sequence[Feature], schema: pa.Schema) -> None:
        self.frames = 0
        self._path = path
        self._schema = _schema(columns, texts, schema)
        self._sink = io.BytesIO()
        self._stream = pa.ipc.new_stream(self._sink, self._schema)
        self._head: bytes = self._schema.serialize().to_pybytes()

    def append(self, piece: Piece) -> None:
        """Add the next frames.

        Raises:
            OSError: As the file system gave it; the file is as it was.
        """
        arrays = [number_column(values, self._schema.field(at).type) for at, values in enumerate(piece.columns)]
        arrays += [pa.array(texts, pa.string()) for texts in (*piece.texts, piece.tasks)]
        marks = {
            "first": piece.first,
            "count": piece.count,
            "crc": _checksum(piece.columns, [*piece.texts, piece.tasks]),
        }
        self._sink.seek(0)
        self._sink.truncate()
        self._stream.write_batch(
            pa.RecordBatch.from_arrays(arrays, schema=self._schema),
            custom_metadata={name: str(value) for name, value in marks.items()},
        )
        data = self._sink.getvalue()
        if not self.frames:
            data = data if data.startswith(self._head) else self._head + data
        elif data.startswith(self._head):
            data = data[len(self._head) :]
        local.append_file(self._path, data)
        self.frames += piece.count


def _schema(columns: Sequence[Feature], texts: Sequence[Feature], schema: pa.Schema) -> pa.Schema:
    fields = [pa.field(feature.name, schema.field(feature.name).type) for feature in columns]
    fields += [pa.field(feature.name, pa.string()) for feature in texts]
    return pa.schema([*fields, pa.field(_TASK, pa.string())])


def _checksum(columns: Sequence[_Array], texts: Sequence[Sequence[str]]) -> int:
    """CRC-32 of the values, whatever their layout in the file."""
    crc = 0
    for values in columns:
        crc = zlib.crc32(values.tobytes(), crc)
    for column in texts:
        encoded = [text.encode("utf-8", "surrogatepass") for text in column]
        crc = zlib.crc32(np.array([len(text) for text in encoded], "<i8").tobytes(), crc)
        crc = zlib.crc32(b"".join(encoded), crc)
    return crc


@dataclass
class LoggedRows:
    """The rows that could be read of a take.

    Attributes:
        frames: How many there are.
        columns: The number features' values [frames, *shape] by name.
        texts: The text features' values by name.
        tasks: The task of each frame.
        tail: Why the reading ended before the end of the file, or None.
    """

    frames: int = 0
    columns: dict[str, _Array] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)
    tail: str | None = None


def read_rows(path: Path, columns: Sequence[Feature], texts: Sequence[Feature], schema: pa.Schema) -> LoggedRows:
    """Return the rows of a take, up to the first batch that is not whole.

    Args:
        path: The file; one that is missing holds no rows.
        columns: See `RowLog`.
        texts: See `RowLog`.
        schema: See `RowLog`.
    """
    wanted = _schema(columns, texts, schema)
    pieces: list[Piece] = []
    tail = None
    try:
        reader = pa.ipc.open_stream(pa.py_buffer(path.read_bytes()))
        if not reader.schema.equals(wanted):
            raise ValueError("the columns are not those of the dataset")
        while True:
            batch, marks = reader.read_next_batch_with_custom_metadata()
            pieces.append(_checked(batch, marks, columns, sum(piece.count for piece in pieces)))
    except (StopIteration, FileNotFoundError):
        pass
    except (pa.ArrowException, ValueError, TypeError, KeyError, OSError, OverflowError, MemoryError) as error:
        tail = " ".join(f"{type(error).__name__}: {error}".split())
    return _joined(pieces, columns, texts, tail)


def _checked(batch: pa.RecordBatch, marks: Mapping[bytes, bytes] | None, columns: Sequence[Feature], at: int) -> Piece:
    if marks is None:
        raise ValueError("a batch has no marks")
    first, count, crc = (int(marks[name]) for name in (b"first", b"count", b"crc"))
    batch.validate(full=True)
    if (first, count) != (at, batch.num_rows) or count == 0 or any(column.null_count for column in batch.columns):
        raise ValueError(f"a batch of frames {first} to {first + count} stands where frame {at} belongs")
    values = [number_values(column, feature) for column, feature in zip(batch.columns, columns, strict=False)]
    texts = [column.to_pylist() for column in batch.columns[len(columns) :]]
    if _checksum(values, texts) != crc:
        raise ValueError(f"the checksum of frames {first} to {first + count} is wrong")
    return Piece(first, count, values, texts[:-1], texts[-1])


def _joined(
    pieces: Sequence[Piece], columns: Sequence[Feature], texts: Sequence[Feature], tail: str | None
) -> LoggedRows:
    if not pieces:
        return LoggedRows(tail=tail)
    return LoggedRows(
        frames=sum(piece.count for piece in pieces),
        columns={
            feature.name: np.concatenate([piece.columns[at] for piece in pieces]) for at, feature in enumerate(columns)
        },
        texts={
            feature.name: [text for piece in pieces for text in piece.texts[at]] for at, feature in enumerate(texts)
        },
        tasks=[task for piece in pieces for task in piece.tasks],
        tail=tail,
    )
