"""Where a recording starts: a new dataset's description, or what is found in a dataset that is there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.errors import CommitError, FormatError, RolltapeError, UsageError
from rolltape.format import (
    FIELD_TYPES,
    Feature,
    Info,
    Rate,
    data_schema,
    episode_schema,
    parse_features,
    parse_info,
    require_readable,
    with_defaults,
)
from rolltape.format.info import DATA_PATH, VIDEO_PATH
from rolltape.format.paths import (
    EPISODES_FOLDER,
    INFO_PATH,
    FileNumber,
    data_file,
    episodes_file,
    numbered_files,
)
from rolltape.read.metadata import Metadata
from rolltape.read.parquet import open_parquet, reading
from rolltape.store import RootLock
from rolltape.write.columns import number_values
from rolltape.write.hot import DATA_CAP, ROWS_CAP, HotFile
from rolltape.write.recover import recover
from rolltape.write.state import State, first_free, video_folder
from rolltape.write.statistics import DatasetStatistics
from rolltape.write.take_note import take_numbers

__all__ = ["contradictions", "load_state", "new_info", "open_for_resume", "refuse_differences"]


def new_info(
    fps: Any,
    features: Mapping[str, Any],
    *,
    fractional_fps: bool = False,
    use_videos: bool = True,
    robot_type: str | None = None,
    tools: list[Any] | None = None,
    data_files_size_in_mb: float = 100,
    video_files_size_in_mb: float = 200,
    chunks_size: int = 1000,
) -> Info:
    """Return the description of a dataset without episodes.

    Raises:
        FormatError: If something is malformed; the message names it.
        UsageError: If the arguments contradict each other.
    """
    rate = Rate.parse(fps)
    parsed = with_defaults(parse_features(features))
    if not rate.is_whole and not fractional_fps:
        raise FormatError(
            "fps is not a whole number.",
            expected="a whole number; the reference reads nothing else",
            found=str(fps),
            fix="Pass fractional_fps=True if only rolltape shall read the dataset; fps may be a Fraction then.",
        )
    _check_recordable(parsed)
    if not use_videos and any(feature.is_video for feature in parsed.values()):
        raise UsageError(
            "There are video features, but use_videos is False.",
            found=", ".join(name for name, feature in parsed.items() if feature.is_video),
            fix='Give these features the dtype "image", or leave use_videos out.',
        )
    for limit in (chunks_size, data_files_size_in_mb, video_files_size_in_mb):
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
            raise UsageError("The size limits are above 0.", found=repr(limit))
    extra: dict[str, Any] = {}
    if not rate.is_whole and isinstance(fps, Fraction):
        extra["fps_fraction"] = [fps.numerator, fps.denominator]
    info = Info(
        fps=int(rate.fps) if rate.is_whole else rate.fps,
        features=parsed,
        chunks_size=chunks_size,
        data_files_size_in_mb=data_files_size_in_mb,
        video_files_size_in_mb=video_files_size_in_mb,
        data_path=DATA_PATH,
        video_path=VIDEO_PATH if use_videos else None,
        robot_type=robot_type,
        tools=tools,
        extra=extra,
    )
    _check_json({f"feature {name}": feature.to_json() for name, feature in parsed.items()})
    _check_json({"robot_type": robot_type, "tools": tools})
    return parse_info(info.to_json_bytes())


def _check_json(parts: Mapping[str, Any]) -> None:
    """Refuse what `info.json` cannot hold before the first frame, not with the first episode."""
    for name, part in parts.items():
        try:
            json.dumps(part, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(
                "info.json cannot hold this.",
                where=name,
                expected="texts, finite numbers, lists and mappings",
                found=str(error),
            ) from None


_LONGEST_CAMERA = 200
"""Bytes of a camera's name, which becomes part of file names; file systems allow 255."""


