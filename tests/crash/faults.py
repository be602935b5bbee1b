"""A layer between the writer and the file system: it counts every operation, and stops or fails at any of them.

A killed process leaves the files as they are at that moment, so a copy of the folder taken before an operation is what
a stop there leaves; `test_stops.py` holds copies and real exits against each other. An audit hook sees what does not go
through `rolltape.store.local`.
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolltape.store import local

__all__ = ["WATCHED", "Layer", "Operation", "copy_tree", "watched"]

_ONLY_READ = {"is_lfs_pointer", "tree_size"}
_MADE_OF_OTHERS = {"write_atomic"}
_SYNCS = {"fsync_file", "fsync_folder"}
WATCHED = tuple(
    name
    for name in local.__all__
    if inspect.isfunction(getattr(local, name)) and name not in _ONLY_READ | _MADE_OF_OTHERS
)
"""The functions of the layer below: each call of one of them is an operation."""

_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"}


@dataclass(frozen=True)
class Operation:
    """One operation of the file system.

    Attributes:
        number: Its place among those of its thread kind.
        name: The function, or the audit event of what went past the layer.
        path: The first path, relative to the root.
        within: The functions of the library that led to it, outermost first.
        background: Whether another thread than the main one did it.
        past_layer: Whether it did not go through `rolltape.store.local`.
    """

    number: int
    name: str
    path: str
    within: tuple[str, ...] = ()
    background: bool = False
    past_layer: bool = False

    @property
    def is_packing(self) -> bool:
        """Whether it is part of packing."""
        return any(name.startswith("rolltape.write.pack.") or name.endswith("Session.pack") for name in self.within)

    def __str__(self) -> str:
        where = "background " if self.background else ""
        return f"{where}{self.number}: {self.name} {self.path} in {' > '.join(self.within[-3:])}"


Before = Callable[[Operation], None]
Middle = Callable[[Operation, tuple[Any, ...]], None]
Done = Callable[[Operation, tuple[Any, ...], dict[str, Any]], None]


class Layer:
    """What is called at each operation below a root, while the layer is in place.

    Args:
        root: Operations outside of it are not looked at.
        before: Called before each operation; it may copy, exit or raise.
        after: Called after each operation.
        middle: Called before each operation too, with its arguments: for what a stop within it would leave.
        done: Called after each operation with its arguments.
        quick: Whether fsyncs are only counted.
    """

    def __init__(
        self,
        root: Path,
        before: Before | None = None,
        *,
        after: Before | None = None,
        middle: Middle | None = None,
        done: Done | None = None,
        quick: bool = True,
    ) -> None:
        self.root = root
        self.before, self.after, self.middle, self.done = before, after, middle, done
        self.quick = quick
        self.operations: list[Operation] = []
        self.lock = threading.RLock()
        self._counts = {False: 0, True: 0}
        self._inside = threading.local()
        self._home = threading.get_ident()

    def note(self, name: str, path: Any, *, past_layer: bool = False) -> Operation | None:
        """Count an operation, or return None for one that lies outside of the root."""
        text = os.path.abspath(os.fspath(path))
        if text != str(self.root) and not text.startswith(f"{self.root}{os.sep}"):
            return None
        background = threading.get_ident() != self._home
        number = self._counts[background]
        self._counts[background] += 1
        found = Operation(
            number, name, os.path.relpath(text, self.root), _library_frames(), background, past_layer=past_layer
        )
        self.operations.append(found)
        return found

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of `store.local` as an operation."""
        name = function.__name__

        @functools.wraps(function)
        def counted(*arguments: Any, **options: Any) -> Any:
            with self.lock:
                operation = self.note(name, arguments[0])
                if operation is not None:
                    if self.before is not None:
                        self.before(operation)
                    if self.middle is not None:
                        self.middle(operation, arguments)
                depth = getattr(self._inside, "depth", 0)
                self._inside.depth = depth + 1
                try:
                    result = None if self.quick and name in _SYNCS else function(*arguments, **options)
                finally:
                    self._inside.depth = depth
                if operation is not None and self.done is not None:
                    self.done(operation, arguments, options)
                if operation is not None and self.after is not None:
                    self.after(operation)
            return result

        return counted

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at an audit event: a change below the root that comes from outside the layer is an operation too."""
        if getattr(self._inside, "depth", 0) or getattr(self._inside, "deaf", False):
            return
        if event == "open":
            path, _, flags = (*arguments, None, None, None)[:3]
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if not writes or not isinstance(path, (str, bytes, os.PathLike)):
                return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        if not isinstance(path, (str, bytes, os.PathLike)) or _called_from_layer():
            return
        self._inside.deaf = True
        try:
            with self.lock:
                operation = self.note(event, os.fsdecode(path), past_layer=True)
                if operation is not None and self.before is not None:
                    self.before(operation)
        finally:
            self._inside.deaf = False

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Let this thread change files without being counted."""
        before = getattr(self._inside, "deaf", False)
        self._inside.deaf = True
        try:
            yield
        finally:
            self._inside.deaf = before


_current: Layer | None = None
_hooked = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _current is not None and (event == "open" or event in _CHANGES):
        _current.heard(event, arguments)


@contextmanager
def watched(layer: Layer) -> Iterator[Layer]:
    """Put a layer in place for the length of a block."""
    global _current, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    assert _current is None
    originals = {name: getattr(local, name) for name in WATCHED}
    fsync = os.fsync
    for name, function in originals.items():
        setattr(local, name, layer.around(function))
    if layer.quick:
        os.fsync = _only_counted
    _current = layer
    try:
        yield layer
    finally:
        _current = None
        os.fsync = fsync
        for name, function in originals.items():
            setattr(local, name, function)


def _only_counted(fd: Any) -> None:
    """Stand in for fsync."""


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder as it is at this moment; a file that goes away meanwhile was not there."""
    target.mkdir(parents=True)
    for folder, folders, names in os.walk(source):
        to = target / os.path.relpath(folder, source)
        for name in folders:
            (to / name).mkdir()
        for name in names:
            try:
                shutil.copyfile(os.path.join(folder, name), to / name)
            except FileNotFoundError:
                continue


def _library_frames() -> tuple[str, ...]:
    names = []
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("rolltape.") and module != "rolltape.store.local":
            names.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back  # type: ignore[assignment]  # the outermost frame has none
    return tuple(reversed(names))


def _called_from_layer() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "rolltape.store.local":
            return True
        frame = frame.f_back  # type: ignore[assignment]  # the outermost frame has none
    return False
