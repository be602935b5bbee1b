"""Ctrl-C and SIGTERM during a write: what is half done is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["deferred"]

_SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM))


@contextmanager
def deferred() -> Iterator[None]:
    """Hold back SIGINT and SIGTERM until the block is done, then deliver them as if they had just come.

    Only the main thread is interrupted by signals, so in any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []

    def remember(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    before: dict[int, Any] = {}
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if handler is not None and handler != signal.SIG_IGN:
            before[number] = handler
            signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if arrived:
            _deliver(*arrived[0], before[arrived[0][0]])


def _deliver(number: int, frame: FrameType | None, handler: Any) -> None:
    if callable(handler):
        handler(number, frame)
    else:
        signal.raise_signal(number)
