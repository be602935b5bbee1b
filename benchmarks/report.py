"""Rows of a comparison: medians of paired repeats, ratios against goals, as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison.

    Args:
        name: what was measured.
        unit: of the figures.
        ours, reference: every repeat's figure; the reference's may be empty.
        higher_is_better: direction; the ratio is always "so many times better".
        goal: the least ratio; for rows without a reference the most our figure may be; None where nothing is promised.
        note: what the reader must know to judge the figure.
    """

    name: str
    unit: str
    ours: Sequence[float]
    reference: Sequence[float] = ()
    higher_is_better: bool = True
    goal: float | None = None
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Median of the paired ratios, above 1 where ours is better; None where there is nothing to divide by."""
        if not self.reference:
            return None
        pairs = list(zip(self.ours, self.reference, strict=True))
        if not self.higher_is_better:
            pairs = [(theirs, mine) for mine, theirs in pairs]
        if any(below == 0 for _, below in pairs):
            return None
        return statistics.median(above / below for above, below in pairs)

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached."""
        if self.goal is None:
            return None
        if not self.reference:
            return statistics.median(self.ours) <= self.goal
        return self.ratio is not None and self.ratio >= self.goal

    def to_json(self) -> dict[str, Any]:
        """Everything, with medians, ratio and verdict."""
        return {
            **asdict(self),
            "ours_median": statistics.median(self.ours),
            "reference_median": statistics.median(self.reference) if self.reference else None,
            "ratio": self.ratio,
            "met": self.met,
        }


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    head = ("measure", "ours", "reference", "unit", "ratio", "goal", "")
    lines = [head]
    for row in rows:
        reference = _short(statistics.median(row.reference)) if row.reference else "-"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
        goal = "" if row.goal is None else (f">= {row.goal:.3g}x" if row.reference else f"<= {row.goal:g}")
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        lines.append((row.name, _short(statistics.median(row.ours)), reference, row.unit, ratio, goal, verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text += [f"  {row.name}: {row.note}" for row in rows if row.note]
    return "\n".join(text)


def _short(value: float) -> str:
    if value == 0 or 0.01 <= abs(value) < 10_000:
        return f"{value:.4g}"
    return f"{value:.3g}"
