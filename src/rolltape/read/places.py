"""Where a dataset is: from what a user writes to a local folder. The network is never asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rolltape.errors import DatasetNotFoundError, UnsupportedFormatError
from rolltape.format.paths import INFO_PATH, WORK_FOLDER

__all__ = ["find_root", "hub_home", "local_root", "repo_root"]

_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]+)://")
_REPO = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")
_COMMIT = re.compile(r"^[0-9a-f]{7,64}$")
_REMOTE = {
    "hf": "datasets and buckets on the Hugging Face Hub",
    "s3": "object stores",
    "gs": "object stores",
    "az": "object stores",
    "abfs": "object stores",
    "http": "web addresses",
    "https": "web addresses",
}


def hub_home() -> Path:
    """Return the folder of datasets by repo id: `$HF_LEROBOT_HOME`, by default `$HF_HOME/lerobot`."""
    if home := os.environ.get("HF_LEROBOT_HOME"):
        return Path(home).expanduser()
    return _hub_cache() / "lerobot"


def _hub_cache() -> Path:
    """Return the folder of the Hub's own client: `$HF_HOME`, by default `huggingface` in the user's cache."""
    base = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    return Path(base).expanduser()


def local_root(source: str | os.PathLike[str]) -> Path:
    """Return the folder that `source` means: a path, or a repo id that is on this machine, see `repo_root`.

    Raises:
        DatasetNotFoundError: There is no such folder, or no dataset in it.
        UnsupportedFormatError: The source is not on this machine.
    """
    text = os.fspath(source)
    scheme = _SCHEME.match(text)
    if scheme and scheme[1] == "file":
        text = text[len("file://") :]
    elif scheme:
        what = _REMOTE.get(scheme[1], f"addresses that begin with {scheme[1]}://")
        raise UnsupportedFormatError(
            f"This version does not read {what}; it comes later.",
            where=text,
            fix="Download the dataset and open the folder, for example with: hf download --repo-type dataset REPO_ID",
        )
    path = Path(text).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        raise UnsupportedFormatError(
            "The source is a single file, not a dataset's folder.", where=path, fix="Give the folder that holds meta/."
        )
    if isinstance(source, str) and _REPO.match(text):
        return repo_root(text)
    raise DatasetNotFoundError("There is no such folder.", where=path, expected=f"a folder with {INFO_PATH}")


def find_root(source: str | os.PathLike[str]) -> Path:
    """Return the folder that `source` means when a dataset is in it, however damaged it is.

    Args:
        source: A folder, or a repo id below `$HF_LEROBOT_HOME`.

    Raises:
        DatasetNotFoundError: There is no such folder, or nothing in it looks like a dataset.
        UnsupportedFormatError: The source is not on this machine.
    """
    home = hub_home() / source
    root = home if not Path(source).expanduser().is_dir() and home.is_dir() else local_root(source)
    if not any((root / name).exists() for name in ("meta", "data", "videos", WORK_FOLDER)):
        raise DatasetNotFoundError("There is no dataset in this folder.", where=root, expected=INFO_PATH)
    return root


def repo_root(repo_id: str, revision: str | None = None) -> Path:
    """Return the local folder of a repo id: under `$HF_LEROBOT_HOME`, else a snapshot that was downloaded before.

    Args:
        repo_id: Such as `me/lift`.
        revision: Branch, tag or commit of the snapshot; `v3.0`, else `main`, by default. Plain folders have none.

    Raises:
        DatasetNotFoundError: It is not on this machine.
    """
    root = hub_home() / repo_id
    if (root / INFO_PATH).is_file() or (root / WORK_FOLDER).is_dir():
        return root
    for place in _snapshots(repo_id, revision):
        if (place / INFO_PATH).is_file():
            return place
    raise DatasetNotFoundError(
        f"The dataset {repo_id} is not on this machine, and this version does not download.",
        where=root,
        expected=f"a folder with {INFO_PATH}",
        fix=f"Download it first: hf download --repo-type dataset {repo_id} --revision v3.0 --local-dir {root}",
    )


def _snapshots(repo_id: str, revision: str | None) -> Iterator[Path]:
    """Yield where snapshots of a repository lie in the caches of the reference and of the Hub's own client."""
    caches = (hub_home() / "hub", Path(os.environ.get("HF_HUB_CACHE") or _hub_cache() / "hub").expanduser())
    for cache in caches:
        folder = cache / ("datasets--" + str(repo_id).replace("/", "--"))
        for name in (revision,) if revision else ("v3.0", "main"):
            yield folder / "snapshots" / name
            try:
                commit = (folder / "refs" / name).read_text().strip()
            except (OSError, ValueError):
                continue
            if _COMMIT.match(commit):
                yield folder / "snapshots" / commit
