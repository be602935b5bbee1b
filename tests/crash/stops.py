"""Stops at every operation, as copies of the folder, and the recovery from each, which is stopped everywhere too."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from crash.faults import Layer, Operation, copy_tree, watched
from crash.story import ENCODERS, Progress, Take, Teller, Truth, verify
from rolltape.errors import DatasetNotFoundError, RolltapeError
from rolltape.write import Writer, change

__all__ = ["Stop", "Sweep", "recover_everywhere", "recover_once", "stop_everywhere", "tree_digest"]

AFTERWARDS = Take(50, 2)
"""What is recorded after a recovery."""


@dataclass(frozen=True)
class Stop:
    """What a stop left.

    Attributes:
        operation: Where the writer was stopped.
        phase: "before" the operation, or with part of its work done: "half" or "empty".
        folder: A copy of the dataset's folder.
        progress: How far the recording had come.
        digest: Of all names and contents: equal digests are equal folders.
    """

    operation: Operation
    phase: Literal["before", "half", "empty", "end"]
    folder: Path
    progress: Progress
    digest: str

    def __str__(self) -> str:
        return f"{self.phase} {self.operation}"


@dataclass
class Sweep:
    """All stops of one recording.

    Attributes:
        stops: The stops. Several may share a folder.
        operations: Every operation there was.
    """

    stops: list[Stop] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    @property
    def distinct(self) -> list[Stop]:
        """One stop for each folder and progress that differ."""
        return list({(stop.digest, stop.progress): stop for stop in self.stops}.values())


def tree_digest(root: Path, *, open_takes: bool = True) -> str:
    """Return a digest of a folder: its names and contents; who holds the lock is left out.

    Args:
        root: The folder.
        open_takes: Whether open takes count: how much of one is there at a moment is up to threads and encoders.
    """
    total = hashlib.sha256()
    for folder, folders, names in os.walk(root):
        if not open_takes and Path(folder).name == ".rolltape":
            folders.clear()
        folders.sort()
        total.update(f"{os.path.relpath(folder, root)}/\n".encode())
        for name in sorted(names):
            unsteady = name.startswith("owner.json") or (not open_takes and _is_open_video(Path(folder, name)))
            content = b"" if unsteady else Path(folder, name).read_bytes()
            total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def _is_open_video(path: Path) -> bool:
    return ".rolltape" in path.parts and ".mp4" in path.name


def stop_everywhere(
    root: Path,
    copies: Path,
    act: Callable[[], Any],
    progress: Callable[[], Progress],
    *,
    quick: bool = True,
    cut: Literal["emptied", "zeroed"] | None = None,
) -> Sweep:
    """Do something with a dataset, and keep what a stop at each of its operations would leave.

    Args:
        root: The dataset's folder.
        copies: Where the copies go.
        act: What is done.
        progress: How far it has come; asked at every operation.
        quick: Whether fsyncs are only counted.
        cut: Cut the power instead of stopping the process: files that were not fsynced since they were written are
            empty, or zeros, in the copies.
    """
    sweep = Sweep()
    synced = Synced()
    known: dict[str, Path] = {}
    serial = itertools.count()

    def keep(operation: Operation, phase: Any, damage: Callable[[Path], None] | None = None) -> None:
        copy = copies / f"{next(serial):05d}"
        if root.exists():
            copy_tree(root, copy)
        else:
            copy.mkdir(parents=True)
        if damage is not None:
            damage(copy)
        if cut is not None:
            synced.cut_power(copy, zeros=cut == "zeroed")
        digest = tree_digest(copy)
        if digest in known:
            shutil.rmtree(copy)
        sweep.stops.append(Stop(operation, phase, known.setdefault(digest, copy), progress(), digest))

    def before(operation: Operation) -> None:
        with layer.deaf():
            keep(operation, "before")

    def middle(operation: Operation, arguments: tuple[Any, ...]) -> None:
        with layer.deaf():
            for phase, damage in _halves(operation, arguments):
                keep(operation, phase, damage)

    layer = Layer(root, before, middle=middle if cut is None else None, done=synced.follow, quick=quick)
    with watched(layer):
        act()
    sweep.operations = layer.operations
    keep(Operation(len(layer.operations), "end", "."), "end")
    return sweep


class Synced:
    """Which files would outlive a power cut, as the operations went."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def follow(self, operation: Operation, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Take note of an operation that was done."""
        path = os.path.abspath(arguments[0])
        match operation.name:
            case "write_file":
                self._mark(path, options.get("durable", True))
            case "append_file":
                self._mark(path, False)
            case "fsync_file":
                self._mark(path, True)
            case "rename" | "link":
                self._mark(os.path.abspath(arguments[1]), path in self._paths)

    def _mark(self, path: str, synced: bool) -> None:
        (self._paths.add if synced else self._paths.discard)(path)

    def cut_power(self, copy: Path, *, zeros: bool) -> None:
        """Take away from a copy what was not fsynced."""
        for path in copy.rglob("*"):
            if path.is_file() and not any(one.endswith(f"/{path.relative_to(copy)}") for one in self._paths):
                path.write_bytes(bytes(path.stat().st_size) if zeros else b"")


