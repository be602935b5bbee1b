"""Merging statistics, and their JSON."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolltape.errors import FormatError
from rolltape.format import Feature
from rolltape.format.episode_stats import episode_stats
from rolltape.format.stats import (
    QUANTILES,
    StatisticsWarning,
    Stats,
    from_json,
    mean_quantiles,
    merge,
    stats_shape,
    to_json,
)

GOLDEN = Path(__file__).parents[1] / "data/golden/v30"
FEATURE = Feature("x", "float64", (2,))


def of(values: np.ndarray[Any, Any]) -> Stats:
    return {"x": {stat: array for stat, array in episode_stats(values, FEATURE).items() if stat not in QUANTILES}}


def assert_close(left: Stats, right: Stats, rtol: float = 1e-9) -> None:
    assert set(left) == set(right)
    for name, one in left.items():
        assert set(one) == set(right[name])
        for stat, array in one.items():
            np.testing.assert_allclose(array, right[name][stat], rtol=rtol, atol=1e-9, err_msg=f"{name} {stat}")


@given(st.lists(st.integers(1, 9), min_size=3, max_size=6), st.sampled_from([0.0, 1e3, 1e7]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_merging_is_associative_and_gives_the_whole(lengths: list[int], offset: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [offset + rng.normal(size=(length, 2)) * 10.0 ** rng.integers(-2, 3) for length in lengths]
    parts = [of(piece) for piece in pieces]
    whole = of(np.concatenate(pieces))
    at_once = merge(parts)
    left = parts[0]
    for part in parts[1:]:
        left = merge([left, part])
    right = parts[-1]
    for part in reversed(parts[:-1]):
        right = merge([part, right])
    for found in (at_once, left, right):
        assert_close(found, whole, rtol=1e-7 if offset > 1e6 else 1e-9)
    assert_close(merge(parts[::-1]), at_once)


def test_no_digits_are_lost_over_many_merges() -> None:
    values = 1e9 + np.random.default_rng(0).random((20_000, 2))
    found = of(values[:10])
    for start in range(10, 20_000, 10):
        found = merge([found, of(values[start : start + 10])])
    exact = (values - 1e9).std(axis=0)
    np.testing.assert_allclose(found["x"]["std"], exact, rtol=1e-6)
    np.testing.assert_allclose(found["x"]["mean"], values.mean(axis=0), rtol=1e-13)


def test_parts_without_a_feature() -> None:
    parts = [of(np.zeros((3, 2))), {"y": {"min": np.array([1.0]), "max": np.array([2.0]), "count": np.array([2])}}]
    found = merge(parts)
    assert found["x"]["count"].tolist() == [3]
    assert "mean" not in found["y"]
    assert merge([]) == {}


def test_what_is_not_finite_weighs_nothing() -> None:
    gap = {"x": {**of(np.ones((5, 2)))["x"], "mean": np.array([np.nan, 1.0]), "std": np.array([np.nan, 0.0])}}
    found = merge([gap, of(np.full((1, 2), 3.0))])
    assert found["x"]["mean"].tolist() == [3.0, pytest.approx(8 / 6)]
    assert found["x"]["count"].tolist() == [6]
    nothing = merge([gap, gap])
    assert math.isnan(nothing["x"]["mean"][0])
    weighted = merge(
        [of(np.zeros((4, 2))), of(np.ones((4, 2)))], weights=[{"x": np.array([4, 1])}, {"x": np.array([4, 3])}]
    )
    assert weighted["x"]["mean"].tolist() == [0.5, 0.75]


def test_A55_quantiles_are_left_out_not_made_up() -> None:
    parts: list[Stats] = [{"x": episode_stats(np.random.default_rng(k).random((9, 2)), FEATURE)} for k in range(2)]
    with pytest.warns(StatisticsWarning, match="quantiles of x are left out"):
        found = merge(parts)
    assert not set(QUANTILES) & set(found["x"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = merge(parts[:1])
        given = merge(parts, {"x": {"q50": np.array([0.5, 0.5])}})
    assert np.array_equal(alone["x"]["q90"], parts[0]["x"]["q90"])
    assert given["x"]["q50"].tolist() == [0.5, 0.5]


def test_shapes_that_differ_are_named() -> None:
    parts = [of(np.zeros((3, 2))), {"x": {stat: array[:1] for stat, array in of(np.zeros((3, 2)))["x"].items()}}]
    with pytest.raises(FormatError, match=r"different shapes(.|\n)*feature x"):
        merge(parts)


def test_means_of_quantiles_as_the_reference_stores_them() -> None:
    parts = [{"q50": np.array([0.0]), "count": np.array([3])}, {"q50": np.array([4.0]), "count": np.array([1])}]
    assert mean_quantiles(parts)["q50"].tolist() == [1.0]
    assert mean_quantiles(parts, [1, 1])["q50"].tolist() == [2.0]
    assert mean_quantiles([*parts, {"count": np.array([2])}]) == {}
    assert mean_quantiles([]) == {}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/meta/stats.json")), ids=lambda path: path.parts[-3])
def test_json_is_written_as_the_reference_writes_it(path: Path) -> None:
    data = path.read_bytes()
    stats = from_json(data, "stats.json")
    assert to_json(stats) == data
    shapes = {name: {stat: np.shape(value) for stat, value in one.items()} for name, one in json.loads(data).items()}
    assert {name: {stat: a.shape for stat, a in one.items()} for name, one in stats.items()} == shapes
    assert all(one["count"].dtype == np.int64 for one in stats.values())


def test_json_scalars_and_names() -> None:
    stats = from_json('{"größe": {"mean": 0.5, "count": 3, "min": null}}', "stats.json")
    assert stats["größe"]["mean"].tolist() == [0.5]
    assert stats["größe"]["count"].tolist() == [3]
    assert math.isnan(stats["größe"]["min"][0])
    assert "größe".encode() in to_json(stats)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"x": 1}',
        '{"x": {"mean": "much"}}',
        '{"x": {"mean": {"a": 1}}}',
        '{"x": {"mean": [[1, 2], [3]]}}',
        '{"x": {"count": [-1]}}',
        '{"x": {"count": [null]}}',
        '{"x": {"count": [1e400]}}',
        '{"x": {"mean": ' + "[" * 100_000,
        '{"x": {"mean": ' + "[" * 30 + "1" + "]" * 30 + "}}",
        '{"x": {"mean": [1' + "0" * 400 + "]}}",
        b"\xff\xfe\x00",
    ],
)
def test_bad_json_is_a_format_error(text: str | bytes) -> None:
    with pytest.raises(FormatError, match=r"meta/stats\.json"):
        from_json(text, "meta/stats.json")


def test_shape_of_each_rank() -> None:
    shapes: dict[tuple[str, tuple[int, ...]], tuple[int, ...] | None] = {
        ("float32", (1,)): (1,),
        ("float32", (7,)): (7,),
        ("float32", (2, 3)): (3,),
        ("uint8", (84, 84, 3)): (3,),
        ("video", (48, 64, 3)): (3, 1, 1),
        ("image", (3, 48, 64)): (3, 1, 1),
        ("video", (48, 64, 1)): (1, 1, 1),
        ("string", (1,)): None,
        ("language", (1,)): None,
        ("float32", (0,)): None,
    }
    for (dtype, shape), expected in shapes.items():
        assert stats_shape(Feature("f", dtype, shape)) == expected, (dtype, shape)
