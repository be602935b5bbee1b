"""Columns of the data table: from a take's arrays to Arrow arrays of the schema's types, without a loop over rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rolltape.format import Feature

__all__ = ["data_table", "number_column", "number_values", "picture_column"]


def number_column(values: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    """Return numbers of shape [n, *shape] as a column: a plain one, a fixed-size list, or nested lists.

    Example:
        >>> number_column(np.zeros((3, 2), np.float32), pa.list_(pa.float32(), 2)).type
        FixedSizeListType(fixed_size_list<item: float>[2])
    """
    kinds: list[pa.DataType] = []
    inner = kind
    while pa.types.is_list(inner) or pa.types.is_fixed_size_list(inner):
        kinds.append(inner)
        inner = inner.value_type
    array = pa.array(np.ascontiguousarray(values).reshape(-1), inner)
    rows, sizes = len(values), values.shape[1:]
    for depth in range(len(kinds), 0, -1):
        size = sizes[depth - 1]
        lists = rows * math.prod(sizes[: depth - 1])
        if pa.types.is_fixed_size_list(kinds[depth - 1]) and size > 0:
            array = pa.FixedSizeListArray.from_arrays(array, type=kinds[depth - 1])
        elif pa.types.is_fixed_size_list(kinds[depth - 1]):
            array = pa.array([[]] * lists, kinds[depth - 1])
        else:
            offsets = pa.array(np.arange(lists + 1, dtype=np.int32) * size)
            array = pa.ListArray.from_arrays(offsets, array, type=kinds[depth - 1])
    return array


def number_values(column: pa.Array | pa.ChunkedArray, feature: Feature) -> np.ndarray[Any, Any]:
    """Return a number column, plain or of lists, as an array [n, *shape]: what `number_column` was made of."""
    rows = len(column)
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    while pa.types.is_nested(array.type):
        array = array.flatten()
    values: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=False)
    return values.astype(feature.numpy_dtype, copy=False).reshape(rows, *feature.shape)


def picture_column(pictures: Sequence[bytes], suffix: str, kind: pa.DataType) -> pa.Array:
    """Return encoded pictures as a column of bytes and of the file names the reference gives them."""
    names = [f"frame-{number:06d}.{suffix}" for number in range(len(pictures))]
    return pa.StructArray.from_arrays(
        [pa.array(pictures, pa.binary()), pa.array(names, pa.string())], fields=list(kind)
    )


def data_table(
    schema: pa.Schema,
    features: Mapping[str, Feature],
    values: Mapping[str, Any],
    rows: int,
) -> pa.Table:
    """Return the table of one episode's frames.

    Args:
        schema: The schema of the data files.
        features: All features of the dataset.
        values: Arrays [n, *shape] of the numbers, texts, and encoded pictures. Language columns are empty lists.
        rows: How many frames the episode has.
    """
    arrays = []
    for field in schema:
        feature = features[field.name]
        if feature.is_language:
            arrays.append(pa.array([[]] * rows, field.type))
        elif feature.is_image:
            arrays.append(picture_column(values[field.name], "tiff" if feature.is_depth else "png", field.type))
        elif feature.is_string:
            arrays.append(pa.array(values[field.name], field.type))
        else:
            arrays.append(number_column(np.asarray(values[field.name]), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
