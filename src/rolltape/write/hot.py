"""Hot files: the last data file and the last file of episode rows are written anew by each commit until they are full.

So there are few files, none of them is ever half written, and a commit costs the same whether it is the tenth or the
ten thousandth. What has been full once is never written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.format.paths import FileNumber, following

__all__ = ["DATA_CAP", "ROWS_CAP", "Cap", "Filled", "HotFile", "parquet_bytes"]

ROWS_PER_GROUP = 1000


@dataclass(frozen=True)
class Cap:
    """When a hot file is full: at this many bytes, or this many episodes, whichever comes first."""

    nbytes: int
    episodes: int


DATA_CAP = Cap(512 << 10, 16)
ROWS_CAP = Cap(512 << 10, 64)


@dataclass(frozen=True)
class HotFile:
    """The file that the next commit starts from.

    Attributes:
        number: Its (chunk, file) number.
        parts: Its content: of a data file one table for each episode, of episode rows one table. Empty: the number is
            free.
    """

    number: FileNumber
    parts: tuple[pa.Table, ...] = ()


@dataclass(frozen=True)
class Filled:
    """One file that a commit writes.

    Attributes:
        number: Its (chunk, file) number.
        parts: All its episodes, those that it held before first.
        fresh: How many of them are new.
    """

    number: FileNumber
    parts: tuple[pa.Table, ...]
    fresh: int


def fill(hot: HotFile, parts: Sequence[pa.Table], limit: float, chunks_size: int) -> list[Filled]:
    """Return the files for a hot file's episodes and some more, each within `limit` bytes but for single large ones.

    Sizes are those of the Arrow tables, which the files on disk hardly ever exceed.
    """
    files: list[Filled] = []
    number, kept, fresh = hot.number, list(hot.parts), 0
    size = sum(part.nbytes for part in kept)
    for part in parts:
        if kept and size + part.nbytes > limit:
            if fresh:
                files.append(Filled(number, tuple(kept), fresh))
            number, kept, fresh, size = following(number, chunks_size), [], 0, 0
        kept.append(part)
        fresh += 1
        size += part.nbytes
    if fresh:
        files.append(Filled(number, tuple(kept), fresh))
    return files


def after(written: HotFile, episodes: int, nbytes: int, cap: Cap, chunks_size: int) -> HotFile:
    """Return the hot file that follows a commit which wrote `written`, with so many episodes and bytes."""
    full = nbytes >= cap.nbytes or episodes >= cap.episodes
    return HotFile(following(written.number, chunks_size)) if full else written


def parquet_bytes(schema: pa.Schema, groups: Iterable[pa.Table], **options: Any) -> pa.Buffer:
    """Return a Parquet file with one row group for each table, snappy, without dictionaries for numbers."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="snappy", **options) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=max(1, group.num_rows))
    return sink.getvalue()


def row_groups(table: pa.Table) -> list[pa.Table]:
    """Return a table of episode rows in groups of about a thousand."""
    return [table.slice(start, ROWS_PER_GROUP) for start in range(0, table.num_rows, ROWS_PER_GROUP)]
