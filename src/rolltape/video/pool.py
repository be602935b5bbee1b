"""Open videos, kept for the next read: bounded, shared by threads, never shared with a forked child."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from rolltape.errors import DamagedFileError
from rolltape.video.decode import VideoFile

__all__ = ["DecoderPool"]

Identity = tuple[int, int, int, int]


class _Entry:
    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.users = 0
        self.opening = threading.Lock()
        self.video: VideoFile | None = None


class DecoderPool:
    """Keeps the most recently used videos open.

    A file is known by device, inode, size and modification time: one that was replaced is opened anew. A video in
        use is never
    closed; so more than `limit` are open when more than `limit` are in use at once.

    Args:
        limit: How many videos stay open.

    Example:
        >>> pool = DecoderPool(limit=8)
        >>> with pool.get("front.mp4") as video:                                    # doctest: +SKIP
        ...     pictures = video.read([0, 1, 2])
    """

    def __init__(self, limit: int = 64) -> None:
        self.limit = max(1, limit)
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @contextmanager
    def get(self, path: str | os.PathLike[str]) -> Iterator[VideoFile]:
        """Lend the video at this path.

        Raises:
            DamagedFileError: The file is missing or cannot be read.
            ContainerError: It is not a readable MP4.
        """
        name = os.fspath(path)
        entry = self._lend(name, _identity(name))
        try:
            with entry.opening:
                if entry.video is None:
                    entry.video = VideoFile(name)
            yield entry.video
        finally:
            self._give_back(name, entry)

    def close(self) -> None:
        """Close all videos that are not in use."""
        with self._lock_here():
            idle = [name for name, entry in self._entries.items() if entry.users == 0]
            closing = [self._entries.pop(name) for name in idle]
        _close(closing)

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> DecoderPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, int]:
        return {"limit": self.limit}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # a copy in another process starts empty

    def _lend(self, name: str, identity: Identity) -> _Entry:
        stale: list[_Entry] = []
        with self._lock_here():
            entry = self._entries.get(name)
            if entry is not None and entry.identity != identity:
                del self._entries[name]
                stale = [entry] if entry.users == 0 else []
                entry = None
            if entry is None:
                entry = self._entries[name] = _Entry(identity)
            entry.users += 1
            self._entries.move_to_end(name)
        _close(stale)
        return entry

    def _give_back(self, name: str, entry: _Entry) -> None:
        closing: list[_Entry] = []
        with self._lock_here():
            entry.users -= 1
            current = self._entries.get(name) is entry
            if entry.users == 0 and (not current or entry.video is None):
                closing.append(entry)
                if current:
                    del self._entries[name]
            for other in list(self._entries):
                if len(self._entries) <= self.limit:
                    break
                if self._entries[other].users == 0:
                    closing.append(self._entries.pop(other))
        _close(closing)

    def _lock_here(self) -> threading.Lock:
        """This process's lock. After a fork the pool starts empty: what the parent has open is left to it."""
        if self._pid != os.getpid():
            self._inherited = self._entries
            self._entries, self._lock, self._pid = OrderedDict(), threading.Lock(), os.getpid()
        return self._lock


def _identity(name: str) -> Identity:
    try:
        found = os.stat(name)
    except OSError as error:
        raise DamagedFileError("The video is missing.", path=name, found=error.strerror) from error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _close(entries: list[_Entry]) -> None:
    for entry in entries:
        if entry.video is not None:
            entry.video.close()
