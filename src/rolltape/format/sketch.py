"""Two small mergeable summaries of a stream of numbers that know its quantiles: `Sketch` and `Bins`.

`Sketch` is a stack of levels. An item of level h stands for 2**h rows. When there are more items than the budget, the
lowest level that is over its share is sorted and every second item of it moves up with twice the weight, beginning
with the first or the second item by turns and by a fixed hash (Karnin, Lang, Liberty: Optimal Quantile Approximation
in Streams, 2016; turns that pair off: Ivkin and others, 2019). All elements of a feature share one structure, so a
step is a few numpy calls whatever the width. The rank error of one quantile has a standard deviation of about 0.09 %
of the rows, for streams of any order and length; up to 1,536 rows the sketch holds every row and is exact.

`Bins` counts each whole number and is always exact.

Both are values: every change gives a new object and leaves the old one as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BUDGET", "Bins", "Sketch"]

_TOP = 768
BUDGET = 2 * _TOP
"""How many rows a sketch holds before it begins to thin them."""

_LEAST = 16
_LARGE = 2 * BUDGET
_PIECE = 1 << 20
_MASK = (1 << 64) - 1

Floats = npt.NDArray[Any]


def _coin(level: int, number: int) -> int:
    """A fixed sequence of fair coins, the splitmix64 hash of level and number."""
    x = (level * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 0x8CB92BA72F3D8DD7) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return (x ^ (x >> 31)) & 1


def _share(level: int, height: int) -> int:
    return max(_LEAST, -(-_TOP >> (height - 1 - level)))


@dataclass(frozen=True, eq=False)
class Sketch:
    """Quantiles of a stream of float rows, each element by itself.

    Attributes:
        levels: For each level the items, [elements, items]; level 0 in any order, the others sorted.
        turns: How often each level was thinned.
        rows: How many rows were put in.
        finite: How many of them are finite, int64 [elements]. The others are held as NaN and weigh nothing.

    Example:
        >>> sketch = Sketch.empty(1).insert(np.arange(101.0)[:, None])
        >>> sketch.quantiles([0.5]).tolist()
        [[50.0]]
    """

    levels: tuple[Floats, ...]
    turns: tuple[int, ...]
    rows: int
    finite: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, elements: int, dtype: npt.DTypeLike = np.float64) -> Sketch:
        """Return a sketch of no rows.

        Args:
            elements: The length of a row.
            dtype: float32 or float64, in which items are held.
        """
        return cls((np.empty((elements, 0), dtype),), (0,), 0, np.zeros(elements, np.int64))

    @property
    def elements(self) -> int:
        """The length of a row."""
        return len(self.finite)

    @property
    def nbytes(self) -> int:
        """Size of the items."""
        return sum(level.nbytes for level in self.levels)

    def insert(self, rows: npt.NDArray[Any]) -> Sketch:
        """Return the sketch with more rows.

        Args:
            rows: [n, elements], any numeric dtype.
        """
        step = max(_LARGE, _PIECE // max(1, self.elements))
        if len(rows) <= step:
            return self._insert_piece(rows)
        sketch = self
        for start in range(0, len(rows), step):
            sketch = sketch._insert_piece(rows[start : start + step])
        return sketch

    def _insert_piece(self, rows: npt.NDArray[Any]) -> Sketch:
        items = np.ascontiguousarray(rows.T, self.levels[0].dtype)
        good = np.isfinite(items)
        if good.all():
            finite = self.finite + len(rows)
        else:
            items = np.where(good, items, items.dtype.type(np.nan))
            finite = self.finite + good.sum(axis=1)
        levels = list(self.levels)
        while items.shape[1] > _LARGE:
            # Many rows at once need no ladder: of the sorted rows the middle one of each run of 2**h stands for it.
            height = (items.shape[1] // BUDGET).bit_length()
            many = items.shape[1] >> height << height
            thinned = np.sort(items[:, :many], axis=1)[:, 1 << (height - 1) :: 1 << height]
            levels += [np.empty((self.elements, 0), items.dtype)] * (height + 1 - len(levels))
            levels[height] = _joined(levels[height], thinned)
            items = items[:, many:]
        levels[0] = np.concatenate([levels[0], items], axis=1)
        return _fitted(levels, list(self.turns), self.rows + len(rows), finite)

    def merge(self, other: Sketch) -> Sketch:
        """Return the sketch of both streams."""
        levels = []
        for at in range(max(len(self.levels), len(other.levels))):
            both = [one.levels[at] for one in (self, other) if at < len(one.levels)]
            if len(both) == 1:
                levels.append(both[0])
            else:
                levels.append(np.concatenate(both, axis=1) if at == 0 else _joined(both[0], both[1]))
        turns = [sum(one.turns[at] for one in (self, other) if at < len(one.turns)) for at in range(len(levels))]
        return _fitted(levels, turns, self.rows + other.rows, self.finite + other.finite)

    def quantiles(self, shares: Sequence[float]) -> npt.NDArray[np.float64]:
        """Return the quantiles, float64 [shares, elements], between neighbours as `numpy.quantile` does by default.

        An element without finite values has NaN.
        """
        items = np.concatenate(self.levels, axis=1)
        weights = np.concatenate([np.full(level.shape[1], 1 << at, np.int64) for at, level in enumerate(self.levels)])
        # Levels are sorted runs: a stable sort (a merge of runs) is quick on them.
        order = np.argsort(items, axis=1, kind="stable")
        found = np.full((len(shares), self.elements), np.nan)
        for at in range(self.elements):
            values = items[at, order[at]]
            running = weights[order[at]]
            if self.finite[at] < self.rows:
                running[np.isnan(values)] = 0
            found[:, at] = _weighted(values, running.cumsum(), shares)
        return found


def _joined(left: Floats, right: Floats) -> Floats:
    if not left.shape[1]:
        return right
    return np.sort(np.concatenate([left, right], axis=1), axis=1, kind="stable")


def _fitted(levels: list[Floats], turns: list[int], rows: int, finite: npt.NDArray[np.int64]) -> Sketch:
    """Thin levels until the items are within the budget."""
    turns = turns + [0] * (len(levels) - len(turns))
    while sum(level.shape[1] for level in levels) > BUDGET + _LEAST * len(levels):
        at = next(at for at, level in enumerate(levels) if level.shape[1] >= _share(at, len(levels)))
        if at + 1 == len(levels):
            levels.append(levels[at][:, :0])
            turns.append(0)
        turn = turns[at]
        turns[at] += 1
        level = levels[at] if at else np.sort(levels[at], axis=1)
        rest = level[:, :0]
        if level.shape[1] & 1:
            rest, level = (level[:, -1:], level[:, :-1]) if turn & 2 else (level[:, :1], level[:, 1:])
        levels[at] = rest.copy()
        levels[at + 1] = _joined(levels[at + 1], level[:, _coin(at, turn >> 1) ^ (turn & 1) :: 2])
    return Sketch(tuple(levels), tuple(turns), rows, finite)


def _weighted(
    values: npt.NDArray[Any], running: npt.NDArray[np.int64], shares: Sequence[float]
) -> npt.NDArray[np.float64]:
    total = int(running[-1]) if len(running) else 0
    if not total:
        return np.full(len(shares), np.nan)
    place = np.asarray(shares, np.float64) * (total - 1)
    below = np.floor(place)
    spots = running.searchsorted(np.concatenate([below, np.minimum(below + 1, total - 1)]), side="right")
    low, high = values[spots].astype(np.float64).reshape(2, -1)
    part = place - below
    return np.where(low == high, low, low * (1 - part) + high * part)


@dataclass(frozen=True, eq=False)
class Bins:
    """How often each whole number occurs, each element by itself.

    Attributes:
        low: The number that the first bin counts.
        counts: int64 [elements, bins].

    Example:
        >>> bins = Bins.of(np.array([[3], [3], [5]]))
        >>> bins.low, bins.counts.tolist(), bins.quantiles([0.5]).tolist()
        (3, [[2, 0, 1]], [[3.0]])
    """

    low: int
    counts: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, elements: int, low: int = 0, bins: int = 0) -> Bins:
        """Return bins that have counted nothing."""
        return cls(low, np.zeros((elements, bins), np.int64))

    @classmethod
    def of(cls, rows: npt.NDArray[Any]) -> Bins:
        """Return the bins of some rows, [n, elements] of whole numbers or bools."""
        if not rows.size:
            return cls.empty(rows.shape[1])
        whole = rows.astype(np.int64)
        low = int(whole.min())
        width = int(whole.max()) - low + 1
        # One count for all elements: each has its own range of bins.
        flat = (whole - low + np.arange(rows.shape[1]) * width).reshape(-1)
        return cls(low, np.bincount(flat, minlength=rows.shape[1] * width).astype(np.int64).reshape(-1, width))

    @property
    def elements(self) -> int:
        """The length of a row."""
        return len(self.counts)

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return int(self.counts[0].sum()) if len(self.counts) else 0

    @property
    def nbytes(self) -> int:
        """Size of the counts."""
        return self.counts.nbytes

    def insert(self, rows: npt.NDArray[Any]) -> Bins:
        """Return the bins with more rows, [n, elements]."""
        return self.merge(Bins.of(rows))

    def merge(self, other: Bins) -> Bins:
        """Return the bins of both streams."""
        parts = [one for one in (self, other) if one.counts.shape[1]]
        if len(parts) < 2:
            return parts[0] if parts else self
        low = min(one.low for one in parts)
        width = max(one.low + one.counts.shape[1] for one in parts) - low
        counts = np.zeros((self.elements, width), np.int64)
        for one in parts:
            start = one.low - low
            counts[:, start : start + one.counts.shape[1]] += one.counts
        return Bins(low, counts)

    def quantiles(self, shares: Sequence[float]) -> npt.NDArray[np.float64]:
        """Return the quantiles, float64 [shares, elements], exact, as `numpy.quantile` gives them; NaN without rows."""
        values = np.arange(self.low, self.low + self.counts.shape[1], dtype=np.float64)
        found = [_weighted(values, row.cumsum(), shares) for row in self.counts]
        return np.stack(found, axis=1) if found else np.empty((len(shares), 0))
