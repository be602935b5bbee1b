"""Arrow columns as arrays: one conversion for each way a feature may be stored, held against its declaration."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rolltape.errors import FormatError
from rolltape.format.features import Feature

__all__ = ["Column", "LanguageColumn", "NumberColumn", "TextColumn", "convert", "join"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NumberColumn:
    """Numbers, one row a frame.

    Attributes:
        values: Array of [n, *item shape] in the declared dtype, read-only.
    """

    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def one(self, position: int) -> npt.NDArray[Any]:
        """Return a copy of one row."""
        value: npt.NDArray[Any] = self.values[position, ...].copy()
        return value

    def many(self, positions: Int64s) -> npt.NDArray[Any]:
        """Return the rows at `positions`, with the positions' axes in front."""
        return self.values.take(positions, axis=0)

    def arrow(self, positions: Int64s) -> pa.Array:
        """Return the rows as an Arrow array: plain values, or fixed-size lists of them."""
        return _to_arrow(self.many(positions))


@dataclass(frozen=True)
class TextColumn:
    """Texts, each kept once.

    Attributes:
        codes: int32 [n], the number of each row's text.
        texts: The distinct texts.
    """

    codes: npt.NDArray[np.int32]
    texts: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def one(self, position: int) -> str | None:
        """Return one row's text."""
        return self.texts[int(self.codes[position])]

    def many(self, positions: Int64s) -> list[Any]:
        """Return the texts at `positions` as a list; nested where the positions have two axes."""
        if positions.ndim > 1:
            return [self.many(row) for row in positions]
        return [self.texts[code] for code in self.codes.take(positions).tolist()]

    def arrow(self, positions: Int64s) -> pa.Array:
        """Return the rows as an Arrow string array."""
        return pa.array(self.texts, pa.string()).take(pa.array(self.codes.take(positions)))


@dataclass(frozen=True)
class LanguageColumn:
    """Language rows: each frame has a list of mappings.

    Attributes:
        values: The Arrow array as it is stored.
    """

    values: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.values)

    def one(self, position: int) -> list[dict[str, Any]]:
        """Return one frame's list of rows."""
        return _parsed(self.values[position].as_py())

    def many(self, positions: Int64s) -> list[Any]:
        """Return the lists at `positions`; nested where the positions have two axes."""
        if positions.ndim > 1:
            return [self.many(row) for row in positions]
        return [_parsed(rows) for rows in self.values.take(pa.array(positions)).to_pylist()]

    def arrow(self, positions: Int64s) -> pa.Array:
        """Return the rows as an Arrow array."""
        return self.values.take(pa.array(positions)).combine_chunks()


def _parsed(rows: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return language rows with their tool calls as objects; they are stored as JSON texts."""
    found = [dict(row) for row in rows or []]
    for row in found:
        if row.get("tool_calls"):
            row["tool_calls"] = [_call(call) for call in row["tool_calls"]]
    return found


def _call(call: Any) -> Any:
    try:
        return json.loads(call) if isinstance(call, str) else call
    except (ValueError, RecursionError):
        return call  # a text that is no JSON stays what it is


Column = NumberColumn | TextColumn | LanguageColumn


def convert(feature: Feature, column: pa.ChunkedArray, where: str, rows: Int64s | None = None) -> Column:
    """Return a stored column as arrays.

    Args:
        feature: The declaration that the column must fit.
        column: What the file holds.
        where: The file's relative path, for messages.
        rows: Rows to keep, in this order; all by default.

    Raises:
        FormatError: The column does not fit; the message names the feature, the file, the first bad row and both types.
    """
    if feature.is_language:
        return LanguageColumn(column if rows is None else column.take(pa.array(rows)))
    if feature.is_string:
        return _texts(feature, column, where, rows)
    values = _numbers(feature, column, where)
    if rows is not None:
        values = values.take(rows, axis=0)
    values.setflags(write=False)
    return NumberColumn(values)


def join(parts: list[Column]) -> Column:
    """Return the parts of one column, in order, as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, NumberColumn):
        values = np.concatenate([part.values for part in parts])  # type: ignore[union-attr]  # all parts are alike
        values.setflags(write=False)
        return NumberColumn(values)
    if isinstance(first, LanguageColumn):
        chunks = [chunk for part in parts for chunk in part.values.chunks]  # type: ignore[union-attr]  # alike
        return LanguageColumn(pa.chunked_array(chunks))
    numbers: dict[str | None, int] = {}
    codes = []
    for part in parts:
        assert isinstance(part, TextColumn)
        known = np.array([numbers.setdefault(text, len(numbers)) for text in part.texts] or [0], np.int32)
        codes.append(known.take(part.codes))
    return TextColumn(np.concatenate(codes), tuple(numbers))


