"""Episode statistics against the reference's own numbers, and against what it wrote into the golden datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltape.format import Feature, parse_features
from rolltape.format.episode_stats import episode_stats, sample_indices, subsample
from rolltape.format.stats import QUANTILES, FeatureStats, from_json, mean_quantiles, merge
from rolltape.write.statistics import EpisodeStatistics, PictureStats
from stats.reference_inputs import columns, pictures

GOLDEN = Path(__file__).parents[1] / "data/golden/v30"
SETS = sorted(path.name for path in GOLDEN.iterdir())
REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference.json").read_text())
BINS = 5_000
Array = npt.NDArray[Any]


SINGLE, DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)


def assert_equal(found: FeatureStats, expected: dict[str, Any], eps: float, rtol: float = 1e-6) -> None:
    """Moments within `rtol`; quantiles within one bin of the reference's histogram.

    The reference subtracts the squared mean from the mean of squares, in the precision `eps` of its arithmetic; what
    digits that costs it are allowed for.
    """
    assert set(found) == set(expected)
    low, high = np.asarray(expected["min"], np.float64), np.asarray(expected["max"], np.float64)
    for stat, answer in expected.items():
        value = np.asarray(answer)
        assert found[stat].shape == value.shape, stat
        top: Array = np.maximum(np.abs(low), np.abs(high)) if stat != "count" else np.zeros(1)
        allowed: Array = rtol * np.abs(value) + 4 * eps * top
        if stat == "std":
            lost = 8 * eps * top**2
            allowed = allowed + np.minimum(lost / np.maximum(value, 1e-300), np.sqrt(lost))
        if stat in QUANTILES:
            allowed = allowed + (high - low) / BINS + 1e-9 + np.spacing(np.abs(value).astype(np.float32))
        assert (np.abs(found[stat] - value) <= allowed).all(), f"{stat}: {found[stat]} and {value}"


@pytest.mark.parametrize("name", sorted(columns()))
def test_columns_as_the_reference(name: str) -> None:
    shape, values = columns()[name]
    found = episode_stats(values, Feature(name, values.dtype.name, tuple(shape)))
    assert all(array.dtype == (np.int64 if stat == "count" else np.float64) for stat, array in found.items())
    assert_equal(found, REFERENCE["columns"][name]["double"], DOUBLE)
    assert_equal(found, REFERENCE["columns"][name]["as_is"], SINGLE if values.dtype.itemsize < 8 else DOUBLE)


def test_no_digits_are_lost_far_from_zero() -> None:
    values = (16_777_216.0 + np.arange(64) % 8 * 2).astype(np.float32)[:, None]
    found = episode_stats(values, Feature("x", "float32", (1,)))
    assert found["std"][0] == pytest.approx(np.std(values.astype(np.float64) - 16_777_216.0), rel=1e-12)
    huge = 1e15 + np.arange(1000)[:, None] % 10
    assert episode_stats(huge, Feature("x", "float64", (1,)))["std"][0] == pytest.approx(np.std(np.arange(10)))


@pytest.mark.parametrize("name", sorted(pictures()))
def test_pictures_as_the_reference(name: str) -> None:
    is_depth, frames = pictures()[name]
    height, width = frames.shape[1:3]
    camera = Feature(name, "video", (height, width, 1 if is_depth else 3), info={"is_depth_map": is_depth})
    gathered = PictureStats(camera)
    for frame in frames:
        gathered.add(frame)
    found = gathered.finish(len(frames))
    assert_equal(found, REFERENCE["pictures"][name]["double"], DOUBLE)
    # In its own float32 the reference adds up all pixels one by one.
    assert_equal(found, REFERENCE["pictures"][name]["as_is"], 100 * SINGLE, rtol=2e-4)


def test_the_same_frames_are_looked_at() -> None:
    for length, picked in REFERENCE["sample_indices"].items():
        assert sample_indices(int(length)).tolist() == picked
    assert sample_indices(0).tolist() == []
    assert subsample(np.zeros((299, 299, 3))).shape == (299, 299, 3)
    assert subsample(np.zeros((480, 640, 3))).shape == (120, 160, 3)


def table_columns(root: Path, features: dict[str, Feature]) -> dict[int, dict[str, Array]]:
    """The number columns of each episode."""
    table = pa.concat_tables([pq.read_table(path) for path in sorted(root.glob("data/*/*.parquet"))])
    episode = table["episode_index"].to_numpy()
    found: dict[int, dict[str, Array]] = {}
    for number in np.unique(episode):
        rows = table.take(np.flatnonzero(episode == number))
        found[int(number)] = {
            name: np.array(rows[name].to_pylist(), feature.numpy_dtype).reshape(len(rows), *feature.shape)
            for name, feature in features.items()
            if feature.is_numeric
        }
    return found


def episode_rows(root: Path) -> list[dict[str, dict[str, Array]]]:
    rows = []
    for path in sorted(root.glob("meta/episodes/*/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            stats: dict[str, dict[str, Array]] = {}
            for column, value in row.items():
                if column.startswith("stats/"):
                    name, stat = column[len("stats/") :].rsplit("/", 1)
                    stats.setdefault(name, {})[stat] = np.array(value)
            rows.append(stats)
    return rows


@pytest.mark.parametrize("name", SETS)
def test_golden_episode_rows(name: str) -> None:
    root = GOLDEN / name
    features = parse_features(json.loads((root / "meta/info.json").read_text())["features"])
    by_episode = table_columns(root, features)
    rows = episode_rows(root)
    assert len(rows) == len(by_episode)
    for number, expected in enumerate(rows):
        found = EpisodeStatistics(features).finish(by_episode[number])
        assert set(found) == {name for name in expected if features[name].is_numeric}
        for feature, one in found.items():
            assert_equal(one, {stat: array.tolist() for stat, array in expected[feature].items()}, SINGLE)


@pytest.mark.parametrize("name", SETS)
def test_golden_whole(name: str) -> None:
    root = GOLDEN / name
    expected = from_json((root / "meta/stats.json").read_bytes(), "stats.json")
    rows = episode_rows(root)
    averaged = {feature: mean_quantiles([row[feature] for row in rows]) for feature in expected}
    merged = merge(rows, averaged)
    assert set(merged) == set(expected)
    for feature, one in expected.items():
        for stat, array in one.items():
            np.testing.assert_allclose(merged[feature][stat], array, rtol=1e-6, atol=1e-9, err_msg=f"{feature} {stat}")


def test_golden_pictures() -> None:
    """The frames that were put into `images_png` are known: one grey level each."""
    root = GOLDEN / "images_png"
    camera = parse_features(json.loads((root / "meta/info.json").read_text())["features"])["observation.images.front"]
    rows = episode_rows(root)
    index = 0
    for row, length in zip(rows, (5, 7, 4), strict=True):
        gathered = PictureStats(camera)
        for _ in range(length):
            gathered.add(np.full((32, 32, 3), 12 + 12 * index % 240, np.uint8))
            index += 1
        expected = {stat: array.tolist() for stat, array in row[camera.name].items()}
        assert_equal(gathered.finish(length), expected, 4 * SINGLE)


def test_golden_depth() -> None:
    root = GOLDEN / "depth_mm"
    features = parse_features(json.loads((root / "meta/info.json").read_text())["features"])
    camera = features["observation.images.front_depth"]
    index = 0
    for row, length in zip(episode_rows(root), (5, 7, 4), strict=True):
        gathered = PictureStats(camera)
        for _ in range(length):
            gathered.add(np.full((64, 64, 1), 400 + 50 * index, np.uint16))
            index += 1
        found = gathered.finish(length)
        assert found["mean"].shape == (1, 1, 1)
        expected = {stat: array.tolist() for stat, array in row[camera.name].items()}
        assert_equal(found, expected, 4 * SINGLE)
