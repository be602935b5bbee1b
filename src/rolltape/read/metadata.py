"""What the `meta/` folder says, loaded and held against itself."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rolltape.errors import DamagedFileError, FormatError, UnsupportedFormatError
from rolltape.format import dialects
from rolltape.format.features import Feature
from rolltape.format.info import Info, load_json_object, parse_info
from rolltape.format.paths import (
    EPISODES_FOLDER,
    INFO_PATH,
    STATS_PATH,
    TASKS_PATH,
    WORK_FOLDER,
    data_file,
    numbered_files,
    video_file,
)
from rolltape.format.schema import episode_schema
from rolltape.format.tasks import Tasks
from rolltape.read.episodes import Episodes, listed
from rolltape.read.parquet import open_parquet, reading, with_episodes

__all__ = ["Metadata"]

_TRIES = 10
"""How often the episode rows are read again while a writer is faster than the reading."""


@dataclass(frozen=True)
class Metadata:
    """A dataset's description: `info.json`, tasks and episodes. Statistics are read when they are asked for.

    Attributes:
        root: The dataset's folder.
        info: What `meta/info.json` says.
        tasks: Task numbers and texts.
        episodes: All episodes of all files, sorted by number.
        damage: Files of `meta/` that could not be read (only with `allow_damaged`).

    Example:
        >>> meta = Metadata.load("datasets/lift")  # doctest: +SKIP
        >>> meta.episodes.length  # doctest: +SKIP
        array([5, 7, 4])
    """

    root: Path
    info: Info
    tasks: Tasks
    episodes: Episodes
    damage: tuple[DamagedFileError, ...] = field(default=(), compare=False)

    @classmethod
    def load(cls, root: str | Path, *, allow_damaged: bool = False) -> Metadata:
        """Return the description of the dataset in a folder. Nothing is created, and the network is never asked.

        Args:
            root: The dataset's folder.
            allow_damaged: Leave out episodes whose rows cannot be read, with a warning, instead of failing.

        Raises:
            DatasetNotFoundError: There is no dataset in the folder, or only an unfinished recording.
            UnsupportedFormatError: It is a layout that is not read here; the message names it.
            FormatError: A part is malformed, or two parts disagree.
            DamagedFileError: A file is missing, cut off, empty, or a Git LFS pointer.
        """
        root = Path(root)
        dialects.require_readable(root)
        writing = (root / WORK_FOLDER).is_dir()
        info = parse_info((root / INFO_PATH).read_bytes())
        _refuse_old_layout(root, info)
        episodes, damage = _load_episodes(root)
        for _ in range(_TRIES):  # a writer may have gone on since info.json was read
            if damage or allow_damaged or len(episodes) == info.total_episodes:
                break
            before, info = info, parse_info((root / INFO_PATH).read_bytes())
            if len(episodes) >= info.total_episodes or info.total_episodes == before.total_episodes:
                break
            episodes, damage = _load_episodes(root)
        tasks = _load_tasks(root, info)  # after the rows, for a commit writes it before them
        if damage and not allow_damaged:
            missing = _missing(info.total_episodes, episodes).tolist()
            raise with_episodes(damage[0], missing) from damage[0]
        if not allow_damaged:
            _compare(root, info, episodes, writing=writing)
        if damage:
            warnings.warn(
                "Files of meta/ cannot be read; their episodes are left out: " + "; ".join(one.path for one in damage),
                RuntimeWarning,
                stacklevel=2,
            )
        return cls(root, info, tasks, episodes, tuple(damage))

    @property
    def features(self) -> dict[str, Feature]:
        """All features by name."""
        return self.info.features

    @property
    def num_frames(self) -> int:
        """All frames of all episodes."""
        return int(self.episodes.length.sum())

    @cached_property
    def stats(self) -> dict[str, dict[str, npt.NDArray[Any]]] | None:
        """The statistics of `meta/stats.json`, or None where there is no such file.

        Arrays of one axis or more, in the dtypes of the numbers as they are written: so does the reference.
        """
        path = self.root / STATS_PATH
        if not path.is_file():
            return None
        content = load_json_object(path.read_bytes(), STATS_PATH)
        return {
            name: {stat: _stat(value, f"{STATS_PATH}, {name}, {stat}") for stat, value in found.items()}
            for name, found in content.items()
            if isinstance(found, dict)
        }

    def data_path(self, place: int) -> str:
        """Return the relative path of the data file with an episode's rows; `place` counts in `episodes`."""
        return data_file(self.info, int(self.episodes.data_chunk[place]), int(self.episodes.data_file[place]))

    def video_path(self, key: str, place: int) -> str:
        """Return the relative path of the video with an episode's pictures; `place` counts in `episodes`."""
        columns = self.episodes.video(key)
        return video_file(self.info, key, int(columns.chunk[place]), int(columns.file[place]))


def _stat(value: Any, where: str) -> npt.NDArray[Any]:
    try:
        array = np.atleast_1d(np.array(value))
    except ValueError as error:
        raise FormatError("A statistic is not an array.", where=where, found=str(error)) from error
    if array.dtype.kind not in "biuf":
        raise FormatError("A statistic does not hold numbers.", where=where, found=repr(value)[:80])
    return array


def _refuse_old_layout(root: Path, info: Info) -> None:
    """Refuse a folder that calls itself v3.0 but holds the files of an older layout."""
    if info.total_episodes and not (root / EPISODES_FOLDER).is_dir():
        for old in ("meta/episodes.jsonl", "meta/tasks.jsonl"):
            if (root / old).is_file():
                raise UnsupportedFormatError(
                    "The dataset calls itself v3.0 but has the files of v2.1.",
                    where=root,
                    expected=EPISODES_FOLDER,
                    found=old,
                    fix=dialects.DIALECTS["v2.1"].instead,
                )


