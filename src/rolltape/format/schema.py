"""Arrow schemas of the two kinds of tables: frames (`data/`) and episodes (`meta/episodes/`).

Source of the format: LeRobotDataset v3.0. The `huggingface` note lets the `datasets` library restore its own types;
nothing here needs it for reading.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rolltape.errors import FormatError
from rolltape.format.features import Feature, is_storable

__all__ = ["FIELD_TYPES", "RECOVERED_MARK", "STAT_NAMES", "column_type", "data_schema", "episode_schema", "field_type"]

STAT_NAMES = ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99")
RECOVERED_MARK = "rolltape/recovered"
"""Our own column of every episodes file: whether the episode was brought back after a crash."""

FIELD_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "float32": pa.float32(),
}
"""The types a user's per-episode field can have."""

_IMAGE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
_PERSISTENT = "language_persistent"


def _language_row(persistent: bool) -> pa.DataType:
    parts = [
        pa.field("role", pa.string(), nullable=False),
        pa.field("content", pa.string()),
        pa.field("style", pa.string()),
        *([pa.field("timestamp", pa.float32(), nullable=False)] if persistent else []),
        pa.field("camera", pa.string()),
        pa.field("tool_calls", pa.list_(pa.string())),
    ]
    return pa.list_(pa.struct(parts))


def column_type(feature: Feature) -> pa.DataType:
    """Return the Arrow type of a feature's column in the data table.

    Raises:
        FormatError: If the feature is a video, which has no column.
    """
    if feature.is_video:
        raise FormatError("A video has no column in the data table.", where=feature.name)
    if feature.is_image:
        return _IMAGE
    if feature.is_language:
        return _language_row(feature.name == _PERSISTENT)
    if feature.is_string:
        value: pa.DataType = pa.string()
    else:
        value = pa.from_numpy_dtype(feature.numpy_dtype)
    if feature.shape == (1,):
        return value
    if len(feature.shape) == 1:
        return pa.list_(value, feature.shape[0])
    for _ in feature.shape:
        value = pa.list_(value)
    return value


def _hub_type(feature: Feature) -> Any:
    if feature.is_image:
        return {"_type": "Image"}
    if feature.is_language:
        texts = {name: {"dtype": "string", "_type": "Value"} for name in ("role", "content", "style")}
        if feature.name == _PERSISTENT:
            texts["timestamp"] = {"dtype": "float32", "_type": "Value"}
        texts["camera"] = {"dtype": "string", "_type": "Value"}
        calls = {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"}
        return {"feature": {**texts, "tool_calls": calls}, "_type": "List"}
    value = {"dtype": feature.dtype, "_type": "Value"}
    if feature.shape == (1,):
        return value
    if len(feature.shape) == 1:
        return {"feature": value, "length": feature.shape[0], "_type": "List"}
    return {"shape": list(feature.shape), "dtype": feature.dtype, "_type": f"Array{len(feature.shape)}D"}


def data_schema(features: Mapping[str, Feature]) -> pa.Schema:
    """Return the schema of a data file: one column for each feature but the videos, in their order.

    Vectors are fixed-size lists, tensors nested lists, pictures a struct of bytes and path.
    """
    columns = [feature for feature in features.values() if not feature.is_video]
    described = {feature.name: _hub_type(feature) for feature in columns}
    fingerprint = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    note = {"info": {"features": described}, "fingerprint": fingerprint}
    fields = []
    for feature in columns:
        mark = None
        if len(feature.shape) > 1 and feature.is_numeric:
            mark = {
                "ARROW:extension:name": f"datasets.features.features.Array{len(feature.shape)}DExtensionType",
                "ARROW:extension:metadata": json.dumps([list(feature.shape), feature.dtype]),
            }
        fields.append(pa.field(feature.name, column_type(feature), metadata=mark))
    return pa.schema(fields, metadata={"huggingface": json.dumps(note)})


def field_type(name: str, dtype: str) -> pa.DataType:
    """Return the Arrow type of a user's per-episode field.

    Raises:
        FormatError: If the type is not one of `FIELD_TYPES`, or the name is taken by the format.
    """
    if not isinstance(name, str) or not name or "/" in name or name in _ROW_COLUMNS or not is_storable(name):
        raise FormatError(
            "The episode field's name cannot be used.", found=repr(name), expected="a free name, no slash"
        )
    if dtype not in FIELD_TYPES:
        raise FormatError(
            f"The type of the episode field {name!r} is unknown.", found=repr(dtype), expected=", ".join(FIELD_TYPES)
        )
    return FIELD_TYPES[dtype]


_ROW_COLUMNS = ("episode_index", "tasks", "length", "dataset_from_index", "dataset_to_index")


def _stat_type(feature: Feature, stat: str) -> pa.DataType:
    if stat == "count":
        return pa.list_(pa.int64())
    value: pa.DataType = pa.list_(pa.float64())
    return pa.list_(pa.list_(value)) if feature.is_camera else value


def has_stats(feature: Feature) -> bool:
    """Return whether statistics are kept for a feature: numbers and pictures, but nothing of zero width."""
    return (feature.is_numeric or feature.is_camera) and feature.size > 0


def episode_schema(features: Mapping[str, Feature], fields: Mapping[str, str] | None = None) -> pa.Schema:
    """Return the schema of a file of episode rows: the format's columns, the user's fields, and our mark.

    The columns are fixed when the dataset is created, for the reference refuses to open a dataset whose later files
    have a column that earlier ones lack.

    Args:
        features: All features of the dataset.
        fields: The user's per-episode fields, name to type.
    """
    i64, f64 = pa.int64(), pa.float64()
    columns = [
        pa.field("episode_index", i64),
        pa.field("tasks", pa.list_(pa.string())),
        pa.field("length", i64),
        pa.field("data/chunk_index", i64),
        pa.field("data/file_index", i64),
        pa.field("dataset_from_index", i64),
        pa.field("dataset_to_index", i64),
    ]
    for feature in features.values():
        if feature.is_video:
            spots = (("chunk_index", i64), ("file_index", i64), ("from_timestamp", f64), ("to_timestamp", f64))
            columns += [pa.field(f"videos/{feature.name}/{name}", kind) for name, kind in spots]
    for feature in features.values():
        if has_stats(feature):
            columns += [pa.field(f"stats/{feature.name}/{stat}", _stat_type(feature, stat)) for stat in STAT_NAMES]
    columns += [pa.field("meta/episodes/chunk_index", i64), pa.field("meta/episodes/file_index", i64)]
    columns += [pa.field(name, field_type(name, dtype)) for name, dtype in (fields or {}).items()]
    return pa.schema([*columns, pa.field(RECOVERED_MARK, pa.bool_())])
