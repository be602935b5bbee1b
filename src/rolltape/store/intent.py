"""Intents: a change under way, written down before its first rename so that it can be finished or taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rolltape.errors import FormatError
from rolltape.format.paths import WORK_FOLDER, safe_join
from rolltape.store import local

__all__ = ["INTENT_FILE", "Intent"]

INTENT_FILE = f"{WORK_FOLDER}/intent.json"


@dataclass(frozen=True)
class Intent:
    """What a change is about to do to a root. All paths are relative to it.

    Attributes:
        kind: What the change is: `commit`, `pack`, ...
        create: Files that come into being: target to staged temporary file.
        replace: Files that get new content: target to staged temporary file.
        backup: Files that are replaced: target to a second name of the old content, to be put back if need be.
        delete_later: Files that nothing points to once the change is done.
        facts: Whatever recovery needs besides, such as the first episode number.
    """

    kind: str
    create: Mapping[str, str] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    backup: Mapping[str, str] = field(default_factory=dict)
    delete_later: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def write(self, root: Path, *, durable: bool = True) -> None:
        """Write the intent down, durably, before anything is renamed."""
        local.write_atomic(root / INTENT_FILE, json.dumps(asdict(self)).encode(), durable=durable)

    @staticmethod
    def clear(root: Path, *, durable: bool = True) -> None:
        """Forget the intent: the change is done, or was taken back."""
        local.remove_file(root / INTENT_FILE)
        if durable:
            local.fsync_folder(root / WORK_FOLDER)

    @classmethod
    def read(cls, root: Path) -> Intent | None:
        """Return the intent of a change that was stopped, or None.

        Raises:
            FormatError: If the file is not an intent, or one of its paths leaves the root.
        """
        path = root / INTENT_FILE
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            content = json.loads(data)
            intent = cls(
                kind=str(content["kind"]),
                create=_texts(content["create"]),
                replace=_texts(content["replace"]),
                backup=_texts(content["backup"]),
                delete_later=tuple(str(one) for one in content["delete_later"]),
                facts=_checked(dict(content["facts"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError("The note of a change under way cannot be read.", where=INTENT_FILE) from error
        for one in (intent.create, intent.replace, intent.backup):
            for target, staged in one.items():
                safe_join(root, target)
                safe_join(root, staged)
        for target in (*intent.delete_later, *(one for name in _PATHS for one in intent.facts.get(name, []))):
            safe_join(root, target)
        return intent


_PATHS = ("order", "visible", "spent")


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts, of which recovery takes some for lists of paths and one for marks of files."""
    for name in _PATHS:
        if not isinstance(facts.get(name, []), list) or not all(isinstance(one, str) for one in facts.get(name, [])):
            raise ValueError(f"{name} is no list of paths")
    if not isinstance(facts.get("marks", {}), dict) or not isinstance(facts.get("total_episodes", 0), int):
        raise ValueError("the facts are malformed")
    return facts


def _texts(content: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in content.items()}
