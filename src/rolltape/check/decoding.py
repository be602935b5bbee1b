"""The deep look at a video: every picture decoded once."""

from __future__ import annotations

from pathlib import Path

from rolltape.errors import RolltapeError
from rolltape.video.decode import VideoFile
from rolltape.video.index import MediaIndex

__all__ = ["undecodable"]

_AT_ONCE = 64


def undecodable(path: Path, index: MediaIndex) -> tuple[int, RolltapeError] | None:
    """Return the first picture that cannot be decoded, by rank, and the decoder's error; None when all can."""
    with VideoFile(path) as video:
        for begin in range(0, index.n, _AT_ONCE):
            ranks = range(begin, min(begin + _AT_ONCE, index.n))
            try:
                video.frames(ranks)
            except RolltapeError:
                for rank in ranks:
                    try:
                        video.frames([rank])
                    except RolltapeError as error:
                        return rank, error
    return None
