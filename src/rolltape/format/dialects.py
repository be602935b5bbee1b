"""Dialects: the layouts that a folder can have, and which of them are read here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolltape.errors import DatasetNotFoundError, FormatError, UnsupportedFormatError
from rolltape.format.info import load_json_object
from rolltape.format.paths import INFO_PATH, WORK_FOLDER

__all__ = ["DIALECTS", "Dialect", "identify", "require_readable"]

_MAX_INFO_BYTES = 64 << 20


@dataclass(frozen=True)
class Dialect:
    """One layout.

    Attributes:
        name: The short name, such as `v3.0`.
        title: What a message calls it.
        reader: `"module:attribute"` of what parses its description, or None while it is not read here.
        instead: What a user can do as long as it is not read here.
    """

    name: str
    title: str
    reader: str | None = None
    instead: str | None = None

    def load(self) -> Callable[..., Any]:
        """Return the dialect's parser.

        Raises:
            UnsupportedFormatError: If the dialect is not read here.
        """
        if self.reader is None:
            raise UnsupportedFormatError(f"This is {self.title}, which this version does not read.", fix=self.instead)
        module, attribute = self.reader.split(":")
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]  # named in the table


DIALECTS: Mapping[str, Dialect] = {
    one.name: one
    for one in (
        Dialect("v3.0", "a LeRobotDataset v3.0", "rolltape.format.info:parse_info"),
        Dialect(
            "v2.1",
            "a LeRobotDataset v2.1",
            instead="Convert it to v3.0 first: python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=ID",
        ),
        Dialect(
            "v2.0", "a LeRobotDataset v2.0", instead="Convert it to v2.1, then to v3.0, with lerobot's converters."
        ),
        Dialect("session", "a simulator session", instead="Export it as a LeRobotDataset v3.0 first."),
        Dialect("lance", "a dataset in Lance tables", instead="Use the v3.0 dataset that it was converted from."),
    )
}
"""All dialects by name. Those without a reader are refused by name."""


def _identify(root: Path, content: Mapping[str, Any]) -> str:
    if content.get("storage_format") == "lance" or (root / "frames.lance").is_dir():
        return "lance"
    version = content.get("codebase_version")
    if isinstance(version, str) and version.startswith("v2."):
        return version if version in DIALECTS else "v2.1"
    if any(str(key).startswith("lucky_") for key in content):
        return "session"
    if isinstance(version, str) and (version == "v3" or version.startswith("v3.")):
        return "v3.0"
    if root.name.startswith("session_") and root.parent.name == "DataSessions":
        return "session"
    raise FormatError(
        "The version of the dataset is unknown.", where=INFO_PATH, expected="codebase_version v3.0", found=repr(version)
    )


def identify(root: Path) -> Dialect:
    """Return the dialect of the dataset in a folder, from `meta/info.json` alone.

    Raises:
        DatasetNotFoundError: If there is no dataset; an unfinished recording is named as such.
        FormatError: If the description cannot be understood.
    """
    path = root / INFO_PATH
    if not path.is_file():
        if (root / WORK_FOLDER).is_dir():
            raise DatasetNotFoundError(
                "This is an unfinished recording without a committed episode.",
                where=root,
                fix="Save an episode with its writer, or bring back what a killed one left: rolltape recover PATH.",
            )
        if (root / "frames.lance").is_dir():
            return DIALECTS["lance"]
        what = "There is no dataset in this folder." if root.is_dir() else "There is no such folder."
        raise DatasetNotFoundError(what, where=root, expected=INFO_PATH)
    if path.stat().st_size > _MAX_INFO_BYTES:
        raise FormatError("info.json is too large.", where=INFO_PATH, expected=f"at most {_MAX_INFO_BYTES} bytes")
    return DIALECTS[_identify(root, load_json_object(path.read_bytes(), INFO_PATH))]


def require_readable(root: Path) -> Dialect:
    """Return the dialect of a folder that is read here.

    Raises:
        UnsupportedFormatError: If the dialect is known but not read here; the message names it and a way out.
    """
    dialect = identify(root)
    if dialect.reader is None:
        raise UnsupportedFormatError(
            f"This is {dialect.title}, which this version does not read.", where=root, fix=dialect.instead
        )
    return dialect
