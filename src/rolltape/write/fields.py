"""A new per-episode field in a dataset that has episodes already."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.format import RECOVERED_MARK, field_type
from rolltape.format.paths import EPISODES_FOLDER, numbered_files
from rolltape.write.change import Change
from rolltape.write.commit import rows_bytes
from rolltape.write.hot import HotFile
from rolltape.write.state import State

__all__ = ["add_field"]


def add_field(root: Path, state: State, name: str, dtype: str, *, durable: bool = True) -> tuple[State, int]:
    """Give every file of episode rows one more column, null in all rows.

    The files are replaced in ascending order, for the reference opens a dataset whose first files have a column that
    later ones lack, but not the other way round.

    Returns:
        The new state, and how many bytes were written.

    Raises:
        FormatError: If the name is taken by the format, or the type is unknown.
        OSError: If a file cannot be written. All are as they were.
    """
    kind = field_type(name, dtype)
    change = Change(root, "field", durable=durable)
    try:
        for _, path in numbered_files(root / EPISODES_FOLDER, ".parquet"):
            with pq.ParquetFile(path) as file:
                table = _with_column(file.read(), name, kind)
            change.add_bytes(path.relative_to(root).as_posix(), rows_bytes(table))
        if change.written:
            change.apply()
    except BaseException:
        change.discard()
        raise
    schema = _with_column(state.row_schema.empty_table(), name, kind).schema
    parts = tuple(_with_column(part, name, kind) for part in state.rows.parts)
    grown = state.replace(
        fields={**state.fields, name: dtype}, row_schema=schema, rows=HotFile(state.rows.number, parts)
    )
    return grown, change.written


def _with_column(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    if name in table.column_names:
        return table
    at = table.schema.get_field_index(RECOVERED_MARK)
    nulls = pa.nulls(table.num_rows, kind)
    return table.append_column(name, nulls) if at < 0 else table.add_column(at, name, nulls)
