"""Packing: the small videos of single episodes are joined into large ones. In the tables only the pointers change.

Packets are copied, never encoded again. Joined videos have numbers that were never used before; only then the files of
episode rows are switched over, and only after that the old videos go. So every pointer is true at every stop.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.errors import EncodeError, VideoError
from rolltape.format import Info
from rolltape.format.paths import EPISODES_FOLDER, FileNumber, following, numbered_files, safe_join, video_file
from rolltape.write.change import Change, remove_empty_folders, staging_name
from rolltape.write.commit import rows_bytes
from rolltape.write.recover import write_later
from rolltape.write.state import first_free, video_folder

if TYPE_CHECKING:
    from rolltape.video.index import MediaIndex

__all__ = ["Packed", "pack_videos"]

SECONDS_CAP = 1024
"""Longest joined video. Beyond this the float32 times that the reference compares are coarser than its tolerance."""


@dataclass(frozen=True)
class Packed:
    """What packing did.

    Attributes:
        joined: How many videos were joined into others.
        made: How many videos came of them.
        old: The videos that no row points to any more, relative to the root.
        written: Bytes of all files it wrote.
    """

    joined: int = 0
    made: int = 0
    old: tuple[str, ...] = ()
    written: int = 0


@dataclass
class _Unit:
    """One video file and the episodes in it."""

    key: str
    number: FileNumber
    episodes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    nbytes: int = 0
    index: MediaIndex | None = None


@dataclass(frozen=True)
class _Moved:
    """Where an episode's pictures are now."""

    number: FileNumber
    start: int


def pack_videos(root: Path, info: Info, *, since: int = 0, durable: bool = True) -> Packed:
    """Join small videos of all cameras.

    A video is small below half the size limit of `info.json`. Videos off the frame grid, with other decoder settings
    than their neighbours, or that cannot be read are left alone. The old videos are still there afterwards.

    Args:
        root: The dataset's folder, whose lock is held.
        info: The dataset's description.
        since: The first episode whose videos are looked at. Small ones right before them are taken along, as many as
            fit into one video, so that many short recordings do not leave many small videos.
        durable: Whether to fsync.

    Raises:
        OSError: If a file cannot be written. The dataset is as it was.
    """
    if not info.video_features:
        return Packed()
    change = Change(root, "pack", durable=durable)
    moved: dict[str, dict[int, _Moved]] = {}
    old: list[str] = []
    made = 0
    staged: list[Path] = []
    try:
        units = _units(root, info)
        for key in info.video_features:
            free = first_free(video_folder(root, info, key), ".mp4", _last(units.get(key, ())), info.chunks_size)
            for run in _runs(root, info, _since(root, info, units.get(key, []), since)):
                path = video_file(info, key, *free)
                staged.append(root / staging_name(path))
                spots = _join(run, staged[-1], info, free)
                if spots is None:
                    continue
                moved.setdefault(key, {}).update(spots)
                change.add_file(path, staged[-1].relative_to(root).as_posix())
                old += [video_file(info, key, *unit.number) for unit in run]
                free = following(free, info.chunks_size)
                made += 1
        if made:
            for path, content in _switched(root, info, moved):
                change.add_bytes(path, content)
            # Only what no row points to is ever removed, so this may be written down before it is true.
            write_later(root, old)
            change.apply(delete_later=tuple(old))
    except BaseException:
        change.discard()
        for one in staged:
            one.unlink(missing_ok=True)
        raise
    return Packed(len(old), made, tuple(old), change.written)


def remove_unused_videos(root: Path, info: Info, videos: Sequence[str]) -> list[str]:
    """Remove those of some videos that no episode row points to, and return those that are left."""
    from rolltape.store import local

    used = {video_file(info, key, *unit.number) for key, units in _units(root, info).items() for unit in units}
    left = []
    for path in videos:
        if path in used:
            left.append(path)
            continue
        if path.endswith((".parquet", ".json", ".npz")):  # the list is read from the disk, and videos are all it names
            continue
        local.remove_file(safe_join(root, path))
        remove_empty_folders(root, path)
    return left


def _columns(key: str) -> tuple[str, str, str, str]:
    base = f"videos/{key}"
    return (f"{base}/chunk_index", f"{base}/file_index", f"{base}/from_timestamp", f"{base}/to_timestamp")


def _units(root: Path, info: Info) -> dict[str, list[_Unit]]:
    """Return the video files that rows point to, for each camera in the order of their first episodes."""
    units: dict[str, dict[FileNumber, _Unit]] = {key: {} for key in info.video_features}
    wanted = ["episode_index", *(name for key in info.video_features for name in _columns(key))]
    for _, path in numbered_files(root / EPISODES_FOLDER, ".parquet"):
        with pq.ParquetFile(path) as file:
            table = file.read(columns=[name for name in wanted if name in file.schema_arrow.names])
        episodes = table.column("episode_index").to_pylist()
        for key, found in units.items():
            if not set(_columns(key)) <= set(table.column_names):
                continue
            chunks, files, starts, _ = (table.column(name).to_pylist() for name in _columns(key))
            for episode, chunk, number, start in zip(episodes, chunks, files, starts, strict=True):
                if chunk is None or number is None or start is None or start != start:
                    continue
                unit = found.setdefault((int(chunk), int(number)), _Unit(key, (int(chunk), int(number))))
                unit.episodes.append(episode)
                unit.starts.append(info.rate.frame_at(start))
    return {key: sorted(found.values(), key=lambda unit: min(unit.episodes)) for key, found in units.items()}


