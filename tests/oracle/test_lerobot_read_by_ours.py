"""What lerobot records, in each of its modes, rolltape reads: every item equal to lerobot's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oracle.agreement import agree, agree_on, assert_recorded
from oracle.client import Oracle
from oracle.recipes import RECIPES, Recipe


def _has_video(plan: Recipe) -> bool:
    return any(feature["dtype"] == "video" for feature in plan.features.values())


MODES: dict[str, dict[str, Any]] = {"default": {}, "streaming": {"streaming_encoding": True}}
CASES = [
    (name, mode)
    for name, plan in RECIPES.items()
    for mode in MODES
    if plan.reference_writes and plan.frames <= 100 and name != "rolling" and (mode == "default" or _has_video(plan))
]


@pytest.mark.parametrize(("recipe", "mode"), CASES)
def test_every_feature_kind_and_mode(oracle: Oracle, tmp_path: Path, recipe: str, mode: str) -> None:
    root = tmp_path / "set"
    oracle.record(recipe, root, range(len(RECIPES[recipe].lengths)), **MODES[mode])
    agree(oracle, root, recipe)


@pytest.mark.parametrize("recipe", ["av1", "h264_long", "two_cameras"])
def test_its_other_decoder(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    root = tmp_path / "set"
    oracle.record(recipe, root, range(len(RECIPES[recipe].lengths)))
    agree_on(oracle, root, video_backend="pyav", return_uint8=True)


def test_open_groups_of_pictures(oracle: Oracle, tmp_path: Path) -> None:
    """x265 as the reference runs it: its own windows fail on such a file, single frames agree."""
    root = tmp_path / "set"
    oracle.record("hevc", root, range(3))
    items = agree_on(oracle, root, return_uint8=True)
    assert_recorded(items, RECIPES["hevc"], range(3))


def test_rolled_files(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "set"
    oracle.record("rolling", root, range(10), video_files_size_in_mb=1, streaming_encoding=True)
    agree(oracle, root, "rolling", range(10))


def test_resumed_twice(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "set"
    oracle.record("two_cameras", root, [0, 1])
    oracle.record("two_cameras", root, [2], resume=True)
    oracle.record("two_cameras", root, [3, 4], resume=True)
    agree(oracle, root, "two_cameras")
