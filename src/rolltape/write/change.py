"""Changes of several files that come into a dataset together, in a given order, or not at all.

Everything is staged in `.rolltape` and fsynced, the intent is written down, and only then the files are renamed into
place, one after the other. When a step fails, the steps before it are taken back, and what was staged is staged again,
so the same change can be tried once more.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolltape.format.paths import TASKS_PATH, WORK_FOLDER, safe_join
from rolltape.store import Intent, local

__all__ = ["Change", "is_as_before", "remove_empty_folders", "remove_spent", "staging_name", "take_back"]

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class _Step:
    target: str
    staged: str
    owned: bool
    mark: str


class Change:
    """A set of files on their way into a dataset.

    Args:
        root: The dataset's folder, whose lock is held.
        kind: What the change is, for recovery: `commit` or `pack`.
        durable: Whether to fsync. Without it a power cut can lose the change; a killed process cannot.

    Attributes:
        written: Bytes that were staged so far.
        is_stuck: Whether the change failed half way and could not be taken back, or could not be brought to its very
            end: recovery has to finish it.
    """

    def __init__(self, root: Path, kind: str, *, durable: bool = True) -> None:
        self.root = root
        self.kind = kind
        self.durable = durable
        self.written = 0
        self.is_stuck = False
        self._steps: list[_Step] = []
        self._waiting: list[Path] = []

    def add_bytes(self, target: str, data: bytes | memoryview | Any) -> None:
        """Stage a file's whole content."""
        staged = staging_name(target)
        view = memoryview(data)
        local.write_file(self.root / staged, view, durable=False)
        self.written += view.nbytes
        self._add(target, staged, owned=True, mark=_mark(view))

    def add_file(self, target: str, staged: str) -> None:
        """Take a file that was staged already, such as a video. After a failure it is there again."""
        self.written += os.path.getsize(self.root / staged)
        self._add(target, staged, owned=False, mark=file_mark(self.root / staged) or "")

    def _add(self, target: str, staged: str, *, owned: bool, mark: str) -> None:
        safe_join(self.root, target)
        self._steps.append(_Step(target, staged, owned, mark))
        self._waiting.append(self.root / staged)

    def apply(
        self, facts: Mapping[str, Any] | None = None, delete_later: tuple[str, ...] = (), spent: tuple[str, ...] = ()
    ) -> None:
        """Make the change: all files in place in the order in which they were added, or none of them.

        Args:
            facts: What recovery needs to know, see `rolltape.write.recover`.
            delete_later: Files that nothing points to any more once the change is done.
            spent: Files that are removed with the change: the notes of takes that it makes episodes of. They go before
                the intent does, so that no take becomes an episode twice.

        Raises:
            OSError: As the file system gave it. The dataset is as it was before.
        """
        replaced = {step.target for step in self._steps if (self.root / step.target).exists()}
        backup = {target: staging_name(target) for target in sorted(replaced)}
        done: list[_Step] = []
        try:
            self._prepare(backup)
            Intent(
                self.kind,
                create={step.target: step.staged for step in self._steps if step.target not in replaced},
                replace={step.target: step.staged for step in self._steps if step.target in replaced},
                backup=backup,
                delete_later=delete_later,
                facts={
                    **(facts or {}),
                    "order": [step.target for step in self._steps],
                    "marks": {step.target: step.mark for step in self._steps},
                    "spent": list(spent),
                },
            ).write(self.root, durable=self.durable)
            for step in self._steps:
                done.append(step)
                local.rename(self.root / step.staged, self.root / step.target)
            if self.durable:
                for folder in dict.fromkeys((self.root / step.target).parent for step in self._steps):
                    local.fsync_folder(folder)
        except BaseException:
            self._undo(done, backup)
            raise
        self.is_stuck = not _attempt(lambda: remove_spent(self.root, spent, durable=self.durable))
        if not self.is_stuck:
            _attempt(lambda: self._forget(backup))

    def _prepare(self, backup: Mapping[str, str]) -> None:
        if self.durable:
            for path in self._waiting:
                local.fsync_file(path)
        self._waiting = []
        for folder in dict.fromkeys((self.root / step.target).parent for step in self._steps):
            if not folder.is_dir():
                local.make_folder(folder, durable=self.durable)
        for target, copy in backup.items():
            local.link(self.root / target, self.root / copy)

    def _undo(self, done: list[_Step], backup: Mapping[str, str]) -> None:
        """Put everything back, and go on past what cannot be: recovery finishes it from the intent."""
        whole = True
        for step in reversed(done):
            whole &= _attempt(lambda step=step: self._restage(step, backup.get(step.target)))  # type: ignore[misc]  # bound
        self.is_stuck = not whole
        if whole:
            for step in self._steps:
                _attempt(lambda step=step: remove_empty_folders(self.root, step.target))  # type: ignore[misc]  # bound
            _attempt(lambda: self._forget(backup))

    def _restage(self, step: _Step, backup: str | None) -> None:
        staged, target = self.root / step.staged, self.root / step.target
        if staged.exists():
            return
        if backup is None:
            local.rename(target, staged)
        else:
            local.link(target, staged)
            local.rename(self.root / backup, target)

    def _forget(self, backup: Mapping[str, str]) -> None:
        Intent.clear(self.root, durable=False)
        for copy in backup.values():
            local.remove_file(self.root / copy)

    def discard(self) -> None:
        """Remove what was staged here and is not in place. Files that were staged by others stay with them.

        After a failure that could not be taken back everything stays, for recovery goes by it.
        """
        if self.is_stuck:
            return
        for step in self._steps:
            if step.owned:
                _attempt(lambda step=step: local.remove_file(self.root / step.staged))  # type: ignore[misc]  # bound
        self._steps = []


