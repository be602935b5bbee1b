"""The plan of a batch: which frames of which files go where, made without touching a byte of video."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rolltape.errors import NoFootageError
from rolltape.format.paths import by_file, video_file
from rolltape.read.metadata import Metadata

__all__ = ["FileFrames", "plan_video"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FileFrames:
    """The frames that a batch needs from one video file.

    Attributes:
        key: The camera.
        path: Relative path of the file.
        ranks: Frame numbers in the file, if its pictures lie on the dataset's frame grid, int64 [k].
        places: Positions in the episodes table, int64 [k].
        frames: Frame numbers in the episode, int64 [k].
        targets: Where in the batch's array each picture goes, int64 [k].
    """

    key: str
    path: str
    ranks: Int64s
    places: Int64s
    frames: Int64s
    targets: Int64s


def plan_video(meta: Metadata, key: str, places: Int64s, frames: Int64s) -> list[FileFrames]:
    """Return what to read from each video file of a camera.

    An episode begins at frame round(from_timestamp * fps) of its file: counted in whole frames, so that a start time
    that has drifted by a part of a frame does no harm.

    Args:
        meta: The dataset's description.
        key: The camera.
        places: The episode of each picture, as a position in `meta.episodes`, int64 [k].
        frames: The frame in that episode, int64 [k].

    Raises:
        NoFootageError: An episode has no footage of this camera.
    """
    columns = meta.episodes.video(key)
    valid = columns.valid[places]
    if not valid.all():
        raise no_footage(meta, key, int(places[int(np.argmin(valid))]))
    begin = meta.info.rate.frames_at(columns.from_timestamp[places])
    ranks = begin + frames
    return [
        FileFrames(key, video_file(meta.info, key, *number), ranks[rows], places[rows], frames[rows], rows)
        for number, rows in by_file(columns.chunk[places], columns.file[places])
    ]


def no_footage(meta: Metadata, key: str, place: int, path: str | None = None) -> NoFootageError:
    """Return the error for an episode without pictures of a camera."""
    episode = int(meta.episodes.index[place])
    return NoFootageError(
        f"Episode {episode} has no footage of camera {key}.",
        where=path or f"meta/episodes, episode {episode}, videos/{key}",
        found="the file is missing" if path else "null in the episodes table",
        fix="Restore the file, choose other episodes, or open with cameras= without this camera; the tables are fine."
        if path
        else "Choose other episodes, or open with cameras= without this camera; the tables are fine.",
    )
