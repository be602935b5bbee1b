"""Checks of the rows in data files: which episodes they hold, and whether everything that counts counts right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rolltape.check.findings import ranges_text
from rolltape.check.survey import Ints, Survey
from rolltape.format.paths import FileNumber
from rolltape.format.rate import TOLERANCE_S

__all__ = ["FileRows", "check_file_rows", "conclude_rows"]


@dataclass(frozen=True)
class FileRows:
    """What one data file holds, small enough to keep for every file.

    Attributes:
        number: Chunk and file number.
        file: Relative path.
        first: The index of the first row, or None for an empty file.
        episodes: The episode numbers present, ascending.
        counts: How many rows each of them has.
        tasks: Distinct (episode, task_index) pairs, int64 [n, 2].
    """

    number: FileNumber
    file: str
    first: int | None
    episodes: Ints
    counts: Ints
    tasks: Ints


@dataclass(frozen=True)
class _Runs:
    """Rows that follow each other with the same episode number."""

    episode: Ints
    start: Ints
    length: Ints
    of_row: Ints
    place: Ints

    @classmethod
    def of(cls, episode: Ints) -> _Runs:
        start = (
            np.flatnonzero(np.concatenate([[True], episode[1:] != episode[:-1]])) if len(episode) else np.zeros(0, int)
        )
        length = np.diff(np.append(start, len(episode)))
        of_row = np.repeat(np.arange(len(start)), length)
        return cls(episode[start], start, length, of_row, np.arange(len(episode)) - start[of_row])

    def first_bad(self, bad: npt.NDArray[np.bool_]) -> tuple[Ints, tuple[int, int]]:
        """Return the runs that have a bad row, and the frame of the first bad row as a range."""
        rows = np.flatnonzero(bad)
        place = int(self.place[rows[0]])
        return np.unique(self.of_row[rows]), (place, place + 1)


def check_file_rows(survey: Survey, number: FileNumber, file: str, table: pa.Table) -> FileRows:
    """Check the default columns of one data file and return what it holds.

    Args:
        survey: The dataset.
        number: The file's numbers.
        file: Its relative path.
        table: The file's rows, with those of the five default columns that it has.
    """
    columns = {name: _numbers(table, name) for name in ("episode_index", "index", "frame_index", "task_index")}
    episode = columns["episode_index"]
    if episode is None:
        return FileRows(number, file, None, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2), np.int64))
    runs = _Runs.of(episode)
    unique, counts = np.unique(runs.episode, return_counts=True)
    if (counts > 1).any():
        survey.findings.add(
            "tables.order", "Rows of an episode do not stand together.", file=file, episodes=unique[counts > 1]
        )
    _check_frames(survey, file, runs, columns["frame_index"])
    _check_index(survey, number, file, runs, columns["index"])
    _check_time(survey, file, runs, table)
    totals = np.zeros(len(unique), np.int64)
    np.add.at(totals, np.searchsorted(unique, runs.episode), runs.length)
    task = columns["task_index"]
    pairs = np.unique(np.stack([episode, task], 1), axis=0) if task is not None else np.zeros((0, 2), np.int64)
    index = columns["index"]
    first = int(index[0]) if index is not None and len(index) else None
    return FileRows(number, file, first, unique, totals, pairs)


def _numbers(table: pa.Table, name: str) -> Ints | None:
    """Return a column as int64, -1 for null, or None where there is no such column of numbers (reported elsewhere)."""
    if name not in table.column_names:
        return None
    try:
        values: Ints = table.column(name).cast(pa.int64()).fill_null(-1).to_numpy()
    except pa.ArrowException:
        return None
    return values


def _check_frames(survey: Survey, file: str, runs: _Runs, frame: Ints | None) -> None:
    if frame is None or not (frame != runs.place).any():
        return
    concerned, at = runs.first_bad(frame != runs.place)
    mixed: list[int] = []
    wrong: list[int] = []
    for k in concerned:
        values = frame[runs.start[k] : runs.start[k] + runs.length[k]]
        right = np.array_equal(np.sort(values), np.arange(len(values)))
        (mixed if right else wrong).append(int(runs.episode[k]))
    if mixed:
        survey.findings.add(
            "tables.order", "Rows of an episode are not in the order of frame_index.", file=file, episodes=mixed
        )
    if wrong:
        survey.findings.add(
            "tables.frame_index",
            "frame_index does not count the rows of the episode.",
            file=file,
            episodes=wrong,
            frames=at,
            expected=at[0],
            found=int(frame[np.flatnonzero(frame != runs.place)[0]]),
        )


def _check_index(survey: Survey, number: FileNumber, file: str, runs: _Runs, index: Ints | None) -> None:
    if index is None or not len(index):
        return
    wanted = index[runs.start][runs.of_row] + runs.place
    if (index != wanted).any():
        row = int(np.flatnonzero(index != wanted)[0])
        concerned, at = runs.first_bad(index != wanted)
        survey.findings.add(
            "tables.index",
            "index does not go up by one from row to row.",
            file=file,
            episodes=runs.episode[concerned],
            frames=at,
            expected=int(wanted[row]),
            found=int(index[row]),
        )
    rows = survey.episodes.in_data_file(*number)
    stated = dict(zip(survey.episodes.index[rows].tolist(), rows.tolist(), strict=True))
    for k, episode in enumerate(runs.episode.tolist()):
        row = stated.get(episode, -1)
        begin, end = int(index[runs.start[k]]), int(index[runs.start[k]]) + int(runs.length[k])
        if row < 0 or runs.length[k] != survey.episodes.length[row] or survey.episodes.start[row] == begin:
            continue
        survey.findings.add(
            "episodes.range",
            "The episode's range is not that of its rows.",
            file=file,
            episodes=[episode],
            expected=f"frames {begin} to {end} (column index)",
            found=f"frames {survey.episodes.start[row]} to {survey.episodes.stop[row]} (meta/episodes)",
        )


def _check_time(survey: Survey, file: str, runs: _Runs, table: pa.Table) -> None:
    if "timestamp" not in table.column_names:
        return
    try:
        time = table.column("timestamp").cast(pa.float64()).fill_null(np.nan).to_numpy()
    except pa.ArrowException:
        return
    wanted = survey.info.rate.seconds(runs.place)
    # Past 1,024 s a 32-bit float cannot come as near as the tolerance: two of its steps are allowed for.
    allowed = np.maximum(TOLERANCE_S, 2 * np.spacing(wanted.astype(np.float32)).astype(np.float64))
    off = np.abs(time - wanted) > allowed
    if not off.any():
        return
    row = int(np.flatnonzero(off)[0])
    concerned, at = runs.first_bad(off)
    survey.findings.add(
        "tables.timestamp" if survey.info.video_features else "tables.timestamp_jitter",
        f"{int(off.sum())} timestamps are off the grid of {survey.info.rate} fps.",
        file=file,
        episodes=runs.episode[concerned],
        frames=at,
        expected=f"{wanted[row]:.6f} s",
        found=f"{time[row]:.6f} s",
    )


def conclude_rows(survey: Survey, held: Sequence[FileRows]) -> None:
    """Compare what all data files hold with what the episodes table says."""
    if not survey.episodes.whole:
        return
    explained = _check_counts(survey, held)
    _check_orphans(survey, held, explained)
    _check_file_order(survey, held)
    _check_tasks(survey, held)


def _check_counts(survey: Survey, held: Sequence[FileRows]) -> set[tuple[FileNumber, int]]:
    """Check that each episode has its rows in its file; return (file, episode) of rows found where nobody looks."""
    table = survey.episodes
    rows_at = {one.number: one for one in held}
    found = np.zeros(len(table), np.int64)
    judged = np.zeros(len(table), np.bool_)
    for number, one in rows_at.items():
        rows = table.in_data_file(*number)
        judged[rows] = table.usable[rows]
        if len(one.episodes):
            spot = np.minimum(np.searchsorted(one.episodes, table.index[rows]), len(one.episodes) - 1)
            found[rows] = np.where(one.episodes[spot] == table.index[rows], one.counts[spot], 0)
    explained: set[tuple[FileNumber, int]] = set()
    for row in np.flatnonzero(judged & (found != table.length)):
        number, episode = (int(table.data_chunk[row]), int(table.data_file[row])), int(table.index[row])
        others = [one for one in held if one.number != number and episode in one.episodes]
        other = next(
            (one for one in others if one.counts[np.searchsorted(one.episodes, episode)] == table.length[row]), None
        )
        if found[row] == 0 and other is not None:
            explained.add((other.number, episode))
            survey.findings.add(
                "episodes.data_file",
                "The rows are in another data file than stated.",
                file=rows_at[number].file,
                episodes=[episode],
                expected=other.file,
                found=rows_at[number].file,
            )
        else:
            survey.findings.add(
                "tables.rows",
                "The data file holds another number of rows of this episode.",
                file=rows_at[number].file,
                episodes=[episode],
                expected=f"{table.length[row]} rows",
                found=f"{found[row]} rows",
            )
    return explained


def _check_orphans(survey: Survey, held: Sequence[FileRows], explained: set[tuple[FileNumber, int]]) -> None:
    table = survey.episodes
    for one in held:
        known = table.index[table.in_data_file(*one.number)]
        mine = {episode for number, episode in explained if number == one.number}
        stray = ~np.isin(one.episodes, known) & ~np.isin(one.episodes, np.array(sorted(mine), np.int64))
        if one.file not in survey.used:
            if mine:
                survey.used.add(one.file)
            else:
                survey.stray.add(one.file)
                survey.findings.add(
                    "files.orphan_table",
                    "No episode points to this data file.",
                    file=one.file,
                    found=f"{int(one.counts.sum())} rows of episodes {ranges_text(one.episodes)}",
                )
                continue
        if stray.any():
            survey.findings.add(
                "tables.orphan_rows",
                f"{int(one.counts[stray].sum())} rows belong to no episode of this file.",
                file=one.file,
                episodes=one.episodes[stray],
                expected=f"only rows of episodes {ranges_text(known)}",
            )


def _check_file_order(survey: Survey, held: Sequence[FileRows]) -> None:
    ordered = [
        one for one in sorted(held, key=lambda one: one.file) if one.first is not None and one.file in survey.used
    ]
    for before, after in itertools.pairwise(ordered):
        if before.first is not None and after.first is not None and after.first < before.first:
            survey.findings.add(
                "tables.file_order",
                "The file comes later by name but holds earlier frames.",
                file=after.file,
                expected=f"frames after {before.first}, where {before.file} starts",
                found=f"frame {after.first}",
            )


def _check_tasks(survey: Survey, held: Sequence[FileRows]) -> None:
    if survey.tasks is None:
        return
    known = np.array(sorted(survey.tasks.texts), np.int64)
    for one in held:
        unknown = ~np.isin(one.tasks[:, 1], known)
        if unknown.any():
            survey.findings.add(
                "tasks.unknown",
                "Frames point to tasks that the task table lacks.",
                file=one.file,
                episodes=one.tasks[unknown, 0],
                expected=f"one of {ranges_text(known)}",
                found=ranges_text(one.tasks[unknown, 1]),
            )
    _check_task_sets(survey, held)


def _check_task_sets(survey: Survey, held: Sequence[FileRows]) -> None:
    """Compare each episode's list of texts with the numbers of its rows."""
    lists: Any = survey.episodes.tasks
    if lists is None or survey.tasks is None or not len(lists):
        return
    used: dict[int, set[str | None]] = {}
    for one in held:
        for episode, task in one.tasks.tolist():
            used.setdefault(episode, set()).add(survey.tasks.texts.get(task))
    differ = [
        episode
        for episode, texts in zip(survey.episodes.index.tolist(), lists.to_pylist(), strict=True)
        if episode in used and None not in used[episode] and set(texts or ()) != used[episode]
    ]
    if differ:
        survey.findings.add("tasks.episode_list", "The list of tasks is not that of the rows.", episodes=differ)
