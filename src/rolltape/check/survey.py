"""What checks look at: the files on disk, and the metadata as far as it can be read. Damaged data raises nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.check.findings import Findings
from rolltape.format.info import Info
from rolltape.format.paths import FileNumber, by_file
from rolltape.format.tasks import Tasks
from rolltape.store.local import is_lfs_pointer

__all__ = ["EpisodeTable", "Ints", "Survey", "Windows", "list_files", "open_parquet"]

Ints = npt.NDArray[np.int64]
_SKIPPED = frozenset({".git", ".cache", ".huggingface"})


def list_files(root: Path) -> dict[str, int]:
    """Return all files below a folder, relative path to size in bytes; -1 for a link that leads nowhere.

    Folders of Git and of the Hub's client are left out.
    """
    found: dict[str, int] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root).replace(os.sep, "/")
            try:
                found[relative] = os.stat(path).st_size
            except OSError:
                found[relative] = -1
    return found


@dataclass(frozen=True)
class Windows:
    """Where the episodes' pictures of one camera are, one entry a row of the episodes table.

    Attributes:
        chunk: Chunk numbers of the files.
        file: File numbers.
        start: from_timestamp, seconds.
        stop: to_timestamp, seconds.
        present: Whether all four values are there.
        partial: Whether some are there and some are null.
    """

    chunk: Ints
    file: Ints
    start: npt.NDArray[np.float64]
    stop: npt.NDArray[np.float64]
    present: npt.NDArray[np.bool_]
    partial: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EpisodeTable:
    """The rows of all files of `meta/episodes`, sorted by episode number. A null or unreadable number is -1.

    Attributes:
        index: Episode numbers.
        length: Frames.
        start: dataset_from_index.
        stop: dataset_to_index.
        data_chunk: Chunk number of the data file.
        data_file: File number of the data file.
        meta_chunk: Chunk number that the row states for itself, -1 where there is no such column.
        meta_file: File number that the row states for itself.
        at_chunk: Chunk number of the file that really holds the row.
        at_file: File number of the file that really holds the row.
        position: Place of the row when files are read in the order of their names.
        tasks: List of task texts of each row, or None where the column cannot be read.
        windows: Each camera's windows.
        whole: Whether every file of the table could be read.
    """

    index: Ints
    length: Ints
    start: Ints
    stop: Ints
    data_chunk: Ints
    data_file: Ints
    meta_chunk: Ints
    meta_file: Ints
    at_chunk: Ints
    at_file: Ints
    position: Ints
    tasks: pa.ChunkedArray | None
    windows: dict[str, Windows]
    whole: bool

    def __len__(self) -> int:
        return len(self.index)

    def in_data_file(self, chunk: int, file: int) -> Ints:
        """Return the rows whose data file has these numbers, ascending."""
        return self._by_data_file.get((chunk, file), np.zeros(0, np.int64))

    @cached_property
    def _by_data_file(self) -> dict[FileNumber, Ints]:
        return dict(by_file(self.data_chunk, self.data_file))

    @cached_property
    def usable(self) -> npt.NDArray[np.bool_]:
        """Whether a row says enough to look for its frames."""
        return (self.index >= 0) & (self.length > 0) & (self.data_chunk >= 0) & (self.data_file >= 0)


@dataclass
class Survey:
    """A dataset as far as it could be read, and the findings so far.

    Attributes:
        root: The dataset's folder.
        files: All files, relative path to size.
        info: What meta/info.json says.
        findings: What checks write to.
        episodes: The episodes table.
        tasks: The task table, or None where it cannot be read.
        bad: Files that are missing, empty or damaged, already reported.
        used: Files that the metadata names.
        stray: Data files that no episode points to, already reported.
    """

    root: Path
    files: dict[str, int]
    info: Info
    findings: Findings
    episodes: EpisodeTable
    tasks: Tasks | None = None
    bad: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    stray: set[str] = field(default_factory=set)


def open_parquet(
    root: Path, relative: str, files: dict[str, int], findings: Findings, episodes: Iterable[int] = ()
) -> pq.ParquetFile | None:
    """Return an open Parquet file, or None after a finding that says why it cannot be opened."""
    named: dict[str, Any] = {"file": relative, "episodes": list(episodes)}
    if not file_is_there(root, relative, files, findings, named):
        return None
    path = root / relative
    try:
        with open(path, "rb") as file:
            file.seek(-4, os.SEEK_END)
            if file.read(4) != b"PAR1":
                findings.add("files.truncated", "The Parquet file is truncated (no footer).", **named)
                return None
        opened = pq.ParquetFile(path)
    except (OSError, pa.ArrowException, ValueError) as error:
        findings.add("files.unreadable", "The Parquet file cannot be opened.", found=first_line(error), **named)
        return None
    names = opened.schema_arrow.names
    if len(set(names)) != len(names):
        opened.close()
        twice = next(name for name in names if names.count(name) > 1)
        findings.add("files.unreadable", f"The Parquet file has the column {twice!r} twice.", **named)
        return None
    return opened


def file_is_there(root: Path, relative: str, files: dict[str, int], findings: Findings, named: dict[str, Any]) -> bool:
    """Return whether a file has content; otherwise a finding says what it is instead."""
    size = files.get(relative, -1)
    if size < 0:
        findings.add("files.missing", "The file is missing.", **named)
        return False
    if size == 0:
        findings.add("files.empty", "The file has zero bytes.", **named)
        return False
    try:
        with open(root / relative, "rb") as file:
            head = file.read(64)
    except OSError as error:
        findings.add("files.unreadable", "The file cannot be opened.", found=first_line(error), **named)
        return False
    if is_lfs_pointer(head):
        findings.add("files.lfs_pointer", "The file is a Git LFS pointer, not the content.", **named)
        return False
    return True


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, at most 300 characters."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]
