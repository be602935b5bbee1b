"""The folder of a new dataset: whether it may be used, and what is removed when a dataset is to be replaced."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rolltape.errors import DatasetExistsError, RolltapeError
from rolltape.format import identify
from rolltape.format.paths import INFO_PATH, WORK_FOLDER
from rolltape.store import RootLock, local
from rolltape.write.takes import refuse_open_takes

__all__ = ["claim"]

_PARTS = (INFO_PATH, "meta", "data", "videos", "images", "README.md", ".gitattributes", ".cache", ".huggingface")
_OWN = re.compile(
    r"README\.md|\.gitattributes|\.huggingface/.*|\.cache/huggingface/.*"
    r"|meta/(info|stats)\.json|meta/(tasks|episodes|episodes_stats)\.jsonl|meta/tasks\.parquet|meta/quantiles\.npz"
    r"|(meta/episodes|data)/(.*/)?(file-|episode_)\d+\.parquet|videos/(.*/)?(file-|episode_)\d+\.mp4"
    r"|images/(.*/)?frame[-_]\d+\.(png|tiff?|jpe?g)"
    r"|(meta|data|videos)/.*" + re.escape(local.TEMPORARY_SUFFIX),
    re.DOTALL,
)
"""The files that a dataset consists of, in any layout; whatever else lies among them belongs to somebody."""


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
    foreign = _foreign(root, there)
    if foreign:
        raise DatasetExistsError(
            "The folder holds more than the dataset, so it is not replaced.",
            where=root,
            found=", ".join(foreign[:8]) + (f" and {len(foreign) - 8} more" if len(foreign) > 8 else ""),
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


def _foreign(root: Path, there: list[str]) -> list[str]:
    """Return what is no part of the dataset: other things in the folder, and other files among the dataset's own."""
    found = [name for name in there if name not in _PARTS]
    for part in (root / name for name in there if name in _PARTS):
        for folder, folders, names in os.walk(part) if part.is_dir() and not part.is_symlink() else ():
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*names, *links):
                path = Path(folder, name).relative_to(root).as_posix()
                if not (_OWN.fullmatch(path) or name in links):
                    found.append(path)
    return sorted(found)


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
