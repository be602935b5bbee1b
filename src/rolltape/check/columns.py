"""Checks of the columns in data files: types against the features, lengths, empty and impossible values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from rolltape.check.survey import Ints, Survey
from rolltape.format.features import Feature
from rolltape.format.schema import column_type

__all__ = ["check_images", "check_schema", "check_values", "episode_column", "value_columns"]


def _storage(kind: Any) -> Any:
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if kinds.is_dictionary(kind) else kind


def _is_list(kind: Any) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _shape_of(kind: Any) -> tuple[int, Any]:
    """Return how many lists are around a type, and the type inside."""
    depth, kind = 0, _storage(kind)
    while _is_list(kind):
        depth, kind = depth + 1, _storage(kind.value_type)
    return depth, kind


def _family(kind: Any) -> str:
    for name, test in (
        ("float", kinds.is_floating),
        ("whole", kinds.is_integer),
        ("whole", kinds.is_boolean),
        ("text", kinds.is_string),
        ("text", kinds.is_large_string),
        ("text", kinds.is_string_view),
        ("struct", kinds.is_struct),
    ):
        if test(kind):
            return name
    return str(kind)


def check_schema(survey: Survey, file: str, schema: pa.Schema) -> None:
    """Check one data file's columns against the declared features."""
    declared = survey.info.column_features
    for name, feature in declared.items():
        position = schema.get_field_index(name)
        if position < 0:
            survey.findings.add("tables.column_missing", "The column is missing.", file=file, feature=name)
            continue
        _check_type(survey, file, feature, schema.field(position).type)
    for name in schema.names:
        if name not in declared:
            survey.findings.add("tables.column_undeclared", "The column is not declared.", file=file, feature=name)


def _check_type(survey: Survey, file: str, feature: Feature, found: Any) -> None:
    wanted = column_type(feature)
    depth, kind = _shape_of(found)
    wanted_depth, wanted_kind = _shape_of(wanted)
    parts: dict[str, Any] = {"file": file, "feature": feature.name, "expected": wanted, "found": found}
    family, wanted_family = _family(kind), _family(wanted_kind)
    rounded = family == "float" and wanted_family == "whole"
    if depth != wanted_depth or rounded or (family != wanted_family and {family, wanted_family} != {"float", "whole"}):
        survey.findings.add("tables.type", "The column's type is not the declared one.", **parts)
    elif family in ("float", "whole") and kind != wanted_kind:
        survey.findings.add("tables.type_width", "The column's numbers have another width than declared.", **parts)
    if (
        kinds.is_fixed_size_list(_storage(found))
        and wanted_depth == 1
        and _storage(found).list_size != feature.shape[0]
    ):
        survey.findings.add("tables.shape", "The column's values have another length than declared.", **parts)


def value_columns(survey: Survey, schema: pa.Schema) -> list[str]:
    """Return the columns whose values are looked at: all but pictures and language rows."""
    wanted = survey.info.column_features
    return [name for name in schema.names if name in wanted and not (wanted[name].is_image or wanted[name].is_language)]


def check_values(survey: Survey, file: str, table: pa.Table, episode: Ints) -> None:
    """Check the values of some columns of one data file: nulls, lengths, NaN and infinity.

    Args:
        survey: The dataset.
        file: The file's relative path.
        table: All rows of the columns.
        episode: The episode number of each row.
    """
    for name in table.column_names:
        feature, column = survey.info.column_features[name], table.column(name)
        _check_nulls(survey, file, feature, column, episode)
        if feature.is_numeric and feature.size:
            _check_numbers(survey, file, feature, column, episode)


def episode_column(table: pa.Table) -> Ints:
    """Return the episode number of each row, -1 where the table does not say."""
    if "episode_index" in table.column_names:
        try:
            values: Ints = table.column("episode_index").cast(pa.int64()).fill_null(-1).to_numpy()
        except pa.ArrowException:
            return np.full(len(table), -1, np.int64)
        return values
    return np.full(len(table), -1, np.int64)


def _named(episode: Ints, rows: Ints) -> Ints:
    numbers = np.unique(episode[rows])
    return numbers[numbers >= 0]


def _check_nulls(survey: Survey, file: str, feature: Feature, column: pa.ChunkedArray, episode: Ints) -> None:
    if column.null_count:
        rows = np.flatnonzero(column.is_null().to_numpy())
        survey.findings.add(
            "tables.null",
            f"{len(rows)} values are null.",
            file=file,
            feature=feature.name,
            episodes=_named(episode, rows),
        )


def _check_numbers(survey: Survey, file: str, feature: Feature, column: pa.ChunkedArray, episode: Ints) -> None:
    depth, kind = _shape_of(column.type)
    if _family(kind) not in ("float", "whole") or depth != _shape_of(column_type(feature))[0]:
        return
    offset = 0
    for chunk in column.chunks:
        rows = episode[offset : offset + len(chunk)]
        offset += len(chunk)
        flat = _flatten(survey, file, feature, chunk, rows, depth)
        if flat is None or not kinds.is_floating(flat.type):
            continue
        values = flat.to_numpy(zero_copy_only=False)
        # The sum of finite numbers is finite but for overflow: one pass is enough for nearly every column.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum(dtype=np.float64)):
                continue
        for name, what, bad in (
            ("tables.nan", "not a number", np.isnan(values)),
            ("tables.infinite", "infinite", np.isinf(values)),
        ):
            if bad.any():
                survey.findings.add(
                    name,
                    f"{int(bad.sum())} values are {what}.",
                    file=file,
                    feature=feature.name,
                    episodes=_named(rows, np.flatnonzero(bad) // feature.size),
                )


def _flatten(survey: Survey, file: str, feature: Feature, chunk: pa.Array, rows: Ints, depth: int) -> pa.Array | None:
    """Return all numbers of a chunk in one row-major array, or None where rows have other lengths than declared."""
    values: Any = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
    if values.null_count:
        return None
    for size in feature.shape[:depth]:
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        inside = values.flatten()
        if len(lengths) and (lengths != size).any():
            bad = np.flatnonzero(lengths != size)
            survey.findings.add(
                "tables.shape",
                "Values have another length than declared.",
                file=file,
                feature=feature.name,
                episodes=_named(rows, np.minimum(bad // max(1, len(lengths) // max(1, len(rows))), len(rows) - 1)),
                expected=f"shape {list(feature.shape)}",
                found=f"length {int(lengths[bad[0]])}",
            )
            return None
        if inside.null_count:
            survey.findings.add(
                "tables.null",
                f"{inside.null_count} elements are null.",
                file=file,
                feature=feature.name,
                episodes=_named(rows, np.arange(len(rows))),
            )
            return None
        values = inside
    return values


def check_images(survey: Survey, file: str, opened: pq.ParquetFile) -> None:
    """Count pictures without bytes by the footer alone; no picture is read."""
    paths = {f"{name}.bytes": name for name in survey.info.image_features}
    metadata = opened.metadata
    leaves = [
        (leaf, paths[path])
        for leaf in range(metadata.num_columns)
        if (path := metadata.schema.column(leaf).path) in paths
    ]
    for leaf, name in leaves:
        empty = 0
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(leaf).statistics
            if statistics is not None and statistics.has_null_count:
                empty += statistics.null_count
        if empty:
            survey.findings.add(
                "tables.image_missing", f"{empty} pictures are empty.", file=file, feature=name, camera=name
            )