def _check_recordable(features: Mapping[str, Feature]) -> None:
    for feature in features.values():
        if feature.name == "task":
            raise FormatError(
                "The feature's name cannot be used.",
                where="feature task",
                found="task, which is what an item calls the text of its task",
                fix="Give the text as add_frame(frame, task=...), or the feature another name.",
            )
        if feature.is_string and feature.shape != (1,):
            raise FormatError(
                "A text is one value.",
                where=f"feature {feature.name}",
                expected="shape [1]",
                found=f"shape {list(feature.shape)}",
            )
        if feature.is_camera and len(feature.name.encode()) > _LONGEST_CAMERA:
            raise FormatError(
                "The camera's name is too long for a file's name.",
                where=f"feature {feature.name}",
                expected=f"at most {_LONGEST_CAMERA} bytes",
                found=f"{len(feature.name.encode())} bytes",
            )
        if feature.is_camera and feature.hwc[2] != (1 if feature.is_depth else 3):
            raise FormatError(
                "A camera's number of channels cannot be recorded.",
                where=f"feature {feature.name}",
                expected="3 channels; 1 for depth, which is marked with info={'is_depth_map': True}",
                found=f"shape {list(feature.shape)}",
            )
        if not feature.is_camera and 0 in feature.shape:
            raise FormatError(
                "A feature without elements cannot be recorded.",
                where=f"feature {feature.name}",
                found=f"shape {list(feature.shape)}",
            )


def open_for_resume(root: Path) -> RootLock:
    """Return the lock of a dataset, after putting right what a stop left behind; open takes stay as they are.

    A recording that was killed before its first commit has takes and is no dataset yet.

    Raises:
        DatasetNotFoundError: There is no dataset.
        UnsupportedFormatError: It is of a layout that is not written here; nothing is changed.
        LockedError: Another writer holds it.
    """
    if (root / INFO_PATH).exists() or not root.is_dir():
        require_readable(root)
    lock = RootLock(root, "recording")
    lock.acquire()
    try:
        with contradictions(root):
            recover(root)
        if (root / INFO_PATH).exists() or not take_numbers(root):
            require_readable(root)
    except BaseException:
        lock.release()
        raise
    return lock


def load_state(root: Path, statistics: DatasetStatistics | None = None) -> State:
    """Return what a recording needs to know of a dataset on disk.

    Args:
        root: The dataset's folder.
        statistics: The statistics, where they are known.

    Raises:
        FormatError: The dataset contradicts itself; the message gives the facts and names the repair.
        DamagedFileError: A file of the metadata cannot be read.
    """
    with contradictions(root):
        return _loaded(root, statistics)


@contextmanager
def contradictions(root: Path) -> Iterator[None]:
    """Tell of whatever a damaged dataset breaks as an error of the dataset. What is on the disk is untrusted.

    Raises:
        FormatError: Instead of an error of a computation with what was read.
        CommitError: Instead of an error of the file system.
    """
    try:
        yield
    except RolltapeError:
        raise
    except OSError as error:
        raise CommitError(
            "The dataset cannot be opened for writing.",
            errno=error.errno,
            where=root,
            found=f"{type(error).__name__}: {error}",
            fix="Make room or repair the disk, and open it again.",
        ) from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise FormatError(
            "The dataset contradicts itself, so it cannot be continued.",
            where=root,
            found=" ".join(f"{type(error).__name__}: {error}".split())[:300],
            fix=f"Run `rolltape check {root}` and repair what it finds first.",
        ) from error


