"""The folder of a new dataset: whether it may be used, and what is removed when a dataset is to be replaced."""

from __future__ import annotations

from pathlib import Path

from rolltape.errors import DatasetExistsError, RolltapeError
from rolltape.format import identify
from rolltape.format.paths import INFO_PATH, WORK_FOLDER
from rolltape.store import RootLock, local
from rolltape.write.takes import refuse_open_takes

__all__ = ["claim"]

_PARTS = (
    INFO_PATH,
    "meta",
    "data",
    "videos",
    "images",
    "README.md",
    ".gitattributes",
    ".cache",
    ".git",
    ".huggingface",
)


def claim(root: Path, *, overwrite: bool = False, durable: bool = True) -> RootLock:
    """Return the lock of a folder in which a new dataset can be made; the folder is made if it is missing.

    Args:
        root: The folder. It may exist if it is empty.
        overwrite: Whether a dataset that is there is removed. Anything else never is.
        durable: Whether to fsync.

    Raises:
        DatasetExistsError: If a dataset or other files are there. Nothing is removed.
        OpenTakeError: If a recording that was killed left an open episode there.
        LockedError: If another writer holds it.
        ReadOnlyError: If it cannot be written to.
    """
    if root.exists() and not root.is_dir():
        raise DatasetExistsError("There is a file where the dataset's folder would be.", where=root)
    there = _content(root)
    if there and not (overwrite and _is_dataset(root)):
        raise _taken(root, there)
    foreign = [name for name in there if name not in _PARTS]
    if foreign:
        raise DatasetExistsError(
            "The folder holds more than the dataset, so it is not replaced.",
            where=root,
            found=", ".join(foreign[:8]),
            fix="Move these away, or record into another folder. Nothing was removed.",
        )
    local.make_folder(root, durable=durable)
    lock = RootLock(root, "recording")
    lock.acquire()
    try:
        if not overwrite:
            refuse_open_takes(root)
        if there:
            for part in _PARTS:
                local.remove_tree(root / part)
        for path in sorted((root / WORK_FOLDER).iterdir()):
            if path.name != "owner.json":
                local.remove_tree(path)
    except BaseException:
        lock.release()
        raise
    return lock


def _content(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != WORK_FOLDER) if root.is_dir() else []


def _is_dataset(root: Path) -> bool:
    try:
        identify(root)
    except RolltapeError:
        return False
    return (root / INFO_PATH).is_file()


def _taken(root: Path, there: list[str]) -> DatasetExistsError:
    if _is_dataset(root):
        return DatasetExistsError(
            "There is a dataset in this folder already.",
            where=root,
            fix="Append to it with resume (Writer.resume, LeRobotDataset.resume, --resume=true), replace it with "
            "overwrite=True, or record into another folder.",
        )
    return DatasetExistsError(
        "The folder is not empty and holds no dataset.",
        where=root,
        found=", ".join(there[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else ""),
        fix="Record into another folder. Nothing was removed.",
    )
