"""Ctrl-C, SIGTERM and a closed terminal: the first one asks the loop to stop, the second one breaks off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rolltape.record.events import Control

__all__ = ["stopping_on_signals"]


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def stopping_on_signals(control: Control) -> Iterator[None]:
    """Within the block, SIGINT, SIGTERM and SIGHUP set `control.stopped_by`; a second one raises KeyboardInterrupt.

    In another thread than the main one nothing is changed: only there Python can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if control.stopped:
            raise KeyboardInterrupt
        control.stop(signal.Signals(number).name)

    # What whoever started the process ignores (nohup, a job in the background) stays ignored.
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