def _declared(feature: Feature) -> str:
    return f"{feature.dtype}{list(feature.shape)}"


def _misfit(what: str, feature: Feature, column: pa.ChunkedArray, where: str, found: str | None = None) -> FormatError:
    return FormatError(
        what,
        where=f"{where}, feature {feature.name}",
        expected=f"{_declared(feature)}, as info.json declares",
        found=found or f"stored type {column.type}",
        fix="Correct the declaration in meta/info.json or the stored column.",
    )


def _texts(feature: Feature, column: pa.ChunkedArray, where: str, rows: Int64s | None) -> TextColumn:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise _misfit("The column does not hold texts.", feature, column, where)
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    whole = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.unify_dictionaries().chunk(0) if whole.num_chunks else whole.combine_chunks()
    codes = whole.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    if rows is not None:
        codes = codes.take(rows)
    return TextColumn(codes, tuple(whole.dictionary.to_pylist()))


def _numbers(feature: Feature, column: pa.ChunkedArray, where: str) -> npt.NDArray[Any]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    shape = () if feature.shape == (1,) and not _is_list(array.type) else feature.shape
    count = len(array)
    for size in shape:
        array = _open_list(array, size, feature, column, where, count)
    if _is_list(array.type):
        raise _misfit("The column has more axes than declared.", feature, column, where)
    values = _flat(array, feature, column, where, max(1, feature.size))
    return values.reshape((count, *feature.item_shape))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _open_list(
    array: pa.Array, size: int, feature: Feature, column: pa.ChunkedArray, where: str, count: int
) -> pa.Array:
    """Return the items of a list array of which each list has `size` of them."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not _is_list(array.type):
        raise _misfit("The column has fewer axes than declared.", feature, column, where)
    per_row = max(1, len(array) // max(1, count))
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py() // per_row
        raise _misfit(f"Row {row} is null.", feature, column, where, found="null")
    if pa.types.is_fixed_size_list(array.type) and array.type.list_size == size:
        return array.flatten()
    lengths = pc.list_value_length(array)
    wrong = pc.not_equal(lengths, size)
    if pc.any(wrong).as_py():
        at = pc.index(wrong, True).as_py()
        raise _misfit(
            f"Row {at // per_row} has a list of another length.",
            feature,
            column,
            where,
            found=f"{lengths[at].as_py()} values instead of {size}, stored type {column.type}",
        )
    return array.flatten()


def _flat(array: pa.Array, feature: Feature, column: pa.ChunkedArray, where: str, per_row: int) -> npt.NDArray[Any]:
    """Return plain values in the declared dtype."""
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py() // per_row
        raise _misfit(f"Row {row} holds a null.", feature, column, where, found="null")
    kind = array.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numeric and not pa.types.is_null(kind):
        raise _misfit("The column does not hold numbers.", feature, column, where)
    wanted = feature.numpy_dtype
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    if values.dtype == wanted:
        return np.array(values) if array.offset or not values.flags.c_contiguous else values
    with np.errstate(all="ignore"):
        cast = values.astype(wanted)
        same = (cast.astype(values.dtype) == values) | (values != values)
    if not same.all():
        row = int(np.argmin(same)) // per_row
        if wanted.kind != "f" or values.dtype.kind not in "fiu":
            raise _misfit(f"Row {row} does not fit the declared type.", feature, column, where)
        warnings.warn(
            f"{where}, feature {feature.name}: stored as {column.type} but declared {_declared(feature)}; values are "
            f"rounded to the declared type, first in row {row}.",
            RuntimeWarning,
            stacklevel=2,
        )
    return cast


def _to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        if not size:
            return pa.array([[]] * len(values), pa.list_(array.type))
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array
