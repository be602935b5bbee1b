"""Findings, and the report that gathers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolltape.check.catalogue import Severity, entry

__all__ = ["Finding", "Findings", "Report", "Where", "ranges_text"]

_RANK = {"error": 0, "warning": 1, "note": 2}
_KEPT = 100
"""How many findings of one id are kept whole; the rest is only counted."""


def ranges_text(numbers: Iterable[int], limit: int = 8) -> str:
    """Return numbers as short text, runs joined.

    Example:
        >>> ranges_text([0, 1, 2, 5, 9, 8])
        '0-2, 5, 8-9'
    """
    runs: list[list[int]] = []
    for number in sorted({int(one) for one in numbers}):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:limit]]
    return ", ".join(texts) + (f" and {len(runs) - limit} more runs" if len(runs) > limit else "")


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a finding.

    Attributes:
        file: The file, relative to the dataset's root.
        episodes: The episodes concerned, ascending.
        frames: First frame and frame after the last, counted inside the first of `episodes`.
        camera: The camera's feature name.
        feature: The feature's name, for columns of tables.
    """

    file: str | None = None
    episodes: tuple[int, ...] = ()
    frames: tuple[int, int] | None = None
    camera: str | None = None
    feature: str | None = None

    @property
    def episode(self) -> int | None:
        """The first episode concerned, or None."""
        return self.episodes[0] if self.episodes else None

    def to_json(self) -> dict[str, Any]:
        """Return the place as plain JSON types; at most 1,000 episodes are listed, and counted in any case."""
        return {
            "file": self.file,
            "episode": self.episode,
            "episodes": list(self.episodes[:1000]),
            "episode_count": len(self.episodes),
            "frames": None if self.frames is None else list(self.frames),
            "camera": self.camera,
            "feature": self.feature,
        }

    def __str__(self) -> str:
        parts = [] if self.file is None else [self.file]
        if len(self.episodes) == 1:
            parts.append(f"episode {self.episodes[0]}")
        elif self.episodes:
            parts.append(f"episodes {ranges_text(self.episodes)}")
        if self.frames is not None:
            first, after = self.frames
            parts.append(f"frame {first}" if after == first + 1 else f"frames {first} to {after - 1}")
        parts += [f"{noun} {name}" for noun, name in (("camera", self.camera), ("feature", self.feature)) if name]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault that was found.

    Attributes:
        id: The stable name, `video.short`; the catalogue and the docs explain it.
        message: What is wrong, in one line.
        where: File, episodes, frames, camera or feature.
        expected: What a right dataset would have there.
        found: What was there.
    """

    id: str
    message: str
    where: Where = field(default_factory=Where)
    expected: str | None = None
    found: str | None = None

    @property
    def severity(self) -> Severity:
        """`error`, `warning` or `note`, from the catalogue."""
        return entry(self.id).severity

    @property
    def repair(self) -> str:
        """What to do, from the catalogue."""
        return entry(self.id).repair

    @property
    def fixable(self) -> bool:
        """Whether everything that mending needs is in the dataset itself."""
        return entry(self.id).fixable

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON types."""
        return {
            "id": self.id,
            "severity": self.severity,
            "message": self.message,
            "where": self.where.to_json(),
            "expected": self.expected,
            "found": self.found,
            "repair": self.repair,
            "fixable": self.fixable,
        }

    def lines(self) -> list[str]:
        """Return the finding as text, one part a line."""
        parts = [f"{self.severity} {self.id}: {self.message}"]
        shown = (("where", str(self.where)), ("expected", self.expected), ("found", self.found), ("do", self.repair))
        return [*parts, *(f"  {name}: {text}" for name, text in shown if text)]


