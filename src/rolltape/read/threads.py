"""Persistent threads for decoding: FFmpeg, zlib and Arrow let go of the interpreter lock while they work."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Lock", "run_all", "thread_count"]


class Lock:
    """A lock that is free in a forked child, whatever a thread of the parent held at that moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def free(self) -> None:
        """Forget who held the lock."""
        self._lock = threading.Lock()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_lock = Lock()
_pool: ThreadPoolExecutor | None = None


def _forget() -> None:
    """Start anew in a forked child: the threads do not live on there."""
    global _pool
    _pool = None
    for lock in list(_locks):
        lock.free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def thread_count() -> int:
    """Return how many threads are worth having here: one for each processor that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:
        return max(1, os.cpu_count() or 1)


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        with _lock:
            if _pool is None:
                _pool = ThreadPoolExecutor(min(64, thread_count() + 2), thread_name_prefix="rolltape-read")
    return _pool


def run_all(jobs: Sequence[Callable[[], None]]) -> None:
    """Run all jobs and return when every one has ended. The first error is raised then.

    The caller's thread takes the first job, so that one job costs no hand-over.
    """
    futures: list[Future[None]] = []
    if len(jobs) > 1:
        threads = _threads()
        futures = [threads.submit(job) for job in jobs[1:]]
    try:
        if jobs:
            jobs[0]()
    finally:
        for future in futures:
            future.exception()
    for future in futures:
        future.result()