def _last(units: Sequence[_Unit]) -> FileNumber | None:
    return max((unit.number for unit in units), default=None)


def _since(root: Path, info: Info, units: Sequence[_Unit], since: int) -> list[_Unit]:
    """Return the videos of the episodes from a number on, and the small ones right before them."""
    first = next((at for at, unit in enumerate(units) if min(unit.episodes) >= since), len(units))
    if first == len(units):
        return []
    limit = info.video_files_size_in_mb * (1 << 20)
    room = limit
    while first > 0:
        path = root / video_file(info, units[first - 1].key, *units[first - 1].number)
        size = path.stat().st_size if path.is_file() else limit
        if size * 2 > limit or size > room:
            break
        room -= size
        first -= 1
    return list(units[first:])


def _runs(root: Path, info: Info, units: Sequence[_Unit]) -> Iterator[list[_Unit]]:
    """Yield lists of two or more videos that can become one."""
    from rolltape.video.packets import same_decoder

    limit = info.video_files_size_in_mb * (1 << 20)
    run: list[_Unit] = []
    nbytes = frames = 0
    for unit in units:
        if not _is_small(root, info, unit, limit):
            continue
        assert unit.index is not None
        longest = Fraction(frames + unit.index.n) / info.rate.fraction > SECONDS_CAP
        fits = nbytes + unit.nbytes <= limit and not longest
        if run and not (fits and run[0].index is not None and same_decoder(run[0].index, unit.index)):
            if len(run) > 1:
                yield run
            run, nbytes, frames = [], 0, 0
        run.append(unit)
        nbytes += unit.nbytes
        frames += unit.index.n
    if len(run) > 1:
        yield run


def _is_small(root: Path, info: Info, unit: _Unit, limit: float) -> bool:
    """Return whether a video can be joined with others, and look at its frames if so."""
    from rolltape.video.index import index_file

    path = root / video_file(info, unit.key, *unit.number)
    try:
        unit.nbytes = os.path.getsize(path)
        if unit.nbytes * 2 > limit:
            return False
        unit.index = index_file(path)
    except (OSError, VideoError):
        return False
    return unit.index.n > 0 and unit.index.is_grid(info.rate)


def _join(run: Sequence[_Unit], staged: Path, info: Info, number: FileNumber) -> dict[int, _Moved] | None:
    """Join a run of videos and return where their episodes are then, or None if that cannot be done without loss."""
    from rolltape.video.packets import Source, join

    sources = [Source(unit.index.where, index=unit.index) for unit in run if unit.index is not None]
    wanted = sum(unit.index.n for unit in run if unit.index is not None)
    try:
        if join(sources, staged, info.rate) != wanted:
            raise VideoError("The joined video has another number of frames than its parts.", expected=wanted)
    except EncodeError:
        raise
    except VideoError as error:
        warnings.warn(f"Videos {sources[0].path} and on are not joined: {error}", stacklevel=2)
        return None
    moved: dict[int, _Moved] = {}
    before = 0
    for unit in run:
        assert unit.index is not None
        for episode, start in zip(unit.episodes, unit.starts, strict=True):
            moved[episode] = _Moved(number, before + start)
        before += unit.index.n
    return moved


def _switched(root: Path, info: Info, moved: Mapping[str, Mapping[int, _Moved]]) -> Iterator[tuple[str, Any]]:
    """Yield the files of episode rows with their new pointers, in ascending order; those without any are left out."""
    for _, path in numbered_files(root / EPISODES_FOLDER, ".parquet"):
        with pq.ParquetFile(path) as file:
            table = file.read()
        episodes = table.column("episode_index").to_pylist()
        changed = table
        for key, of_key in moved.items():
            if any(episode in of_key for episode in episodes):
                changed = _repointed(changed, info, key, episodes, of_key)
        if changed is not table:
            yield path.relative_to(root).as_posix(), rows_bytes(changed)


def _repointed(table: pa.Table, info: Info, key: str, episodes: Sequence[int], moved: Mapping[int, _Moved]) -> pa.Table:
    names = _columns(key)
    columns = [table.column(name).to_pylist() for name in names]
    lengths = table.column("length").to_pylist()
    for row, episode in enumerate(episodes):
        if episode in moved:
            spot = moved[episode]
            seconds = info.rate.seconds(np.array([spot.start, spot.start + lengths[row]], np.int64))
            for column, value in zip(columns, (*spot.number, *seconds.tolist()), strict=True):
                column[row] = value
    for name, column in zip(names, columns, strict=True):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(column, table.schema.field(at).type))
    return table