class Findings:
    """What checks write to: it counts all findings, and keeps the first of each kind. Merging two is associative.

    Args:
        ids: The ids that are wanted; others are dropped at once.
    """

    def __init__(self, ids: frozenset[str] | None = None) -> None:
        self.ids = ids
        self.counts: Counter[str] = Counter()
        self.kept: dict[str, list[Finding]] = {}

    def add(
        self,
        name: str,
        message: str,
        *,
        file: str | None = None,
        episodes: Sequence[int] | Any = (),
        frames: tuple[int, int] | None = None,
        camera: str | None = None,
        feature: str | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        """Add a finding. `episodes` may be any sequence or array of numbers."""
        entry(name)
        if self.ids is not None and name not in self.ids:
            return
        self.counts[name] += 1
        kept = self.kept.setdefault(name, [])
        if len(kept) < _KEPT:
            numbers = tuple(sorted({int(one) for one in episodes}))
            span = None if frames is None else (int(frames[0]), int(frames[1]))
            texts = [None if text is None else str(text) for text in (expected, found)]
            kept.append(Finding(name, message, Where(file, numbers, span, camera, feature), texts[0], texts[1]))

    def extend(self, other: Findings) -> None:
        """Add all that another one holds."""
        self.counts.update(other.counts)
        for name, kept in other.kept.items():
            mine = self.kept.setdefault(name, [])
            mine.extend(kept[: max(0, _KEPT - len(mine))])

    def __contains__(self, name: object) -> bool:
        return name in self.counts

    def __iter__(self) -> Iterator[Finding]:
        for kept in self.kept.values():
            yield from kept


@dataclass(frozen=True)
class Report:
    """All findings about a dataset.

    Attributes:
        source: What was checked.
        findings: Errors first, then warnings and notes; each kind in the order of the files and episodes. At most
            100 of one id are kept.
        counts: How many findings there are of each id, also those that are not kept.
        episodes: Rows in the episodes table.
        frames: Sum of the episodes' lengths.
        files: Files looked at.
        seconds: How long the check took.

    Example:
        >>> Report("here", (), {}, episodes=3, frames=16).ok
        True
    """

    source: str
    findings: tuple[Finding, ...]
    counts: dict[str, int]
    episodes: int = 0
    frames: int = 0
    files: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is no error. Warnings and notes are fine."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity error."""
        return self.of_severity("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings of severity warning."""
        return self.of_severity("warning")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """The findings of severity note."""
        return self.of_severity("note")

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids found, sorted."""
        return tuple(sorted(self.counts))

    def of_severity(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def of_id(self, name: str) -> tuple[Finding, ...]:
        """Return the findings of one id."""
        return tuple(finding for finding in self.findings if finding.id == name)

    def total(self, severity: Severity) -> int:
        """Return how many findings of a severity there are, also those that are not kept."""
        return sum(count for name, count in self.counts.items() if entry(name).severity == severity)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        return {
            "source": self.source,
            "ok": self.ok,
            "episodes": self.episodes,
            "frames": self.frames,
            "files": self.files,
            "seconds": round(self.seconds, 3),
            "errors": self.total("error"),
            "warnings": self.total("warning"),
            "notes": self.total("note"),
            "counts": dict(sorted(self.counts.items())),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def text(self, per_id: int = 5) -> str:
        """Return the report as text, at most `per_id` findings of each id and the number of the others."""
        lines: list[str] = []
        shown: Counter[str] = Counter()
        for position, finding in enumerate(self.findings):
            shown[finding.id] += 1
            if shown[finding.id] <= per_id:
                lines += finding.lines()
            following = self.findings[position + 1].id if position + 1 < len(self.findings) else None
            left = self.counts[finding.id] - per_id
            if following != finding.id and left > 0:
                lines.append(f"{finding.severity} {finding.id}: {left} more like this (--json lists up to {_KEPT})")
        what = f"{self.episodes} episodes, {self.frames} frames, {self.files} files"
        found = ", ".join(_count(self.total(kind), kind) for kind in ("error", "warning", "note"))
        return "\n".join([*lines, f"{self.source}: {found} ({what}, {self.seconds:.1f} s)"])

    def __str__(self) -> str:
        return self.text()

    @classmethod
    def gather(cls, source: str, findings: Findings, **parts: Any) -> Report:
        """Return the report of what some checks wrote, sorted."""
        ordered = sorted(findings, key=_place)
        return cls(source, tuple(ordered), dict(findings.counts), **parts)


def _count(number: int, noun: str) -> str:
    return f"{'no' if number == 0 else number} {noun}{'' if number == 1 else 's'}"


def _place(finding: Finding) -> tuple[int, str, str, int]:
    where = finding.where
    return (_RANK[finding.severity], finding.id, where.file or "", where.episode if where.episode is not None else -1)