def _loaded(root: Path, statistics: DatasetStatistics | None) -> State:
    meta = Metadata.load(root)
    info, episodes = meta.info, meta.episodes
    frames = int(episodes.length.sum())
    if len(episodes) != info.total_episodes or frames != info.total_frames:
        raise _ahead(root, f"{info.total_episodes} episodes, {info.total_frames} frames", f"{len(episodes)}, {frames}")
    ends = int(episodes.to_index.max()) if len(episodes) else 0
    if ends != frames:
        raise _ahead(root, f"the last row to end at frame {frames}", str(ends))
    row_schema, fields = _row_columns(root, info)
    if statistics is None:
        statistics = _statistics(meta)
    videos: dict[str, FileNumber] = {}
    for key in info.video_features:
        used = None
        if len(episodes):
            columns = episodes.video(key)
            used = max(zip(columns.chunk.tolist(), columns.file.tolist(), strict=True), default=None)
        videos[key] = first_free(video_folder(root, info, key), ".mp4", used, info.chunks_size)
    schema = data_schema(info.features)
    return State(
        info=info.replace(total_tasks=len(meta.tasks)),
        tasks=meta.tasks,
        data=_hot_data(meta, schema),
        rows=_hot_rows(root, info, row_schema),
        videos=videos,
        data_schema=schema,
        row_schema=row_schema,
        statistics=statistics,
        fields=fields,
    )


def _ahead(root: Path, expected: str, found: str) -> FormatError:
    return FormatError(
        "info.json and the episodes table disagree, so nothing can be appended.",
        where=f"{INFO_PATH} and {EPISODES_FOLDER}",
        expected=expected + " (info.json)",
        found=found + " (rows)",
        fix=f"Run `rolltape check {root}` and repair what it finds first.",
    )


def _row_columns(root: Path, info: Info) -> tuple[pa.Schema, dict[str, str]]:
    """Return the columns of the episode rows as the first file has them, and which of them are the user's."""
    files = [path for _, path in numbered_files(root / EPISODES_FOLDER, ".parquet")]
    if not files:
        return episode_schema(info.features), {}
    schema = pq.read_schema(files[0]).remove_metadata()
    own = set(episode_schema(info.features).names)
    types = {str(kind): name for name, kind in FIELD_TYPES.items()} | {"large_string": "string"}
    fields = {
        field.name: types[str(field.type)]
        for field in schema
        if field.name not in own and "/" not in field.name and str(field.type) in types
    }
    return schema, fields


def _statistics(meta: Metadata) -> DatasetStatistics:
    found = DatasetStatistics.load(meta.root, meta.features, meta.num_frames)
    if found.stale is None:
        return found
    return DatasetStatistics.rebuild(meta.features, _number_pieces(meta), _row_stats(meta.root), meta.stats)


