"""Commits that were put off for a moment are made by a thread, so that none waits for the next save."""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

__all__ = ["LateCommits"]

_GLANCE_S = 0.05


class _Committing(Protocol):
    def commit_late(self) -> None: ...


class LateCommits:
    """A thread that asks a writer from time to time to commit what waits. It ends with the writer.

    Args:
        writer: The writer, of which only a weak reference is kept.
    """

    def __init__(self, writer: _Committing) -> None:
        self._closed = threading.Event()
        target = (weakref.ref(writer), self._closed)
        threading.Thread(target=_commit, args=target, name="late commits", daemon=True).start()

    def close(self) -> None:
        """End the thread. It is not waited for: it may be waiting for its turn."""
        self._closed.set()


def _commit(writer: weakref.ref[_Committing], closed: threading.Event) -> None:
    while not closed.wait(_GLANCE_S):
        found = writer()
        if found is None:
            return
        found.commit_late()
        del found
