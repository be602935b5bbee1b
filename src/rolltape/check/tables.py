"""The data files, one after the other: opened, held against the features and the episodes table, and let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.check.columns import check_images, check_schema, check_values, episode_column, value_columns
from rolltape.check.rows import FileRows, check_file_rows, conclude_rows
from rolltape.check.survey import Survey, first_line, open_parquet
from rolltape.format.features import DEFAULT_FEATURES
from rolltape.format.paths import FileNumber, by_file, data_file, parse_number

__all__ = ["check_tables"]

_WHOLE = 512 << 20
"""Files that take no more memory than this are read in one go; larger ones a column at a time."""

Progress = Callable[[Iterable[tuple[FileNumber, str]]], Iterable[tuple[FileNumber, str]]]


def check_tables(survey: Survey, progress: Progress) -> None:
    """Check all data files, those that no episode points to included."""
    held = [
        found
        for number, file in progress(_data_files(survey))
        if (found := _check_file(survey, number, file)) is not None
    ]
    conclude_rows(survey, held)


def _data_files(survey: Survey) -> list[tuple[FileNumber, str]]:
    """Return the files that episodes point to, and others that follow the template, in the order of their numbers."""
    table = survey.episodes
    usable = by_file(table.data_chunk[table.usable], table.data_file[table.usable])
    named = {number: data_file(survey.info, *number) for number, _ in usable}
    survey.used.update(named.values())
    for file in survey.files:
        number = parse_number(file) if file.endswith(".parquet") and not file.startswith("meta/") else None
        if number is not None and number not in named and data_file(survey.info, *number) == file:
            named[number] = file
    return sorted(named.items())


def _check_file(survey: Survey, number: FileNumber, file: str) -> FileRows | None:
    episodes = survey.episodes.index[survey.episodes.in_data_file(*number)]
    opened = open_parquet(survey.root, file, survey.files, survey.findings, episodes)
    if opened is None:
        survey.bad.add(file)
        return None
    schema = opened.schema_arrow
    if file in survey.used:
        check_schema(survey, file, schema)
    names = value_columns(survey, schema)
    counting = [name for name in DEFAULT_FEATURES if name in schema.names]
    groups = [names] if _bytes_of(opened) <= _WHOLE else [[name] for name in names]
    try:
        table = opened.read(counting if len(groups) > 1 else [*names, *counting])
        held = check_file_rows(survey, number, file, table)
        if file in survey.used:
            episode = episode_column(table)
            for group in groups:
                part = opened.read(group) if len(groups) > 1 else table
                check_values(survey, file, part.select(group), episode)
            check_images(survey, file, opened)
    except (OSError, pa.ArrowException) as error:
        survey.bad.add(file)
        survey.findings.add(
            "files.unreadable", "The table cannot be read.", file=file, episodes=episodes, found=first_line(error)
        )
        return None
    finally:
        opened.close()
    return held


def _bytes_of(opened: pq.ParquetFile) -> int:
    """Return the size in memory of a file's rows, pictures included."""
    metadata = opened.metadata
    return sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
