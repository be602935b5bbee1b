"""Paths inside a dataset: templates, file numbers, and the rule that nothing leaves the root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from string import Formatter
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import FormatError
from rolltape.format.info import Info

__all__ = [
    "EPISODES_FOLDER",
    "EPISODES_PATH",
    "INFO_PATH",
    "QUANTILES_PATH",
    "STATS_PATH",
    "TASKS_PATH",
    "WORK_FOLDER",
    "FileNumber",
    "by_file",
    "data_file",
    "episodes_file",
    "following",
    "numbered_files",
    "parse_number",
    "safe_join",
    "video_file",
]

INFO_PATH = "meta/info.json"
STATS_PATH = "meta/stats.json"
TASKS_PATH = "meta/tasks.parquet"
QUANTILES_PATH = "meta/quantiles.npz"
EPISODES_FOLDER = "meta/episodes"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
WORK_FOLDER = ".rolltape"

FileNumber = tuple[int, int]
"""A (chunk, file) pair."""

_SPEC = re.compile(r"(0?\d{1,2}d?)?")
_NUMBER = re.compile(r"chunk-(\d{1,18})/file-(\d{1,18})\.[^/]+$")


def _fill(template: str, **values: int | str) -> str:
    """Fill in a template that is not trusted: only the known fields, only narrow number formats."""
    try:
        for _, name, spec, conversion in Formatter().parse(template):
            if name is not None and (name not in values or conversion or not _SPEC.fullmatch(spec or "")):
                raise ValueError(f"the field {name!r} with the format {spec!r} is not allowed")
        path = template.format(**values)
    except (KeyError, IndexError, ValueError) as error:
        raise FormatError("A path template cannot be filled in.", where=template, found=str(error)) from error
    return _inside(path, template)


_LONGEST = 255
"""Bytes in a name, on nearly every file system."""


def _inside(path: str, where: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or "\0" in path or ".." in parts or ":" in parts[0]:
        raise FormatError("A path leaves the dataset's folder.", where=where, found=path)
    if any(len(part.encode("utf-8", "replace")) > _LONGEST for part in parts) or len(path) > _LONGEST * 8:
        raise FormatError("A path is longer than a file system takes.", where=where[:300], found=path[:100] + "...")
    if any("\ud800" <= character <= "\udfff" for character in path):
        raise FormatError("A path has characters that no file name holds.", where=where, found=ascii(path))
    return path


def data_file(info: Info, chunk: int, file: int) -> str:
    """Return the path of a data file relative to the root, from the template in `info.json`.

    Raises:
        FormatError: If the template cannot be filled in or leads out of the root.
    """
    return _fill(info.data_path, chunk_index=int(chunk), file_index=int(file))


def video_file(info: Info, key: str, chunk: int, file: int) -> str:
    """Return the path of a camera's video file relative to the root, from the template in `info.json`.

    Raises:
        FormatError: If there is no template, or it cannot be filled in, or leads out of the root.
    """
    if info.video_path is None:
        raise FormatError("video_path is null, so there are no video files.", where=INFO_PATH)
    return _fill(info.video_path, video_key=key, chunk_index=int(chunk), file_index=int(file))


def episodes_file(chunk: int, file: int) -> str:
    """Return the path of a file of episode rows relative to the root.

    Example:
        >>> episodes_file(0, 12)
        'meta/episodes/chunk-000/file-012.parquet'
    """
    return EPISODES_PATH.format(chunk_index=int(chunk), file_index=int(file))


def safe_join(root: Path, relative: str) -> Path:
    """Return the absolute place of a path inside a dataset.

    Raises:
        FormatError: If the path is absolute or climbs out of the root.
    """
    return root / _inside(relative, relative)


def following(number: FileNumber, chunks_size: int) -> FileNumber:
    """Return the number after `number`: files 0..chunks_size-1, then the next chunk.

    Example:
        >>> following((0, 999), 1000)
        (1, 0)
    """
    chunk, file = number
    return (chunk, file + 1) if file + 1 < chunks_size else (chunk + 1, 0)


def by_file(chunk: npt.NDArray[Any], file: npt.NDArray[Any]) -> list[tuple[FileNumber, npt.NDArray[np.int64]]]:
    """Return for each file the positions that name it, ascending; the files in the order of their numbers.

    Args:
        chunk: Chunk numbers, one for each episode, frame or whatever is in a file, int64 [n].
        file: File numbers, int64 [n].

    Example:
        >>> [(number, places.tolist()) for number, places in by_file(np.array([0, 0, 0]), np.array([7, 2, 7]))]
        [((0, 2), [1]), ((0, 7), [0, 2])]
    """
    if not len(chunk):
        return []
    if (chunk == chunk[0]).all() and (file == file[0]).all():
        return [((int(chunk[0]), int(file[0])), np.arange(len(chunk)))]
    order = np.lexsort((file, chunk))
    edges = np.flatnonzero((np.diff(chunk[order]) != 0) | (np.diff(file[order]) != 0)) + 1
    return [((int(chunk[part[0]]), int(file[part[0]])), part) for part in np.split(order, edges)]


def parse_number(path: str | PurePosixPath) -> FileNumber | None:
    """Return the (chunk, file) numbers in a path, or None where it has none."""
    found = _NUMBER.search(str(path).replace("\\", "/"))
    return (int(found[1]), int(found[2])) if found else None


def numbered_files(folder: Path, suffix: str) -> Iterator[tuple[FileNumber, Path]]:
    """Yield the files `chunk-*/file-*<suffix>` of a folder in the order of their numbers, never of their names."""
    found = []
    if folder.is_dir():
        for path in folder.glob(f"chunk-*/file-*{suffix}"):
            number = parse_number(path.as_posix())
            if number is not None and path.name.endswith(suffix):
                found.append((number, path))
    yield from sorted(found)
