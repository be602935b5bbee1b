"""Recordings in processes of their own, forked from a server that has everything imported, and ended in the middle."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from crash.faults import Layer, Operation, watched
from crash.story import Progress, Teller, tell

__all__ = ["EXIT", "quiet", "start", "tell_and_exit"]

EXIT = 77
"""The exit status of a process that was stopped at its operation."""

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["crash.preloaded"])


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Run a function of a module in a process of its own."""
    process = _server.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def tell_and_exit(
    root: Path,
    report: Path,
    number: int,
    phase: Literal["before", "half", "after"],
    background: bool,
    encoder: str,
) -> None:
    """Tell the story up to an operation, then end the process at once; `report` gets how far it had come."""
    quiet(report)
    teller = Teller()

    def leave(operation: Operation) -> None:
        if (operation.number, operation.background) == (number, background):
            progress: Progress = teller.progress
            report.write_bytes(pickle.dumps((progress, operation)))
            os._exit(EXIT)

    def half(operation: Operation, arguments: tuple[Any, ...]) -> None:
        if operation.number == number and operation.background == background and operation.name == "write_file":
            with layer.deaf():
                path, data = Path(arguments[0]), bytes(arguments[1])
                path.write_bytes(data[: len(data) // 2])
            leave(operation)

    layer = Layer(
        root,
        leave if phase == "before" else None,
        after=leave if phase == "after" else None,
        middle=half if phase == "half" else None,
    )
    with watched(layer):
        tell(root, teller, encoder)
    report.write_bytes(pickle.dumps((teller.progress, None)))


def quiet(report: Path) -> None:
    """What encoders and warnings print goes to a file beside the report."""
    log = os.open(report.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout.flush()
