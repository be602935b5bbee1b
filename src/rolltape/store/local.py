"""The local file system: every change a writer makes to a dataset goes through these few functions.

Reading opens files in the ordinary way; only what creates, replaces or removes is gathered here, so that durability
has one meaning (`fsync` of the file before its rename, of the folder after it) and faults can be put in at one place.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
from pathlib import Path
from types import TracebackType

from rolltape.errors import DamagedFileError, ReadOnlyError

__all__ = [
    "TEMPORARY_SUFFIX",
    "MappedFile",
    "MappedSpace",
    "allocate_file",
    "append_file",
    "fsync_file",
    "fsync_folder",
    "is_lfs_pointer",
    "link",
    "make_folder",
    "remove_file",
    "remove_folder_if_empty",
    "remove_tree",
    "rename",
    "tree_size",
    "write_atomic",
    "write_file",
]

TEMPORARY_SUFFIX = ".tmp"
"""How temporary names end. Nothing that ends in `.parquet` may lie in a dataset unless it is part of it."""

_LFS_HEAD = b"version https://git-lfs"


def write_file(path: Path, data: bytes | memoryview, *, durable: bool = True) -> None:
    """Write a whole file under its own (temporary) name, fsynced when `durable`."""
    with open(path, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def append_file(path: Path, data: bytes | memoryview) -> None:
    """Add bytes to the end of a file, making it if it is missing; with an error nothing is added.

    They are handed to the system at once, so they outlive the process from then on.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
    try:
        before = os.fstat(descriptor).st_size
        view = memoryview(data).cast("B")
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def allocate_file(path: Path, size: int) -> None:
    """Make a file of `size` bytes whose room on the disk is really taken; with an error there is no file.

    Raises:
        OSError: If there is not that much room (`ENOSPC`).
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, size)
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Make a file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_folder(path: Path) -> None:
    """Make the names in a folder durable. File systems that cannot do it for folders are left alone."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Put a file in place of another, or of none, in one step. Both are on the same file system."""
    os.replace(source, target)


def link(source: Path, target: Path) -> None:
    """Give a file a second name where the file system can, else copy it."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copyfile(source, target)


def make_folder(path: Path, *, durable: bool = True) -> None:
    """Make a folder and those above it that are missing.

    Raises:
        ReadOnlyError: If the place cannot be written to.
    """
    missing = [path, *path.parents]
    missing = missing[: next((i for i, one in enumerate(missing) if one.exists()), len(missing))]
    try:
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            if durable:
                fsync_folder(folder.parent)
    except PermissionError as error:
        raise ReadOnlyError("The folder cannot be made.", where=path, found=error.strerror) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise ReadOnlyError("The folder cannot be made.", where=path, found=error.strerror) from error
        raise


def remove_file(path: Path) -> None:
    """Remove a file. That it is gone already is no error."""
    path.unlink(missing_ok=True)


def remove_folder_if_empty(path: Path) -> bool:
    """Remove a folder when nothing is in it, and return whether it is gone."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def remove_tree(path: Path) -> None:
    """Remove a folder and all in it. That it is gone already is no error."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def write_atomic(path: Path, data: bytes | memoryview, *, durable: bool = True) -> None:
    """Replace a file's content in one step: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        write_file(temporary, data, durable=durable)
        rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if durable:
        fsync_folder(path.parent)


def is_lfs_pointer(head: bytes | memoryview) -> bool:
    """Return whether a file's first bytes are those of a Git LFS pointer instead of the content."""
    return bytes(head[: len(_LFS_HEAD)]) == _LFS_HEAD


def tree_size(root: Path) -> int:
    """Return the bytes of all files below a folder; links are not followed."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total


class MappedFile:
    """A file mapped read-only into memory.

    Attributes:
        view: The bytes.

    Raises:
        DamagedFileError: If the file is missing or empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise DamagedFileError("The file is missing.", path=str(path)) from error
        try:
            if os.fstat(descriptor).st_size == 0:
                raise DamagedFileError("The file is empty (zero bytes).", path=str(path))
            self._map = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self.view = memoryview(self._map)

    def __len__(self) -> int:
        return len(self._map)

    def close(self) -> None:
        """Unmap the file. Where views of it are still in use, it is unmapped with the last of them."""
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()

    def __enter__(self) -> MappedFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class MappedSpace:
    """A file of fixed size, mapped for writing. What is written is the file's at once, also when the process is killed.

    Attributes:
        view: The bytes, writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR)
        try:
            self._map = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        self.view = memoryview(self._map)

    def __len__(self) -> int:
        return len(self._map)

    def close(self) -> None:
        """Unmap the file. Where views of it are still in use, it is unmapped with the last of them."""
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()
