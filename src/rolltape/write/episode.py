"""Saved episodes on their way to a commit: tables made, statistics computed, numbers given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rolltape.errors import EpisodeError
from rolltape.format import Info, Tasks
from rolltape.format.features import is_storable
from rolltape.format.quantiles import PictureHistogram
from rolltape.format.stats import Stats
from rolltape.write.columns import data_table
from rolltape.write.statistics import EpisodeStatistics
from rolltape.write.take import Recorded

__all__ = ["Episode", "checked_fields", "prepare"]


@dataclass(frozen=True)
class Episode:
    """An episode that needs only to be written.

    Attributes:
        index: Its number.
        rows: How many frames it has.
        from_index: The global number of its first frame.
        tasks: Its tasks, in the order in which they first come.
        all_tasks: The task table with this episode's tasks.
        table: Its rows for the data file.
        nbytes: The size of `table`.
        stats: Its statistics.
        columns: Its numbers, and `histograms` its pixels, for the statistics of the whole.
        histograms: See `columns`.
        clipped: For each depth camera, how many pixels a video's codes cannot hold.
        fields: The user's fields.
        videos: The staged video of each video camera.
        take: The folder of the take it comes from, if that is on the disk.
        recovered: Whether it was brought back after its recording was killed.
    """

    index: int
    rows: int
    from_index: int
    tasks: tuple[str, ...]
    all_tasks: Tasks
    table: pa.Table
    nbytes: int
    stats: Stats
    columns: Mapping[str, np.ndarray[Any, Any]]
    histograms: Mapping[str, PictureHistogram]
    clipped: Mapping[str, int]
    fields: Mapping[str, Any]
    videos: Mapping[str, Path]
    take: Path | None = None
    recovered: bool = False


def prepare(
    recorded: Recorded,
    *,
    index: int,
    from_index: int,
    info: Info,
    tasks: Tasks,
    schema: pa.Schema,
    fields: Mapping[str, Any],
    take: Path | None = None,
    recovered: bool = False,
) -> Episode:
    """Return a take as an episode with its number. Nothing is written.

    Args:
        recorded: The take.
        index: The number of the episode.
        from_index: The global number of its first frame.
        info: The dataset's description.
        tasks: The task table before this episode.
        schema: The schema of the data files.
        fields: The user's fields, checked.
        take: The take's folder, if it is on the disk.
        recovered: Whether it is brought back after a kill.
    """
    rows = recorded.rows
    texts = tuple(dict.fromkeys(recorded.tasks))
    all_tasks, numbers = tasks.with_new(texts)
    of_text = dict(zip(texts, numbers, strict=True))
    generated = {
        "timestamp": info.rate.timestamps(rows),
        "frame_index": np.arange(rows, dtype=np.int64),
        "episode_index": np.full(rows, index, np.int64),
        "index": np.arange(from_index, from_index + rows, dtype=np.int64),
        "task_index": np.fromiter((of_text[text] for text in recorded.tasks), np.int64, rows),
    }
    values: dict[str, Any] = {**recorded.columns, **generated}
    pictures = {name: one.pictures for name, one in recorded.footage.items() if one.path is None}
    columns = {name: column for name, column in values.items() if isinstance(column, np.ndarray)}
    gathered = {name: one.stats for name, one in recorded.footage.items()}
    stats = EpisodeStatistics(info.features).finish(columns, gathered)
    table = data_table(schema, info.features, {**values, **pictures}, rows)
    return Episode(
        index=index,
        rows=rows,
        from_index=from_index,
        tasks=texts,
        all_tasks=all_tasks,
        table=table,
        nbytes=table.nbytes,
        stats=stats,
        columns=columns,
        histograms={name: one.histogram for name, one in gathered.items()},
        clipped={name: one.clipped for name, one in recorded.footage.items() if one.clipped},
        fields=dict(fields),
        videos={name: one.path for name, one in recorded.footage.items() if one.path is not None},
        take=take,
        recovered=recovered,
    )


_PLAIN: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool, np.bool_),
    "int64": (int, np.integer),
    "int32": (int, np.integer),
    "float64": (float, int, np.floating, np.integer),
    "float32": (float, int, np.floating, np.integer),
}


def field_dtype(name: str, value: Any) -> str:
    """Return the type of a field that was not declared, from its first value.

    Raises:
        EpisodeError: If there is no type for it.
    """
    for dtype in ("bool", "string", "int64", "float64"):
        if _is(value, dtype):
            return dtype
    raise EpisodeError(
        f"The episode field {name!r} has a value of a type that cannot be stored.",
        expected="text, bool, int or float",
        found=type(value).__name__,
    )


def checked_fields(values: Mapping[str, Any], declared: Mapping[str, str]) -> dict[str, Any]:
    """Return the user's fields as plain Python values.

    Raises:
        EpisodeError: If a value does not fit its field's type, with all such fields in one message.
    """
    problems: list[str] = []
    found: dict[str, Any] = {}
    for name, value in values.items():
        dtype = declared[name]
        if value is None:
            found[name] = None
        elif not _is(value, dtype) or not _fits(value, dtype):
            problems.append(f"{name}: wanted {dtype}, got {value!r} ({type(value).__name__})")
        else:
            found[name] = value.item() if isinstance(value, np.generic) else value
    if problems:
        raise EpisodeError(
            "The episode's fields do not fit their types.",
            found="; ".join(problems),
            fix="Call save_episode again with right values; the frames are kept.",
        )
    return found


def _fits(value: Any, dtype: str) -> bool:
    if dtype == "string":
        return is_storable(value)
    if dtype in ("int32", "int64"):
        limit = 1 << (31 if dtype == "int32" else 63)
        return -limit <= int(value) < limit
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _is(value: Any, dtype: str) -> bool:
    return isinstance(value, _PLAIN[dtype]) and (dtype == "bool" or not isinstance(value, (bool, np.bool_)))
