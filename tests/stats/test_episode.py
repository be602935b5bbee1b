"""Statistics of one episode: every sort of feature, values that are no numbers, cost."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rolltape.errors import EpisodeError
from rolltape.format import DEFAULT_FEATURES, Feature
from rolltape.format.episode_stats import episode_stats, number_stats, value_stats
from rolltape.format.stats import QUANTILES, StatisticsWarning, stats_shape
from rolltape.write.statistics import DatasetStatistics, EpisodeStatistics


def features_of_each_sort() -> dict[str, Feature]:
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "constant": ("float32", (2,)),
        "empty": ("float32", (0,)),
        "note": ("string", (1,)),
        "language_events": ("language", (1,)),
        "done": ("bool", (1,)),
        "patch": ("uint8", (84, 84, 3)),
        "deep": ("float32", (2, 1, 3, 2)),
        "gappy": ("float64", (3,)),
        "count": ("int64", (1,)),
        "half": ("float16", (2,)),
    }
    return {name: Feature(name, dtype, shape) for name, (dtype, shape) in shapes.items()} | DEFAULT_FEATURES


def columns_of_each_sort(rows: int, episode: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(episode)
    gappy = np.arange(rows * 3, dtype=np.float64).reshape(rows, 3)
    gappy[0, 1] = np.nan
    gappy[rows // 2, 1] = np.inf
    gappy[:, 2] = np.nan
    return {
        "constant": np.full((rows, 2), 0.1, np.float32),
        "empty": np.zeros((rows, 0), np.float32),
        "note": np.array(["x"] * rows, object),
        "done": np.arange(rows) == rows - 1,
        "patch": rng.integers(0, 256, (rows, 84, 84, 3), dtype=np.uint8),
        "deep": rng.random((rows, 2, 1, 3, 2), dtype=np.float32),
        "gappy": gappy,
        "count": np.arange(rows, dtype=np.int64) * 5,
        "half": np.linspace(0, 1, rows * 2, dtype=np.float16).reshape(rows, 2),
        "timestamp": np.arange(rows, dtype=np.float32) / 10,
        "frame_index": np.arange(rows),
        "episode_index": np.full(rows, episode),
        "index": np.arange(rows) + rows * episode,
        "task_index": np.zeros(rows, np.int64),
    }


@pytest.mark.parametrize("rows", [1, 2, 60])
def test_A57_every_sort_of_feature(rows: int) -> None:
    features, columns = features_of_each_sort(), columns_of_each_sort(rows)
    statistics = EpisodeStatistics(features)
    with pytest.warns(StatisticsWarning, match="gappy"):
        found = statistics.finish(columns)
    assert set(found) == {name for name, feature in features.items() if stats_shape(feature) is not None}
    for name, one in found.items():
        assert one["count"].tolist() == [rows], name
        for stat, array in one.items():
            assert array.shape == ((1,) if stat == "count" else stats_shape(features[name])), f"{name} {stat}"
            assert name == "gappy" or np.isfinite(array).all(), f"{name} {stat}"
        if name != "gappy":
            assert (one["min"] <= one["q01"]).all()
            assert (one["q99"] <= one["max"]).all()
    assert found["constant"]["std"].tolist() == [0.0, 0.0]
    assert found["constant"]["mean"].tolist() == [float(np.float32(0.1))] * 2
    assert found["done"]["mean"].tolist() == pytest.approx([1 / rows])
    assert found["patch"]["mean"].shape == (3,)
    assert found["deep"]["mean"].shape == (2,)


def test_A57_values_that_are_no_numbers_are_counted_and_not_spread() -> None:
    features = {"gappy": features_of_each_sort()["gappy"]}
    columns = {"gappy": columns_of_each_sort(10)["gappy"]}
    statistics = EpisodeStatistics(features)
    with pytest.warns(StatisticsWarning, match=r"gappy: 12 of 30 values are not finite \(element 1, 2\)"):
        found = statistics.finish(columns)["gappy"]
    good = columns["gappy"][np.isfinite(columns["gappy"][:, 1]), 1]
    assert len(good) == 8
    assert found["mean"][1] == pytest.approx(good.mean())
    assert found["std"][1] == pytest.approx(good.std())
    assert (found["min"][1], found["max"][1]) == (good.min(), good.max())
    assert found["mean"][0] == pytest.approx(columns["gappy"][:, 0].mean())
    assert np.isnan(found["mean"][2])
    assert found["count"].tolist() == [10]
    assert len(statistics.problems) == 1

    whole = DatasetStatistics.empty(features).with_episodes([statistics])
    more = {"gappy": np.arange(12.0).reshape(4, 3)}
    whole = whole.with_episode(EpisodeStatistics(features).finish(more), more)
    everything = np.concatenate([columns["gappy"], more["gappy"]])
    for element in range(3):
        values = everything[np.isfinite(everything[:, element]), element]
        assert whole.stats["gappy"]["mean"][element] == pytest.approx(values.mean())
        assert whole.stats["gappy"]["std"][element] == pytest.approx(values.std())
        assert whole.stats["gappy"]["q50"][element] == pytest.approx(np.quantile(values, 0.5))
    assert any("12 of 42 values are not finite" in note for note in whole.notes)


def test_A57_constant_features_are_named_once() -> None:
    features = features_of_each_sort()
    del features["gappy"]
    columns = {name: column for name, column in columns_of_each_sort(8).items() if name != "gappy"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = DatasetStatistics.empty(features).with_episode(EpisodeStatistics(features).finish(columns), columns)
    assert whole.stats["constant"]["std"].tolist() == [0.0, 0.0]
    with pytest.warns(StatisticsWarning, match=r"constant \(element 0, 1\) is constant") as caught:
        whole.warn()
    assert len(caught) == 1
    assert "task_index" not in str(caught[0].message)
    assert "done" not in str(caught[0].message)


def test_one_row_has_its_value_everywhere() -> None:
    found = episode_stats(np.array([[1.5, -2.0]]), Feature("x", "float64", (2,)))
    for stat in ("min", "max", "mean", *QUANTILES):
        assert found[stat].tolist() == [1.5, -2.0]
    assert found["std"].tolist() == [0.0, 0.0]


def test_A15_scalars_and_vectors_of_one_have_one_shape() -> None:
    for shape in ((1,), (1, 1)):
        feature = Feature("grip", "float32", shape)
        for column in (np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32).reshape(4, *shape)):
            found = episode_stats(column, feature)
            assert all(array.shape == (1,) for array in found.values())
            assert found["mean"].tolist() == [1.5]


def test_wrong_columns_are_refused() -> None:
    feature = Feature("x", "float32", (3,))
    with pytest.raises(EpisodeError, match="do not fit"):
        episode_stats(np.zeros((4, 2)), feature)
    with pytest.raises(EpisodeError, match="do not fit"):
        episode_stats(np.array([["a", "b", "c"]]), feature)
    with pytest.raises(EpisodeError, match="without frames"):
        episode_stats(np.zeros((0, 3)), feature)
    with pytest.raises(EpisodeError, match="one length"):
        EpisodeStatistics({"x": feature, "y": feature}).finish({"x": np.zeros((2, 3)), "y": np.zeros((3, 3))})
    with pytest.raises(EpisodeError, match="at least one row"):
        EpisodeStatistics({"x": feature}).finish({})
    with pytest.raises(EpisodeError, match="another number of rows"):
        EpisodeStatistics.of({"x": np.zeros((2, 3))}, {}, {"x": feature}, 3)


def test_pieces_are_as_good_as_the_whole() -> None:
    rng = np.random.default_rng(1)
    features = {"x": Feature("x", "float32", (4,)), "y": Feature("y", "int64", (1,))}
    columns: dict[str, npt.NDArray[Any]] = {"x": rng.random((50, 4), dtype=np.float32), "y": rng.integers(0, 9, 50)}
    pieces = EpisodeStatistics(features)
    for start in range(0, 50, 10):
        pieces.add_rows({name: column[start : start + 10] for name, column in columns.items()})
    found, expected = pieces.finish(), EpisodeStatistics(features).finish(columns)
    for name, one in expected.items():
        for stat, array in one.items():
            assert np.array_equal(found[name][stat], array)


def test_wide_columns_are_cut_into_blocks() -> None:
    rng = np.random.default_rng(2)
    wide = rng.random((700, 4000), dtype=np.float32)
    narrow = rng.random((700, 2))
    features = {"n": Feature("n", "float64", (2,)), "w": Feature("w", "float32", (4000,))}
    found = number_stats({"n": narrow, "w": wide}, features)
    np.testing.assert_allclose(found.stats["w"]["mean"], wide.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(found.stats["w"]["std"], wide.std(axis=0, dtype=np.float64))
    assert np.array_equal(found.stats["w"]["q90"], np.quantile(wide, 0.9, axis=0, method="inverted_cdf"))
    np.testing.assert_allclose(found.stats["n"]["mean"], narrow.mean(axis=0))
    assert found.finite["w"].tolist() == [700] * 4000


@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=30), elements=st.floats(-1e6, 1e6)),
)
@settings(max_examples=60, deadline=None)
def test_agrees_with_numpy(values: np.ndarray[Any, Any]) -> None:
    found = episode_stats(values, Feature("x", "float64", (values.shape[1],)))
    np.testing.assert_allclose(found["mean"], values.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["std"], values.std(axis=0), rtol=1e-6, atol=1e-9)
    assert np.array_equal(found["min"], values.min(axis=0))
    assert np.array_equal(found["max"], values.max(axis=0))
    for key, q in QUANTILES.items():
        if len(values) > 1:
            assert np.array_equal(found[key], np.quantile(values, q, axis=0, method="inverted_cdf")), key


@given(hnp.arrays(np.uint8, st.tuples(st.integers(2, 80), st.integers(1, 3)), elements=st.integers(0, 12)))
@settings(max_examples=40, deadline=None)
def test_counted_values_agree_with_rows(values: np.ndarray[Any, Any]) -> None:
    counts = np.stack([np.bincount(values[:, at], minlength=256) for at in range(values.shape[1])])
    found = value_stats(np.arange(256), counts)
    expected = episode_stats(values, Feature("x", "uint8", (values.shape[1],)))
    for stat, array in found.items():
        np.testing.assert_allclose(array, expected[stat], rtol=1e-9, atol=1e-9, err_msg=stat)
