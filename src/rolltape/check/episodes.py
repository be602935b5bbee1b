"""Checks of the episodes table: its files, its rows, and the ranges that must tile the dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rolltape.check.findings import Findings, ranges_text
from rolltape.check.survey import EpisodeTable, Ints, Survey, Windows, first_line, open_parquet
from rolltape.format.info import Info
from rolltape.format.paths import EPISODES_FOLDER, numbered_files

__all__ = ["check_episodes", "load_episodes"]

_NUMBERS = {
    "index": "episode_index",
    "length": "length",
    "start": "dataset_from_index",
    "stop": "dataset_to_index",
    "data_chunk": "data/chunk_index",
    "data_file": "data/file_index",
    "meta_chunk": "meta/episodes/chunk_index",
    "meta_file": "meta/episodes/file_index",
}
_OPTIONAL = ("meta_chunk", "meta_file")
_SPOTS = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")


def load_episodes(root: Path, info: Info, files: dict[str, int], findings: Findings) -> EpisodeTable:
    """Return the rows of all files of `meta/episodes`, without statistics; what cannot be read becomes a finding."""
    cameras = list(info.video_features)
    wanted = [*_NUMBERS.values(), "tasks", *(f"videos/{key}/{spot}" for key in cameras for spot in _SPOTS)]
    parts: list[tuple[tuple[int, int], str, pa.Table]] = []
    whole, first_columns = True, None
    for number, path in numbered_files(root / EPISODES_FOLDER, ".parquet"):
        relative = path.relative_to(root).as_posix()
        opened = open_parquet(root, relative, files, findings)
        if opened is None:
            whole = False
            continue
        names = opened.schema_arrow.names
        if first_columns is None:
            first_columns = (relative, set(names))
        elif extra := set(names) - first_columns[1]:
            findings.add(
                "episodes.columns_differ",
                "The file has columns that the first one lacks.",
                file=relative,
                expected=f"the columns of {first_columns[0]}",
                found=", ".join(sorted(extra)[:5]),
            )
        try:
            table = opened.read([name for name in wanted if name in names])
        except (OSError, pa.ArrowException) as error:
            findings.add("files.unreadable", "The table cannot be read.", file=relative, found=first_line(error))
            whole = False
            continue
        for name in wanted:
            if name not in names and name not in (_NUMBERS[one] for one in _OPTIONAL):
                findings.add("episodes.column_missing", f"The column {name} is missing.", file=relative, expected=name)
        parts.append((number, relative, table))
    if whole and not parts and info.total_episodes > 0:
        findings.add(
            "files.missing", "There is no file of episode rows.", file=f"{EPISODES_FOLDER}/", expected="*.parquet"
        )
        whole = False
    return _assemble(parts, cameras, findings, whole)


def _assemble(
    parts: list[tuple[tuple[int, int], str, pa.Table]], cameras: list[str], findings: Findings, whole: bool
) -> EpisodeTable:
    by_name = sorted(range(len(parts)), key=lambda k: parts[k][1])
    first = dict(zip(by_name, np.cumsum([0, *(len(parts[k][2]) for k in by_name)])[:-1].tolist(), strict=True))
    position = [np.arange(len(table), dtype=np.int64) + first[k] for k, (_, _, table) in enumerate(parts)]
    at = [np.tile(np.array(number, np.int64), (len(table), 1)) for number, _, table in parts]
    numbers = {field: _gather(parts, column, findings) for field, column in _NUMBERS.items()}
    order = np.argsort(numbers["index"], kind="stable")
    windows = {}
    for key in cameras:
        chunk, file = (_gather(parts, f"videos/{key}/{spot}", findings)[order] for spot in _SPOTS[:2])
        start, stop = (_gather(parts, f"videos/{key}/{spot}", findings, seconds=True)[order] for spot in _SPOTS[2:])
        there = np.stack([chunk >= 0, file >= 0, np.isfinite(start), np.isfinite(stop)])
        whole_row, some = np.all(there, axis=0), np.any(there, axis=0)
        windows[key] = Windows(chunk, file, start, stop, np.asarray(whole_row), np.asarray(some & ~whole_row))
    where = np.concatenate(at)[order] if at else np.zeros((0, 2), np.int64)
    return EpisodeTable(
        **{field: values[order] for field, values in numbers.items()},
        at_chunk=where[:, 0],
        at_file=where[:, 1],
        position=np.concatenate(position)[order] if position else np.zeros(0, np.int64),
        tasks=_task_lists(parts, order),
        windows=windows,
        whole=whole,
    )


def _gather(
    parts: list[tuple[tuple[int, int], str, pa.Table]], column: str, findings: Findings, seconds: bool = False
) -> Any:
    """Return a column of all files: int64 with -1 for what is null, float64 with NaN where `seconds`."""
    kind, null = (pa.float64(), np.nan) if seconds else (pa.int64(), -1)
    values: list[Any] = []
    for _, relative, table in parts:
        if column not in table.column_names:
            values.append(np.full(len(table), null))
            continue
        try:
            cast = table.column(column).cast(kind)
        except pa.ArrowException as error:
            findings.add(
                "episodes.column_missing",
                f"The column {column} does not hold numbers.",
                file=relative,
                expected=str(kind),
                found=first_line(error),
            )
            values.append(np.full(len(table), null))
            continue
        values.append(cast.fill_null(null).to_numpy())
    dtype = np.float64 if seconds else np.int64
    return np.concatenate(values).astype(dtype) if values else np.zeros(0, dtype)


def _task_lists(parts: list[tuple[tuple[int, int], str, pa.Table]], order: Ints) -> pa.ChunkedArray | None:
    kind = pa.list_(pa.string())
    try:
        chunks = [chunk for _, _, table in parts for chunk in table.column("tasks").cast(kind).chunks]
    except (KeyError, pa.ArrowException):
        return None
    return pa.chunked_array(chunks, kind).take(pa.array(order)) if chunks else pa.chunked_array([], kind)


def check_episodes(survey: Survey) -> None:
    """Check the rows of the episodes table against each other and against the counters of info.json."""
    table, findings = survey.episodes, survey.findings
    _check_rows(survey)
    if not table.whole:
        missing = np.setdiff1d(np.arange(min(survey.info.total_episodes, 10_000_000)), table.index)
        if len(missing):
            findings.add(
                "info.total_episodes",
                "Some episodes have no row that can be read.",
                episodes=missing[:100_000],
                expected=f"{survey.info.total_episodes} episodes (info.json)",
                found=f"{len(np.unique(table.index))} in the files that can be read",
            )
        return
    _check_numbers(survey)
    _check_ranges(survey)


def _check_rows(survey: Survey) -> None:
    table, findings = survey.episodes, survey.findings
    numbers = np.stack([table.index, table.length, table.start, table.stop, table.data_chunk, table.data_file])
    empty = (numbers < 0).any(0)
    if empty.any():
        findings.add("episodes.null", "Numbers are null or negative.", episodes=table.index[empty])
    wrong = ~empty & ((table.stop - table.start != table.length) | (table.length < 1))
    for k in np.flatnonzero(wrong):
        findings.add(
            "episodes.length",
            "The length does not fit the range.",
            episodes=[table.index[k]],
            expected=f"length {table.stop[k] - table.start[k]}, for frames {table.start[k]} to {table.stop[k]}",
            found=f"length {table.length[k]}",
        )
    for key, windows in table.windows.items():
        if windows.partial.any():
            findings.add(
                "episodes.null",
                "The video's place is only half filled in.",
                episodes=table.index[windows.partial],
                camera=key,
            )
    stated = (table.meta_chunk >= 0) & (table.meta_file >= 0)
    elsewhere = stated & ((table.meta_chunk != table.at_chunk) | (table.meta_file != table.at_file))
    if elsewhere.any():
        row = int(np.flatnonzero(elsewhere)[0])
        findings.add(
            "episodes.location",
            "Rows name another file of meta/episodes than the one they are in.",
            episodes=table.index[elsewhere],
            expected=f"chunk {table.at_chunk[row]}, file {table.at_file[row]} (episode {table.index[row]})",
            found=f"chunk {table.meta_chunk[row]}, file {table.meta_file[row]}",
        )


def _check_numbers(survey: Survey) -> None:
    table, findings = survey.episodes, survey.findings
    known = table.index[table.index >= 0]
    unique, counts = np.unique(known, return_counts=True)
    for number in unique[counts > 1]:
        places = table.index == number
        where = sorted(
            {f"chunk {c} file {f}" for c, f in zip(table.at_chunk[places], table.at_file[places], strict=True)}
        )
        findings.add("episodes.duplicate", "The episode has several rows.", episodes=[number], found=", ".join(where))
    missing = np.setdiff1d(np.arange(min(int(unique[-1]), 10_000_000) if len(unique) else 0), unique)
    if len(missing):
        findings.add(
            "episodes.id_gap",
            "Episode numbers are missing between the first and the last.",
            episodes=missing[:100_000],
            expected=f"0 to {len(unique) - 1}",
            found=ranges_text(unique),
        )
    # Rows are sorted by number here, so the places they came from must ascend too.
    late = np.flatnonzero(np.diff(table.position) < 0)
    if len(late):
        findings.add(
            "episodes.order",
            "Rows are not in ascending order when the files are read in the order of their names.",
            episodes=table.index[late + 1],
        )


def _check_ranges(survey: Survey) -> None:
    table, findings = survey.episodes, survey.findings
    usable = np.flatnonzero((table.start >= 0) & (table.stop >= table.start) & (table.index >= 0))
    usable = usable[np.unique(table.index[usable], return_index=True)[1]]  # of an episode with several rows, the first
    order = usable[np.lexsort((table.stop[usable], table.start[usable]))]
    start, stop = table.start[order], table.stop[order]
    reach = np.concatenate([[0], np.maximum.accumulate(stop)[:-1]]) if len(stop) else stop
    for name, what, wrong in (
        ("episodes.range_gap", "Frames belong to no episode.", start > reach),
        ("episodes.range_overlap", "Frames belong to two episodes.", start < reach),
    ):
        for k in np.flatnonzero(wrong):
            findings.add(
                name,
                what,
                episodes=[table.index[order[k]]],
                expected=f"the episode to start at frame {reach[k]}",
                found=f"frame {start[k]}",
            )
    late = np.flatnonzero(np.diff(table.start[usable]) < 0)
    if len(late) and not (start < reach).any():
        findings.add(
            "episodes.order",
            "Episodes with a higher number have lower frames.",
            episodes=table.index[usable[late + 1]],
        )
