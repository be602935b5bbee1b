"""The end of the process: recordings that were not closed are closed, so that nothing half done stays behind."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from types import FrameType
from typing import Protocol

__all__ = ["forget", "watch"]


class _Closable(Protocol):
    def close(self) -> None: ...


_open: dict[int, tuple[int, weakref.ref[_Closable]]] = {}
_registered = False


def watch(writer: _Closable) -> None:
    """Close a writer at the end of the process, also when SIGTERM ends it.

    SIGTERM gets a handler only in the main thread and only while nobody else has one; it ends the process in the
    ordinary way, with its usual status, so that `finally` blocks run.
    """
    global _registered
    if not _registered:
        atexit.register(_close_all)
        _registered = True
    _open[id(writer)] = (os.getpid(), weakref.ref(writer))
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def forget(writer: _Closable) -> None:
    """Stop watching a writer that is closed."""
    _open.pop(id(writer), None)
    if not _open and _in_main_thread() and signal.getsignal(signal.SIGTERM) == _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _close_all() -> None:
    for pid, reference in list(_open.values()):
        writer = reference()
        if writer is not None and pid == os.getpid():
            writer.close()


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