def _number_pieces(meta: Metadata) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Yield the number columns of all data files that rows point to, row group by row group, each row once."""
    features = {name: one for name, one in meta.features.items() if one.is_numeric and one.size > 0}
    places = sorted(set(zip(meta.episodes.data_chunk.tolist(), meta.episodes.data_file.tolist(), strict=True)))
    counted = np.zeros(meta.num_frames, bool)
    for number in places:
        with open_parquet(meta.root, data_file(meta.info, *number), _episodes_of(meta, number)) as file:
            names = [name for name in features if name in file.schema_arrow.names]
            for batch in file.iter_batches(65_536, columns=names):
                table = pa.Table.from_batches([batch])
                index = table.column("index").to_numpy()
                fresh = (index >= 0) & (index < len(counted))
                fresh[fresh] = ~counted[index[fresh]]
                counted[index[fresh]] = True
                if not fresh.all():
                    table = table.filter(pa.array(fresh))
                if table.num_rows:
                    yield {name: number_values(table.column(name), features[name]) for name in names}


def _episodes_of(meta: Metadata, number: FileNumber) -> list[int]:
    """Return the episodes whose rows are in a data file."""
    episodes = meta.episodes
    inside = (episodes.data_chunk == number[0]) & (episodes.data_file == number[1])
    return [int(one) for one in episodes.index[inside]]


def _row_stats(root: Path) -> Iterator[dict[str, dict[str, np.ndarray[Any, Any]]]]:
    for _, path in numbered_files(root / EPISODES_FOLDER, ".parquet"):
        with pq.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if name.startswith("stats/")]
            table = file.read(columns=names)
        for row in table.to_pylist():
            stats: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
            for name, value in row.items():
                if value is not None:
                    feature, stat = name.removeprefix("stats/").rsplit("/", 1)
                    stats.setdefault(feature, {})[stat] = np.array(value)
            yield stats


def _last_number(folder: Path) -> FileNumber | None:
    found = [number for number, _ in numbered_files(folder, ".parquet")]
    return max(found) if found else None


def _hot_rows(root: Path, info: Info, schema: pa.Schema) -> HotFile:
    """Return the last file of episode rows, to go on with, or the number after it."""
    free = first_free(root / EPISODES_FOLDER, ".parquet", None, info.chunks_size)
    last = _last_number(root / EPISODES_FOLDER)
    if last is None or (root / episodes_file(*last)).stat().st_size >= ROWS_CAP.nbytes:
        return HotFile(free)
    with pq.ParquetFile(root / episodes_file(*last)) as file:
        if file.metadata.num_rows >= ROWS_CAP.episodes or not file.schema_arrow.remove_metadata().equals(schema):
            return HotFile(free)
        table = file.read().replace_schema_metadata(None)
    return HotFile(last, (table,))


def _hot_data(meta: Metadata, schema: pa.Schema) -> HotFile:
    """Return the last data file, to go on with, or the number after it.

    It is gone on with only if it is ours in every respect: the same columns, and exactly the rows of the last episodes.
    """
    root, info, episodes = meta.root, meta.info, meta.episodes
    numbers = list(zip(episodes.data_chunk.tolist(), episodes.data_file.tolist(), strict=True))
    used: FileNumber | None = max(numbers, default=None)
    folder = (root / data_file(info, 0, 0)).parent.parent
    free = HotFile(first_free(folder, ".parquet", used, info.chunks_size))
    if used is None or _last_number(folder) != used:
        return free
    last: FileNumber = used
    path = root / data_file(info, *last)
    inside = np.flatnonzero([number == last for number in numbers])
    if not path.is_file() or path.stat().st_size >= DATA_CAP.nbytes or len(inside) >= DATA_CAP.episodes:
        return free
    with open_parquet(root, data_file(info, *last), _episodes_of(meta, last)) as file:
        same = file.schema_arrow.remove_metadata().equals(schema.remove_metadata())
        if not same or file.metadata.num_rows != int(episodes.length[inside].sum()):
            return free
        table = reading(file.read, root, data_file(info, *last), _episodes_of(meta, last)).cast(schema)
    index = table.column("index").to_numpy()
    first = int(episodes.from_index[inside[0]])
    if not np.array_equal(index, np.arange(first, first + len(index))) or inside[-1] != len(episodes) - 1:
        return free
    starts = episodes.from_index[inside] - first
    lengths = episodes.length[inside]
    parts = tuple(table.slice(int(at), int(length)) for at, length in zip(starts, lengths, strict=True))
    return HotFile(last, parts)


def refuse_differences(
    info: Info,
    *,
    fps: float | None = None,
    features: Mapping[str, Any] | None = None,
    robot_type: str | None = None,
) -> None:
    """Refuse to append with arguments that contradict the dataset, all differences in one message.

    Raises:
        UsageError: If there is a difference.
    """
    problems = []
    if fps is not None and Rate.parse(fps).fps != info.rate.fps:
        problems.append(f"fps: the dataset has {info.fps}, got {fps}")
    if robot_type is not None and robot_type != info.robot_type:
        problems.append(f"robot_type: the dataset has {info.robot_type!r}, got {robot_type!r}")
    if features is not None:
        wanted = with_defaults(parse_features(features))
        for name in dict.fromkeys([*info.features, *wanted]):
            ours, theirs = info.features.get(name), wanted.get(name)
            if ours is None or theirs is None:
                problems.append(f"{name}: {'not in the dataset' if ours is None else 'missing in the arguments'}")
            elif (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
                problems.append(
                    f"{name}: the dataset has {ours.dtype} {list(ours.shape)}, got {theirs.dtype} {list(theirs.shape)}"
                )
    if problems:
        raise UsageError(
            "The arguments do not fit the dataset that is to be continued.",
            found="; ".join(problems),
            fix="Leave them out, or record into a new dataset.",
        )
