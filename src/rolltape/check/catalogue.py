"""The catalogue of findings: what each id means, how bad it is, and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal

from rolltape.errors import UsageError

__all__ = ["Entry", "Severity", "catalogue", "entry", "match_ids"]

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue says of one kind of finding.

    Attributes:
        id: The stable name, `noun.fault`.
        severity: `error`, `warning` or `note`.
        title: One line.
        why: What the fault does to readers and training.
        repair: What to do about it.
        fixable: Whether everything that mending needs is in the dataset itself.
    """

    id: str
    severity: Severity
    title: str
    why: str
    repair: str
    fixable: bool


@cache
def catalogue() -> Mapping[str, Entry]:
    """Return all entries by id, in the order in which the docs show them.

    Example:
        >>> catalogue()["video.short"].severity
        'error'
    """
    text = files("rolltape.check").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {name: Entry(id=name, **parts) for name, parts in tomllib.loads(text).items()}


def entry(name: str) -> Entry:
    """Return the entry of an id.

    Raises:
        UsageError: There is no such id; the message names those that are near.
    """
    found = catalogue().get(name)
    if found is None:
        raise UsageError(f"There is no finding named {name!r}.", expected=_near(name))
    return found


def match_ids(patterns: tuple[str, ...] | list[str]) -> frozenset[str]:
    """Return the ids that some patterns name.

    Args:
        patterns: Ids (`video.short`), groups (`video`), or patterns (`*.order`).

    Raises:
        UsageError: A pattern fits no id.
    """
    found: set[str] = set()
    for pattern in patterns:
        fits = {name for name in catalogue() if name.split(".")[0] == pattern or fnmatchcase(name, pattern)}
        if not fits:
            raise UsageError(f"No finding is named {pattern!r}.", expected=_near(pattern))
        found |= fits
    return frozenset(found)


def _near(name: str) -> str:
    from difflib import get_close_matches

    groups = list(dict.fromkeys(known.split(".")[0] for known in catalogue()))
    near = get_close_matches(name, [*groups, *catalogue()], n=5, cutoff=0.5)
    return " or ".join(near) if near else f"an id, or a group: {', '.join(groups)}"