def staging_name(target: str) -> str:
    """Return a fresh name in the work folder for a target, relative to the root."""
    return f"{WORK_FOLDER}/{next(_NUMBERS):08d}-{target.rsplit('/', 1)[-1]}{local.TEMPORARY_SUFFIX}"


def remove_spent(root: Path, spent: Sequence[str], *, durable: bool) -> None:
    """Remove the notes of takes that have become episodes."""
    for path in spent:
        local.remove_file(safe_join(root, path))
    if durable:
        for folder in dict.fromkeys((root / path).parent for path in spent):
            if folder.is_dir():
                with contextlib.suppress(OSError):  # the names are gone; only a power cut now could bring them back
                    local.fsync_folder(folder)


def take_back(root: Path, intent: Intent) -> None:
    """Take back what an intent's change had done before a stop: new files go, replaced ones are as they were.

    A file that another program has written since is that program's, and stays as it is.
    """
    order = list(intent.facts.get("order", ()))
    gone_on_with = not all(_is_ours(root, intent, one) or is_as_before(root, intent, one) for one in order)
    for target in reversed(order):
        backup = intent.backup.get(target)
        # Its rows may have the new numbers of a task table that it did not have to write again.
        ours = _is_ours(root, intent, target) and not (gone_on_with and target == TASKS_PATH)
        if backup is not None:
            if ours and (root / backup).exists():
                local.rename(root / backup, root / target)
                local.remove_file(root / backup)
        elif ours and target in intent.create and not (root / intent.create[target]).exists():
            local.remove_file(root / target)
            remove_empty_folders(root, target)


def is_as_before(root: Path, intent: Intent, target: str) -> bool:
    """Return whether a target is as it was before an intent's change, so that the change may go on with it."""
    backup = intent.backup.get(target)
    if backup is None:
        return not (root / target).exists()
    return file_mark(root / backup) in (None, file_mark(root / target))


def _is_ours(root: Path, intent: Intent, target: str) -> bool:
    """Return whether a target is not there, or has the content that an intent's change gave it."""
    wanted = intent.facts.get("marks", {}).get(target)
    found = file_mark(root / target)
    return wanted is None or found in (None, wanted)


def file_mark(path: Path) -> str | None:
    """Return what tells a file's content from any other that might stand in its place, or None if there is no file."""
    try:
        with open(path, "rb") as file:
            nbytes = crc = 0
            while piece := file.read(1 << 20):
                nbytes, crc = nbytes + len(piece), zlib.crc32(piece, crc)
    except FileNotFoundError:
        return None
    return f"{nbytes}-{crc:08x}"


def _mark(data: memoryview) -> str:
    return f"{data.nbytes}-{zlib.crc32(data):08x}"


def remove_empty_folders(root: Path, target: str) -> None:
    """Remove the folders above a path that have nothing in them, up to the root."""
    folder = (root / target).parent
    while folder != root and local.remove_folder_if_empty(folder):
        folder = folder.parent


def _attempt(action: Callable[[], None]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True
