"""Our statistics against the reference's on the same frames.

The judge is the definition of the default mode, which computes from the frames as recorded. Its streaming mode
counts pixels and sees every frame, which we do not follow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from oracle import ours
from oracle.client import Oracle
from oracle.items import plain
from oracle.recipes import DEFAULTS, RECIPES, Recipe

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
BINS = 5_000


KINDS = ["statistics", "statistics_large", "images", "depth_m", "depth_images", "hevc"]


@pytest.mark.parametrize("recipe", KINDS)
def test_statistics_of_each_episode(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    """By the definition, the functions fed with float64: 1e-6 relative, quantiles within one of the 5,000 bins."""
    found = episode_stats(ours.record(recipe, tmp_path / "set"))
    for episode, stats in enumerate(found):
        expected = oracle.call("definition", recipe=recipe, episode=episode)
        assert set(stats) == set(expected) | DEFAULTS
        for name in expected:
            _assert_close(stats[name], expected[name], 1e-6, f"episode {episode} {name}")


@pytest.mark.parametrize("recipe", KINDS)
def test_statistics_as_the_reference_writes_them(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    """The same columns, shapes and counts; values as near as its float32 sums allow."""
    mine, theirs = ours.record(recipe, tmp_path / "ours"), tmp_path / "theirs"
    oracle.record(recipe, theirs, range(len(RECIPES[recipe].lengths)))
    for episode, (found, expected) in enumerate(zip(episode_stats(mine), episode_stats(theirs), strict=True)):
        assert set(found) == set(expected), f"episode {episode}"
        for name in expected.keys() - {"task_index"}:  # the reference numbers an episode's new tasks in any order
            _assert_close(found[name], expected[name], 1e-3, f"episode {episode} {name}")


def _assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], relative: float, what: str) -> None:
    assert set(found) == set(expected), what
    spread = np.abs(expected["max"].astype(np.float64) - expected["min"])
    for stat, value in expected.items():
        assert found[stat].shape == value.shape, f"{what} {stat}: {found[stat].shape}, reference {value.shape}"
        gap = np.abs(found[stat].astype(np.float64) - value)
        scale = relative * np.maximum(np.abs(value), 1e-3 * spread)
        allowed = spread / BINS + scale + 1e-9 if stat in QUANTILES else scale + 1e-12
        assert (gap <= allowed).all(), f"{what} {stat}: ours {found[stat].ravel()[:4]}, reference {value.ravel()[:4]}"


@pytest.mark.parametrize("recipe", ["statistics", "depth_images", "many"])
def test_statistics_of_the_whole(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    """All but quantiles as the reference merges our episodes; quantiles are those of all frames (rank error 0.5 %)."""
    plan = RECIPES[recipe]
    root = ours.record(recipe, tmp_path / "set")
    found = whole_stats(root)
    episodes = episode_stats(root)
    merged = {
        key: {stat: value.array for stat, value in stats.items()}
        for key, stats in plain_stats(oracle, episodes).items()
    }
    assert set(found) == set(merged)
    for name, stats in merged.items():
        for stat in ("min", "max", "mean", "std", "count"):
            gap = np.abs(found[name][stat].reshape(stats[stat].shape) - stats[stat])
            scale = np.abs(stats[stat]) + 1e-6 * np.abs(stats["max"] - stats["min"])
            assert (gap <= 1e-6 * scale + 1e-12).all(), (
                f"{name} {stat}: ours {found[name][stat]}, reference {stats[stat]}"
            )
        if name not in plan.cameras and name in plan.features and tuple(plan.features[name]["shape"]) == (1,):
            _assert_ranks(found[name], plan, name)


def _assert_ranks(stats: dict[str, np.ndarray], plan: Recipe, name: str) -> None:
    values = np.sort(
        np.concatenate(
            [np.ravel(frame[name]) for episode in range(len(plan.lengths)) for frame in plan.episode(episode)]
        ).astype(np.float64)
    )
    spread = (values[-1] - values[0]) / BINS
    for stat, quantile in QUANTILES.items():
        value = float(stats[stat].ravel()[0])
        low = np.searchsorted(values, value - spread, side="left") / len(values)
        high = np.searchsorted(values, value + spread, side="right") / len(values)
        slack = 0.005 + 1 / len(values)
        assert low - slack <= quantile <= high + slack, f"{name} {stat}: {value} has ranks {low} to {high}"


def test_lerobot_merges_ours_when_it_resumes(oracle: Oracle, tmp_path: Path) -> None:
    root = ours.record("everything", tmp_path / "set", [0, 1, 2])
    oracle.record("everything", root, [0], resume=True)
    mean = whole_stats(root)["action"]
    rows = np.concatenate([np.stack([f["action"] for f in RECIPES["everything"].episode(e)]) for e in (0, 1, 2, 0)])
    assert np.allclose(mean["mean"], rows.mean(axis=0), rtol=1e-5)
    assert mean["count"].tolist() == [len(rows)]


def plain_stats(oracle: Oracle, episodes: list[dict[str, dict[str, np.ndarray]]]) -> Any:
    """The reference's merge, in plain form."""
    merged = oracle.call("aggregate", stats=episodes)
    from oracle.items import Tensor

    return {
        key: {stat: Tensor(np.asarray(value)) for stat, value in stats.items()} for key, stats in plain(merged).items()
    }


def episode_stats(root: Path) -> list[dict[str, dict[str, np.ndarray]]]:
    """`stats/*` of the episodes table, one mapping for each episode in order."""
    found: list[dict[str, dict[str, np.ndarray]]] = []
    for path in sorted(root.glob("meta/episodes/*/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            stats: dict[str, dict[str, np.ndarray]] = {}
            for column, value in row.items():
                if column.startswith("stats/"):
                    name, _, stat = column.removeprefix("stats/").rpartition("/")
                    stats.setdefault(name, {})[stat] = np.asarray(value)
            found.append(stats)
    return found


def whole_stats(root: Path) -> dict[str, dict[str, np.ndarray]]:
    """stats.json as arrays."""
    text = json.loads((root / "meta" / "stats.json").read_bytes())
    return {name: {stat: np.asarray(value) for stat, value in stats.items()} for name, stats in text.items()}
