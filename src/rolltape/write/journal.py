"""An open take's folder, and the threads that keep it up to date.

The recording loop never waits for the disk here: rows are written and files are fsynced by threads of the writer. A
take that is shorter than a fifth of a second and has no cameras never gets a folder.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rolltape.store import local
from rolltape.write.row_log import ROWS_FILE, Piece, RowLog
from rolltape.write.take_note import NOTE, TakeNote, remove_take, write_saved

__all__ = ["FLUSH_EVERY_S", "SYNC_EVERY_S", "Journal", "Keeper"]

FLUSH_EVERY_S = 0.1
"""How often rows are written: half of what may be lost, so that a thread that comes late costs nothing."""

SYNC_EVERY_S = 1.0
"""How often files are fsynced."""

_PATIENCE_S = 10

_GRACE_S = 0.15
"""A take without cameras that is over sooner leaves nothing on the disk."""


class Journal:
    """What is on the disk of one open take.

    Args:
        folder: The take's folder; it is made by `open`.
        note: Gives the take's note, when the folder is made.
        log: Makes the writer of the rows.
        durable: Whether to fsync.

    Attributes:
        folder: The take's folder.
        rows: Gives the frames from a number on.
        error: What went wrong when the take was written; it ends the take.
    """

    def __init__(
        self,
        folder: Path,
        note: Callable[[], TakeNote],
        log: Callable[[Path], RowLog],
        *,
        durable: bool = True,
    ) -> None:
        self.folder = folder
        self.rows: Callable[[int], Piece] | None = None
        self.error: BaseException | None = None
        self._note = note
        self._make_log = log
        self._log: RowLog | None = None
        self._durable = durable
        self._lock = threading.Lock()
        self._opened = time.monotonic()
        self._synced = 0.0
        self._is_there = False
        self._is_open = False
        self._is_over = False

    @property
    def is_on_disk(self) -> bool:
        """Whether the take has a folder."""
        return self._is_there

    def make_folder(self) -> None:
        """Make the folder, which without a note is no take yet."""
        self._is_there = True
        local.make_folder(self.folder, durable=False)

    def open(self) -> None:
        """Make the folder and write the note; it is fsynced a moment later, by the thread.

        Raises:
            OSError: As the file system gave it.
        """
        if self._is_open:
            return
        self.make_folder()
        local.write_atomic(self.folder / NOTE, self._note().to_bytes(), durable=False)
        self._is_open = True

    def flush(self, *, last: bool = False) -> None:
        """Write the rows that are not written yet. What goes wrong is kept in `error`.

        Args:
            last: No rows follow: a take without a folder gets none now, and an earlier error is no reason not to try.
        """
        with self._lock:
            if self.rows is None or ((self._is_over or self.error is not None) and not last):
                return
            if not self._is_there and (last or time.monotonic() - self._opened < _GRACE_S):
                return
            try:
                piece = self.rows(0 if self._log is None else self._log.frames)
                if not piece.count:
                    return
                self.open()
                if self._log is None:
                    self._log = self._make_log(self.folder / ROWS_FILE)
                self._log.append(piece)
            except Exception as error:  # whatever it is, the take must not go on as if it were safe
                self.error = error

    def sync(self) -> None:
        """Fsync all files of the take, once a second. What goes wrong is kept in `error`."""
        if not self._durable or not self._is_open or self._is_over or self.error is not None:
            return
        now = time.monotonic()
        if now - self._synced < SYNC_EVERY_S:
            return
        try:
            if not self._synced:
                for folder in (self.folder, self.folder.parent, self.folder.parent.parent):
                    local.fsync_folder(folder)
            for path in sorted(self.folder.iterdir()):
                if path.suffix not in (".spool", ".tmp"):
                    local.fsync_file(path)
        except OSError as error:
            if not self._is_over:
                self.error = error
        self._synced = now

    def seal(self, fields: Mapping[str, Any]) -> None:
        """Write the last rows and the user's fields, so that a stop before the commit loses nothing.

        The take is saved all the same when that fails: its episode is about to be on the disk.
        """
        self.flush(last=True)
        self._end()
        if self._is_there:
            with contextlib.suppress(OSError, TypeError, ValueError):
                write_saved(self.folder, fields)

    def leave(self) -> None:
        """Write the last rows and nothing after them; the take stays on the disk.

        Raises:
            OSError: As the file system gave it.
        """
        self.open()
        self.flush(last=True)
        self._end()

    def disown(self) -> None:
        """Make what is on the disk count no more: without its note it is no take. Nothing is written any more.

        Raises:
            OSError: As the file system gave it.
        """
        self._end()
        if self._is_there:
            local.remove_file(self.folder / NOTE)

    def remove(self) -> None:
        """Remove the take from the disk.

        Raises:
            OSError: As the file system gave it.
        """
        self.disown()
        if self._is_there:
            remove_take(self.folder)

    def _end(self) -> None:
        with self._lock:
            self._is_over = True


class Keeper:
    """The threads of a writer that keep its open take's folder up to date: one writes rows, one fsyncs."""

    def __init__(self, *, durable: bool = True) -> None:
        self.journal: Journal | None = None
        self._durable = durable
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    def watch(self, journal: Journal) -> None:
        """Take over a take's folder, in place of the one before."""
        self.journal = journal
        if not self._threads:
            self._start("flush", Journal.flush)
            if self._durable:
                self._start("sync", Journal.sync)

    def close(self) -> None:
        """End the threads. A disk that does not answer is not waited for for ever."""
        self.journal = None
        self._closed.set()
        for thread in self._threads:
            thread.join(_PATIENCE_S)
        self._threads = []

    def _start(self, name: str, action: Callable[[Journal], None]) -> None:
        target = (weakref.ref(self), self._closed, action)
        thread = threading.Thread(target=_keep, args=target, name=f"take {name}", daemon=True)
        self._threads.append(thread)
        thread.start()


def _keep(keeper: weakref.ref[Keeper], closed: threading.Event, action: Callable[[Journal], None]) -> None:
    while not closed.wait(FLUSH_EVERY_S):
        found = keeper()
        if found is None:
            return
        journal = found.journal
        del found
        if journal is not None:
            action(journal)
        del journal
