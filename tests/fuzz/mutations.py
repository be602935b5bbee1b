"""Damage, from a seed: of bytes, of JSON documents, of Parquet tables."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["damaged_bytes", "damaged_json", "damaged_table", "mutated"]

_WILD_NUMBERS = (0, 1, -1, 2, 7, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 2**64, 10**30, 1e308, 0.5)
_WILD_TEXTS = (
    "",
    "x",
    "../../outside",
    "/etc/passwd",
    "a" * 5000,
    "\0",
    "\ud800",
    "{chunk_index}",
    "{0.__class__}",
    "ä",
)
_WILD: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    float("nan"),
    float("inf"),
    *_WILD_NUMBERS,
    *_WILD_TEXTS,
)


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes with a few bits flipped, pieces zeroed, cut, doubled or moved, or numbers gone wild."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not found:
            break
        at = rng.randrange(len(found))
        length = rng.choice((1, 2, 4, 8, 64, len(found) // 3 + 1))
        match rng.randrange(7):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + length] = bytes(len(found[at : at + length]))
            case 2:
                del found[at:]
            case 3:
                del found[at : at + length]
            case 4:
                found[at:at] = found[at : at + length]
            case 5:
                found[at : at + 4] = struct.pack(rng.choice("<>") + "I", rng.choice((0, 1, 2**31, 2**32 - 1, 1 << 24)))
            case 6:
                found[at : at + length] = rng.randbytes(length)
    return bytes(found)


def damaged_json(data: bytes, rng: random.Random) -> bytes:
    """Return a JSON document with a few values replaced by wild ones, keys removed, renamed or doubled."""
    document = json.loads(data)
    for _ in range(rng.randint(1, 3)):
        holder, key = _place(document, rng)
        if holder is None:
            document = copy.deepcopy(rng.choice(_WILD))
            break
        match rng.randrange(5):
            case 0 | 1:
                holder[key] = copy.deepcopy(rng.choice(_WILD))
            case 2:
                del holder[key]
            case 3:
                if isinstance(holder, dict):
                    holder[rng.choice(_WILD_TEXTS) or "x"] = holder.pop(key)
                else:
                    holder.append(copy.deepcopy(holder[key]))
            case 4:
                other, name = _place(document, rng)
                if other is not None:
                    holder[key] = copy.deepcopy(other[name])
    return json.dumps(document).encode()


def _place(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """Return a random place in a document: what holds it and its key, or None where there is none."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in list(items):
            places.append((value, key))
            walk(inner)

    walk(document)
    return rng.choice(places) if places else (None, None)


_TYPES = (pa.int8(), pa.int32(), pa.float32(), pa.float64(), pa.string(), pa.list_(pa.int64()), pa.bool_(), pa.null())


def damaged_table(data: bytes, rng: random.Random) -> bytes:
    """Return a Parquet file with a few cells, columns or rows changed."""
    table = pq.ParquetFile(io.BytesIO(data)).read()
    for _ in range(rng.randint(1, 3)):
        if not table.num_columns:
            break
        at = rng.randrange(table.num_columns)
        name = table.schema.names[at]
        match rng.randrange(8):
            case 0 | 1 | 2:
                table = _with_wild_cell(table, at, rng)
            case 3:
                table = table.drop_columns([name])
            case 4:
                table = table.append_column(name, table.column(at))
            case 5:
                table = pa.concat_tables([table, table.slice(rng.randrange(max(1, table.num_rows)), 1)])
            case 6:
                table = table.slice(rng.randrange(max(1, table.num_rows)))
            case 7:
                table = table.set_column(at, name, pa.nulls(table.num_rows, rng.choice(_TYPES)))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _with_wild_cell(table: pa.Table, at: int, rng: random.Random) -> pa.Table:
    values = table.column(at).to_pylist()
    if not values:
        return table
    row, name = rng.randrange(len(values)), table.schema.names[at]
    for wild in rng.sample(_WILD, len(_WILD)):
        try:
            values[row] = wild
            return table.set_column(at, name, pa.array(values, table.schema.field(at).type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
    return table


def mutated(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return a file's content damaged in a way that fits its kind, or any."""
    if rng.random() < 0.3:
        return damaged_bytes(data, rng)
    if name.endswith(".json"):
        return damaged_json(data, rng)
    if name.endswith(".parquet"):
        try:
            return damaged_table(data, rng)
        except (pa.ArrowException, KeyError, OSError, ValueError):
            return damaged_bytes(data, rng)  # it is too odd already to be written as a table
    return damaged_bytes(data, rng)
