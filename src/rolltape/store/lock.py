"""One writer at a time: a lock on the root folder itself, and a plain file that says who holds it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from datetime import datetime
from pathlib import Path
from types import TracebackType

from rolltape.errors import DatasetNotFoundError, LockedError, ReadOnlyError
from rolltape.format.paths import WORK_FOLDER
from rolltape.store import local

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock
    fcntl = None  # type: ignore[assignment]  # checked before every use

__all__ = ["OWNER_FILE", "RootLock"]

OWNER_FILE = "owner.json"


class RootLock:
    """The right to change a dataset, held by one process at a time.

    The lock is an flock on the root folder, so it ends with the process, however that ends. `.rolltape/owner.json`
    says who holds it; a stale one left by a killed process does no harm.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> with RootLock(root, "recording"):
        ...     (root / ".rolltape" / "owner.json").exists()
        True
    """

    def __init__(self, root: Path, purpose: str) -> None:
        self.root = root
        self.purpose = purpose
        self._descriptor: int | None = None
        self._pid = -1

    @property
    def held(self) -> bool:
        """Whether this object holds the lock, in this process."""
        return self._descriptor is not None and self._pid == os.getpid()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockedError: If another writer holds it; the message names the owner.
            ReadOnlyError: If the folder cannot be written to.
            DatasetNotFoundError: If there is no such folder.
        """
        if self.held:
            return
        try:
            descriptor = os.open(self.root, os.O_RDONLY)
        except FileNotFoundError as error:
            raise DatasetNotFoundError("There is no such folder.", where=self.root) from error
        try:
            self._lock(descriptor)
            if not os.access(self.root, os.W_OK):
                raise ReadOnlyError("The folder cannot be written to.", where=self.root)
            self._sign()
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._pid = descriptor, os.getpid()

    def refuse_held(self) -> None:
        """Refuse to go on while another writer holds the lock. Nothing is changed, the lock is not taken.

        Raises:
            LockedError: If one does; the message names it.
            DatasetNotFoundError: If there is no such folder.
        """
        try:
            descriptor = os.open(self.root, os.O_RDONLY)
        except FileNotFoundError as error:
            raise DatasetNotFoundError("There is no such folder.", where=self.root) from error
        try:
            self._lock(descriptor, shared=True)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Give the lock back and remove the owner's name; `.rolltape` goes with it when nothing else is in it."""
        if self._descriptor is None:
            return
        try:
            if self.held:
                work = self.root / WORK_FOLDER
                with contextlib.suppress(OSError):  # a stale name does no harm, a lock that stays does
                    local.remove_file(work / OWNER_FILE)
                    local.remove_folder_if_empty(work)
        finally:
            os.close(self._descriptor)
            self._descriptor = None

    def _lock(self, descriptor: int, *, shared: bool = False) -> None:
        if fcntl is None:  # pragma: no cover - Windows has no flock
            return
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise LockedError(
                "Another writer holds this dataset.",
                where=self.root,
                found=self._owner(),
                fix="Wait until it is done, or stop it.",
            ) from error

    def _owner(self) -> str:
        try:
            owner = json.loads((self.root / WORK_FOLDER / OWNER_FILE).read_bytes())
            return (
                f"process {owner['pid']} on {owner['host']} ({owner['command']}), "
                f"{owner['purpose']} since {owner['since']}"
            )
        except (OSError, ValueError, KeyError, TypeError):
            return "a process that left no name"

    def _sign(self) -> None:
        work = self.root / WORK_FOLDER
        local.make_folder(work, durable=False)
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": os.path.basename(sys.argv[0] or "python"),
            "purpose": self.purpose,
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        local.write_atomic(work / OWNER_FILE, json.dumps(owner).encode(), durable=False)

    def __enter__(self) -> RootLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