def _load_tasks(root: Path, info: Info) -> Tasks:
    if not info.total_tasks and not (root / TASKS_PATH).exists():
        return Tasks()
    file = open_parquet(root, TASKS_PATH)
    with file:
        return Tasks.from_table(reading(file.read, root, TASKS_PATH))


def _load_episodes(root: Path) -> tuple[Episodes, list[DamagedFileError]]:
    """Return the episodes of all files that can be read, and an error for each file that cannot."""
    tables, origins, damage = [], [], []
    for _, path in numbered_files(root / EPISODES_FOLDER, ".parquet"):
        relative = path.relative_to(root).as_posix()
        try:
            table = _read_rows(root, relative)
        except DamagedFileError as error:
            damage.append(error)
            continue
        tables.append(table)
        origins.append(relative)
    if not tables:
        return Episodes(episode_schema({}).empty_table()), damage
    try:
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise FormatError(
            "The files of episode rows disagree about a column.", where=EPISODES_FOLDER, found=str(error)
        ) from error
    if "episode_index" not in whole.column_names:
        raise FormatError("The episodes table lacks a column.", where=EPISODES_FOLDER, expected="episode_index")
    index = Episodes(whole).index
    if np.all(index[1:] > index[:-1]):
        return Episodes(whole), damage
    order = np.argsort(index, kind="stable")
    _refuse_duplicates(index[order], order, [table.num_rows for table in tables], origins)
    return Episodes(whole.take(pa.array(order))), damage


def _read_rows(root: Path, relative: str) -> pa.Table:
    with open_parquet(root, relative) as file:
        names = [name for name in file.schema_arrow.names if not name.startswith("stats/")]
        table = reading(lambda: file.read(columns=names), root, relative)
    return table.replace_schema_metadata(None)


def _refuse_duplicates(
    ordered: npt.NDArray[np.int64], order: npt.NDArray[np.int64], rows: list[int], origins: list[str]
) -> None:
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(same):
        ends = np.cumsum(rows)
        first, second = (origins[int(np.searchsorted(ends, order[at], "right"))] for at in (same[0], same[0] + 1))
        raise FormatError(
            f"Episode {ordered[same[0]]} has more than one row.",
            where=EPISODES_FOLDER,
            found=f"rows in {first} and {second}",
            fix="Remove one of the rows; `rolltape check` lists all of them.",
        )


def _compare(root: Path, info: Info, episodes: Episodes, *, writing: bool) -> None:
    """Hold the counters of `info.json` against the rows, and the rows against themselves."""
    _compare_rows(episodes)
    # While a recording is under way, rows are on disk a moment before info.json counts them.
    writing = writing or (root / WORK_FOLDER).is_dir()
    found, stated = len(episodes), info.total_episodes
    if found < stated or (found > stated and not writing):
        missing = _missing(stated, episodes)
        raise FormatError(
            "info.json and the episodes table disagree about the number of episodes.",
            where=f"{INFO_PATH} and {EPISODES_FOLDER}",
            expected=f"{stated} episodes, as info.json says",
            found=f"{found} rows" + (f"; missing: {listed(missing)}" if found < stated else ""),
            fix=f"Restore the missing files, or run `rolltape check {root}`; allow_damaged=True opens what is there.",
        )
    if not episodes.is_dense:
        missing = np.setdiff1d(np.arange(found), episodes.index)
        raise FormatError(
            "The episodes are not numbered without gaps.",
            where=EPISODES_FOLDER,
            expected=f"0 to {found - 1}",
            found=f"missing: {listed(missing)}",
            fix="Restore the missing rows, or open what is there with allow_damaged=True.",
        )
    frames = int(episodes.length.sum())
    if frames != info.total_frames and not (writing and frames > info.total_frames):
        raise FormatError(
            "info.json and the episodes table disagree about the number of frames.",
            where=f"{INFO_PATH} and {EPISODES_FOLDER}",
            expected=f"{info.total_frames} frames, as info.json says",
            found=f"{frames} frames in the episode rows",
            fix=f"Run `rolltape check {root}`; allow_damaged=True opens what is there.",
        )


def _missing(stated: int, episodes: Episodes) -> npt.NDArray[np.int64]:
    """Return the episodes without a row; a counter that is far off is not believed."""
    return np.setdiff1d(np.arange(min(stated, len(episodes) + 100_000)), episodes.index)


def _compare_rows(episodes: Episodes) -> None:
    bad = np.flatnonzero((episodes.to_index - episodes.from_index != episodes.length) | (episodes.length < 1))
    if len(bad):
        at = bad[0]
        raise FormatError(
            f"The row of episode {episodes.index[at]} contradicts itself.",
            where=EPISODES_FOLDER,
            expected=f"a length of 1 or more, equal to its range {episodes.from_index[at]}..{episodes.to_index[at]}",
            found=f"length {episodes.length[at]}" + (f"; {len(bad)} rows are like this" if len(bad) > 1 else ""),
            fix="Correct the row; `rolltape check` lists all of them.",
        )
    for name, values in (("length", episodes.length), ("dataset_from_index", episodes.from_index)):
        if len(values) and (values.min() < 0 or values.max() > 1 << 53):
            raise FormatError(
                f"{name} is out of range.", where=EPISODES_FOLDER, found=f"{values.min()}, {values.max()}"
            )
