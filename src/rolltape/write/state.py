"""What a recording knows of its dataset. Each commit makes a new one; one that fails leaves the old one in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rolltape.errors import FormatError
from rolltape.format import Info, Tasks, data_schema, episode_schema
from rolltape.format.paths import FileNumber, following, numbered_files, video_file
from rolltape.write.hot import HotFile
from rolltape.write.statistics import DatasetStatistics

__all__ = ["State"]


@dataclass(frozen=True)
class State:
    """What the next commit starts from.

    Attributes:
        info: As `info.json` is, or will be with the first commit.
        tasks: The task table.
        data: The hot data file.
        rows: The hot file of episode rows.
        videos: The first free number of each camera's videos.
        data_schema: The columns of the data files.
        row_schema: The columns of the episode rows; the same in every file.
        statistics: The statistics of all episodes so far.
    """

    info: Info
    tasks: Tasks
    data: HotFile
    rows: HotFile
    videos: Mapping[str, FileNumber]
    data_schema: pa.Schema
    row_schema: pa.Schema
    statistics: DatasetStatistics
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def new(cls, info: Info, fields: Mapping[str, str]) -> State:
        """Return the state of a dataset without episodes.

        Raises:
            FormatError: If a field's name or type cannot be used.
        """
        if not isinstance(fields, Mapping):
            raise FormatError("The episode fields are not a mapping.", expected="name to type", found=repr(fields))
        return cls(
            info=info,
            tasks=Tasks(),
            data=HotFile((0, 0)),
            rows=HotFile((0, 0)),
            videos=dict.fromkeys(info.video_features, (0, 0)),
            data_schema=data_schema(info.features),
            row_schema=episode_schema(info.features, fields),
            statistics=DatasetStatistics.empty(info.features),
            fields=dict(fields),
        )

    def replace(self, **changes: Any) -> State:
        """Return a copy with some of the values changed."""
        return replace(self, **changes)


def first_free(folder: Path, suffix: str, used: FileNumber | None, chunks_size: int) -> FileNumber:
    """Return the number above every number in use: of the files on disk, orphans included, and of the rows."""
    found = [number for number, _ in numbered_files(folder, suffix)]
    if used is not None:
        found.append(used)
    return following(max(found), chunks_size) if found else (0, 0)


def video_folder(root: Path, info: Info, key: str) -> Path:
    """Return the folder above a camera's chunk folders."""
    return (root / video_file(info, key, 0, 0)).parent.parent