def _halves(operation: Operation, arguments: tuple[Any, ...]) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield what a stop within an operation leaves: part of the bytes, part of the removals."""
    if operation.name == "write_file":
        data = bytes(arguments[1])
        yield "empty", lambda copy: _write(copy / operation.path, b"")
        yield "half", lambda copy: _write(copy / operation.path, data[: len(data) // 2])
    elif operation.name == "append_file":
        added = bytes(arguments[1])
        yield "half", lambda copy: _append(copy / operation.path, added[: len(added) // 2])
    elif operation.name == "allocate_file":
        yield "half", lambda copy: _write(copy / operation.path, bytes(int(arguments[1]) // 2))
    elif operation.name == "remove_tree":
        yield "half", lambda copy: _remove_half(copy / operation.path)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _remove_half(path: Path) -> None:
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else []
    for one in files[: (len(files) + 1) // 2]:
        one.unlink()


def fresh_names() -> None:
    """Let staged names start again, as they do in a new process."""
    change._NUMBERS = itertools.count()


def resume(root: Path, recover: Literal["keep", "drop"], encoder: str = "h264") -> Writer:
    """Open a folder for writing as a new process does."""
    fresh_names()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Writer.resume(root, recover, rgb_encoder=ENCODERS[encoder])


def after_recovery(progress: Progress, recover: Literal["keep", "drop"]) -> list[tuple[Take, ...]]:
    """Return what a dataset may hold after a recovery: the open take comes back up to some frame, or not at all."""
    possible = list(progress.possible)
    if recover == "keep" and progress.taken is not None:
        taken = progress.taken
        # The frame that was being added may be whole, though its add_frame has not returned.
        parts = [Take(taken.number, frames) for frames in range(1, taken.frames + 2)]
        possible += [(*held, part) for held in progress.possible if taken not in held for part in parts]
    return possible


def recover_once(
    root: Path,
    progress: Progress,
    truth: Truth | None = None,
    *,
    recover: Literal["keep", "drop"] = "keep",
    encoder: str = "h264",
    goes_on: bool = True,
) -> tuple[Take, ...]:
    """Recover a folder, hold it against what it must be, record another episode, and look again.

    Returns:
        The takes it held after the recovery.
    """
    try:
        writer = resume(root, recover, encoder)
    except DatasetNotFoundError:
        assert () in progress.possible, "committed episodes are gone"
        return ()
    writer.close()
    assert not (root / ".rolltape").exists(), "the work folder is still there"
    takes = verify(root, after_recovery(progress, recover), truth, checked=True)
    if goes_on:
        writer = resume(root, recover, encoder)
        teller = Teller()
        try:
            teller.record(writer, AFTERWARDS)
        finally:
            writer.close()
        verify(root, [(*takes, AFTERWARDS)], truth, checked=True)
    return takes


def recover_everywhere(
    stop: Stop,
    room: Path,
    truth: Truth | None = None,
    *,
    recover: Literal["keep", "drop"] = "keep",
    encoder: str = "h264",
    seen: set[tuple[str, Progress]] | None = None,
) -> int:
    """Stop the recovery of a folder everywhere, recover from each of those stops, and return how many there were.

    Args:
        stop: What is recovered.
        room: An empty folder to work in.
        truth: The decoded pictures of whole takes.
        recover: What becomes of an open take.
        encoder: The encoder.
        seen: Folders that were recovered already, and need not be again; those of this call are added.
    """
    root = room / "set"
    copy_tree(stop.folder, root)

    def act() -> None:
        try:
            resume(root, recover, encoder).close()
        except RolltapeError:
            assert () in stop.progress.possible

    sweep = stop_everywhere(root, room / "copies", act, lambda: stop.progress)
    for inner in sweep.distinct:
        if seen is not None:
            if (inner.digest, inner.progress) in seen:
                continue
            seen.add((inner.digest, inner.progress))
        try:
            verify(inner.folder, after_recovery(stop.progress, recover), truth)
            recover_once(inner.folder, stop.progress, truth, recover=recover, encoder=encoder, goes_on=False)
        except BaseException as error:
            error.add_note(f"recovery stopped {inner} after the recording was stopped {stop}")
            raise
    return len(sweep.stops)
