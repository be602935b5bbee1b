"""Opening the Parquet files of a dataset: what is wrong with one is said by name, before Arrow says it its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rolltape.errors import DamagedFileError
from rolltape.format.paths import safe_join
from rolltape.read.episodes import listed
from rolltape.store.local import is_lfs_pointer

__all__ = ["check_parquet", "damaged", "open_parquet", "reading", "with_episodes"]

_MAGIC = b"PAR1"
_HEAD = 64
_Result = TypeVar("_Result")


def check_parquet(root: Path, relative: str, episodes: Iterable[int] = ()) -> Path:
    """Return the place of a Parquet file after a look at its first and last bytes.

    Args:
        root: The dataset's folder.
        relative: The file's path inside it.
        episodes: The episodes whose rows are in it, for the message.

    Raises:
        DamagedFileError: The file is missing, empty, a Git LFS pointer, or cut off.
    """
    path = safe_join(root, relative)
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            size = file.seek(0, 2)
            file.seek(max(0, size - len(_MAGIC)))
            tail = file.read(len(_MAGIC))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise damaged("The file is missing.", root, relative, episodes) from None
    except OSError as error:  # no permission, a link that leads in a circle, a disk that fails
        raise damaged("The file cannot be read.", root, relative, episodes, found=error.strerror) from error
    if not size:
        raise damaged("The file is empty (zero bytes).", root, relative, episodes)
    if is_lfs_pointer(head):
        raise DamagedFileError(
            "The file is a Git LFS pointer, not the content.",
            path=relative,
            episodes=episodes,
            found=_list_of(episodes),
            fix="Fetch the content: git lfs pull",
        )
    if head[:4] != _MAGIC or tail != _MAGIC:
        what = "truncated (no footer)" if head[:4] == _MAGIC else "not a Parquet file"
        raise damaged(f"The file is {what}.", root, relative, episodes)
    return path


def damaged(
    what: str, root: Path, relative: str, episodes: Iterable[int], found: str | None = None
) -> DamagedFileError:
    """Return the error for a file that cannot be read, with the episodes in it and the way on."""
    affected = tuple(episodes)
    return DamagedFileError(
        what,
        path=relative,
        episodes=affected,
        found="; ".join(text for text in (found, _list_of(affected)) if text) or None,
        fix=f"Restore the file from its source. `rolltape check {root}` lists what is affected; "
        "allow_damaged=True opens the other episodes.",
    )


def with_episodes(error: DamagedFileError, episodes: Iterable[int]) -> DamagedFileError:
    """Return the same error with the episodes that it affects."""
    affected = tuple(episodes)
    found = "; ".join(text for text in (error.found, _list_of(affected)) if text)
    return DamagedFileError(error.what, path=error.path, episodes=affected, found=found or None, fix=error.fix)


def _list_of(episodes: Iterable[int]) -> str | None:
    affected = listed(episodes)
    return f"episodes affected: {affected}" if affected else None


def reading(action: Callable[[], _Result], root: Path, relative: str, episodes: Iterable[int] = ()) -> _Result:
    """Return what `action` returns, with Arrow's errors told as a damaged file.

    Raises:
        DamagedFileError: If the action fails on the file's content.
    """
    try:
        return action()
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        if isinstance(error, DamagedFileError):
            raise
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damaged("The file cannot be read.", root, relative, episodes, found=text) from error


def open_parquet(root: Path, relative: str, episodes: Iterable[int] = ()) -> pq.ParquetFile:
    """Return an open Parquet file of the dataset.

    Raises:
        DamagedFileError: The file is missing, empty, a Git LFS pointer, cut off, or unreadable.
    """
    path = check_parquet(root, relative, episodes)
    file = reading(lambda: pq.ParquetFile(path, memory_map=False), root, relative, episodes)
    names = file.schema_arrow.names
    if len(set(names)) != len(names):
        file.close()
        twice = next(name for name in names if names.count(name) > 1)
        raise damaged(f"The file has the column {twice!r} twice.", root, relative, episodes)
    return file
