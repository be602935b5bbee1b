"""Episode rows: what `meta/episodes` holds for one episode, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from rolltape.format.schema import RECOVERED_MARK

__all__ = ["EpisodeRow", "VideoSpan", "rows_to_table"]


@dataclass(frozen=True, slots=True)
class VideoSpan:
    """Where an episode's pictures of one camera are.

    Attributes:
        chunk: Chunk number of the video file.
        file: File number of the video file.
        from_timestamp: Start of the episode inside the file, seconds.
        to_timestamp: End of the episode inside the file, seconds, not part of it.
    """

    chunk: int
    file: int
    from_timestamp: float
    to_timestamp: float


@dataclass(frozen=True)
class EpisodeRow:
    """One row of `meta/episodes`.

    Attributes:
        from_index: Global number of the episode's first frame.
        to_index: Global number after its last frame.
        videos: The span in each camera's file, or None for an episode without footage of that camera.
        stats: `{feature: {stat: array}}`, shapes as the format has them.
        fields: The user's per-episode fields.
        recovered: Whether the episode was brought back after a crash.
    """

    episode_index: int
    tasks: tuple[str, ...]
    length: int
    data_chunk: int
    data_file: int
    from_index: int
    to_index: int
    videos: Mapping[str, VideoSpan | None] = field(default_factory=dict)
    stats: Mapping[str, Mapping[str, np.ndarray[Any, Any]]] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    recovered: bool = False
    meta_chunk: int = 0
    meta_file: int = 0

    def replace(self, **changes: Any) -> EpisodeRow:
        """Return a copy with some of the values changed."""
        return replace(self, **changes)

    def value(self, column: str) -> Any:
        """Return what the row has in a column, as a plain Python value."""
        known = _SIMPLE.get(column)
        if known is not None:
            found = getattr(self, known)
            return list(found) if known == "tasks" else found
        if column.startswith("stats/"):
            _, name, stat = _split(column)
            found = self.stats.get(name, {}).get(stat)
            return None if found is None else np.asarray(found).tolist()
        if column.startswith("videos/"):
            _, name, spot = _split(column)
            span = self.videos.get(name)
            return None if span is None else getattr(span, _SPOTS[spot])
        return self.fields.get(column)


_SIMPLE = {
    "episode_index": "episode_index",
    "tasks": "tasks",
    "length": "length",
    "data/chunk_index": "data_chunk",
    "data/file_index": "data_file",
    "dataset_from_index": "from_index",
    "dataset_to_index": "to_index",
    "meta/episodes/chunk_index": "meta_chunk",
    "meta/episodes/file_index": "meta_file",
    RECOVERED_MARK: "recovered",
}
_SPOTS = {
    "chunk_index": "chunk",
    "file_index": "file",
    "from_timestamp": "from_timestamp",
    "to_timestamp": "to_timestamp",
}


def _split(column: str) -> tuple[str, str, str]:
    kind, rest = column.split("/", 1)
    name, last = rest.rsplit("/", 1)
    return kind, name, last


def rows_to_table(rows: Sequence[EpisodeRow], schema: pa.Schema) -> pa.Table:
    """Return the table of some episode rows, one column for each field of `schema`.

    Example:
        >>> from rolltape.format.schema import episode_schema
        >>> row = EpisodeRow(0, ("lift",), 5, 0, 0, 0, 5, fields={"success": True})
        >>> rows_to_table([row], episode_schema({}, {"success": "bool"})).column("success").to_pylist()
        [True]
    """
    arrays = [pa.array([row.value(column.name) for row in rows], column.type) for column in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
