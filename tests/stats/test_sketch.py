"""The rank error of the sketches on streams made to hurt them; size, determinism, merging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltape.format.sketch import BUDGET, Bins, Sketch
from rolltape.format.stats import QUANTILES

SHARES = tuple(QUANTILES.values())
MORE_SHARES = (*SHARES, 0.02, 0.05, 0.25, 0.75, 0.95, 0.98)
ALLOWED = 0.005
EPISODES, ROWS = 2_000, 200
Array = npt.NDArray[Any]


def rank_error(sketch: Sketch, stream: Array, shares: tuple[float, ...] = MORE_SHARES) -> float:
    """The largest distance of a quantile from the ranks that its value has in the stream [n, elements]."""
    worst = 0.0
    ordered = np.sort(stream, axis=0)
    for element in range(stream.shape[1]):
        values = ordered[:, element][np.isfinite(ordered[:, element])]
        for share, value in zip(shares, sketch.quantiles(shares)[:, element], strict=True):
            low = np.searchsorted(values, value, side="left") / len(values)
            high = np.searchsorted(values, value, side="right") / len(values)
            worst = max(worst, low - share, share - high)
    return worst


def _zigzag(count: int) -> Array:
    at = np.arange(count)
    return np.where(at % 2 == 0, at // 2, count - 1 - at // 2)


def _walk(count: int) -> Array:
    return np.cumsum(np.random.default_rng(5).normal(size=count))


STREAMS: dict[str, Callable[[int], Array]] = {
    "sorted": np.arange,
    "reverse": lambda n: np.arange(n)[::-1],
    "from both ends": _zigzag,
    "each episode alike": lambda n: np.tile(np.linspace(0, 1, ROWS), n // ROWS),
    "each episode from all": lambda n: np.arange(n).reshape(ROWS, -1).T.reshape(-1),
    "random": lambda n: np.random.default_rng(1).random(n),
    "bulk and outliers": lambda n: np.where(np.arange(n) % 97 == 3, 1e9, np.random.default_rng(2).random(n)),
    "heavy tails": lambda n: np.random.default_rng(3).standard_cauchy(n),
    "few distinct": lambda n: np.random.default_rng(4).integers(0, 5, n),
    "constant": lambda n: np.full(n, 3.25),
    "random walk": _walk,
    "periodic": lambda n: np.sin(np.arange(n) / 31.7),
    "alternating": lambda n: np.arange(n) % 2 * 1e6 + np.random.default_rng(6).random(n),
}


@pytest.mark.parametrize("name", list(STREAMS))
def test_2000_episodes_of_200_rows(name: str) -> None:
    stream = STREAMS[name](EPISODES * ROWS).astype(np.float32)[:, None]
    sketch = Sketch.empty(1, np.float32)
    worst, largest = 0.0, 0
    for start in range(0, len(stream), ROWS):
        sketch = sketch.insert(stream[start : start + ROWS])
        largest = max(largest, sketch.nbytes)
        if start // ROWS in (9, 24, 99, 499, 1234, EPISODES - 1):
            worst = max(worst, rank_error(sketch, stream[: start + ROWS]))
    assert worst <= ALLOWED, worst
    assert largest <= 7_200
    assert sketch.rows == len(stream)


def test_rank_error_has_room_to_spare() -> None:
    """300 independent streams side by side: the standard deviation is a fifth of what is allowed, or less."""
    rng = np.random.default_rng(7)
    ranks = np.argsort(rng.random((100_000, 300)), axis=0).astype(np.float32)
    sketch = Sketch.empty(300, np.float32)
    for start in range(0, len(ranks), 500):
        sketch = sketch.insert(ranks[start : start + 500])
    errors = (sketch.quantiles(MORE_SHARES) + 0.5) / len(ranks) - np.array(MORE_SHARES)[:, None]
    assert np.sqrt((errors**2).mean()) < ALLOWED / 5
    assert np.abs(errors).max() < ALLOWED


@pytest.mark.parametrize("order", ["left", "balanced", "uneven"])
@pytest.mark.parametrize("name", ["sorted", "random", "bulk and outliers", "heavy tails"])
def test_many_small_merges(name: str, order: str) -> None:
    stream = STREAMS[name](120_000)[:, None].astype(np.float64)
    sizes = [60] * 2_000 if order != "uneven" else [1, 7, 3_000, 40, 952] * 30
    parts, start = [], 0
    for size in sizes:
        parts.append(Sketch.empty(1).insert(stream[start : start + size]))
        start += size
    if order == "balanced":
        while len(parts) > 1:
            parts = [a.merge(b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + parts[len(parts) & ~1 :]
        whole = parts[0]
    else:
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.merge(part)
    assert whole.rows == start
    assert rank_error(whole, stream[:start]) <= ALLOWED


@pytest.mark.parametrize("name", ["sorted", "random", "heavy tails", "few distinct"])
def test_many_rows_at_once(name: str) -> None:
    stream = STREAMS[name](1_400_000)[:, None].astype(np.float32)
    sketch = Sketch.empty(1, np.float32).insert(stream[:1_000_001]).insert(stream[1_000_001:])
    assert sketch.rows == len(stream)
    assert sum(level.shape[1] << at for at, level in enumerate(sketch.levels)) == len(stream)
    assert sketch.nbytes <= 7_200
    assert rank_error(sketch, stream) <= ALLOWED


def test_exact_while_small() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(BUDGET, 3))
    sketch = Sketch.empty(3)
    for start in range(0, BUDGET, 100):
        sketch = sketch.insert(values[start : start + 100])
    assert np.allclose(sketch.quantiles(MORE_SHARES), np.quantile(values, MORE_SHARES, axis=0), rtol=1e-12)


def test_the_same_stream_gives_the_same_sketch() -> None:
    values = np.random.default_rng(9).random((30_000, 2), dtype=np.float32)

    def build() -> Sketch:
        sketch = Sketch.empty(2, np.float32)
        for start in range(0, len(values), 300):
            sketch = sketch.insert(values[start : start + 300])
        return sketch

    left, right = build(), build()
    assert left.turns == right.turns
    assert all(np.array_equal(a, b) for a, b in zip(left.levels, right.levels, strict=True))


def test_a_change_leaves_the_old_sketch_as_it_was() -> None:
    values = np.random.default_rng(10).random((5_000, 2))
    old = Sketch.empty(2).insert(values)
    before = [level.copy() for level in old.levels]
    new = old
    for _ in range(20):
        new = new.insert(values)
    new.merge(old).quantiles(SHARES)
    assert old.rows == 5_000
    assert all(np.array_equal(a, b) for a, b in zip(before, old.levels, strict=True))


def test_values_that_are_not_finite_weigh_nothing() -> None:
    rng = np.random.default_rng(11)
    values = rng.random((40_000, 3))
    values[rng.random(values.shape) < [0.0, 0.3, 1.0]] = np.nan
    values[7, 0] = np.inf
    sketch = Sketch.empty(3)
    for start in range(0, len(values), 400):
        sketch = sketch.insert(values[start : start + 400])
    found = sketch.quantiles(SHARES)
    assert sketch.finite[0] == 39_999
    assert sketch.finite[2] == 0
    assert np.isnan(found[:, 2]).all()
    assert rank_error(sketch, values[:, :2]) <= ALLOWED


@given(st.lists(st.lists(st.integers(-5, 300), min_size=0, max_size=20), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_bins_are_exact(parts: list[list[int]]) -> None:
    rows = [np.array(part, np.int64).reshape(-1, 1) for part in parts]
    by_merge, by_insert = Bins.empty(1), Bins.empty(1)
    for part in rows:
        by_merge = by_merge.merge(Bins.of(part))
        by_insert = by_insert.insert(part)
    everything = np.concatenate(rows)
    assert by_merge.rows == by_insert.rows == len(everything)
    found = by_merge.quantiles(MORE_SHARES)
    assert np.array_equal(found, by_insert.quantiles(MORE_SHARES), equal_nan=True)
    if len(everything):
        np.testing.assert_allclose(found[:, 0], np.quantile(everything[:, 0], MORE_SHARES), rtol=1e-12, atol=1e-12)
    else:
        assert np.isnan(found).all()


def test_bins_of_many_elements() -> None:
    values = np.random.default_rng(12).integers(-128, 128, (500, 4)).astype(np.int8)
    bins = Bins.of(values[:100]).insert(values[100:])
    np.testing.assert_allclose(bins.quantiles(SHARES), np.quantile(values.astype(np.float64), SHARES, axis=0))
    flags = values > 0
    np.testing.assert_allclose(Bins.of(flags).quantiles(SHARES), np.quantile(flags.astype(np.float64), SHARES, axis=0))
