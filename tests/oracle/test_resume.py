"""Recordings that change hands: lerobot resumes ours, we resume lerobot's; both readers agree after each part."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle import ours
from oracle.agreement import agree
from oracle.client import Oracle

RECIPES_OF_BOTH = ["two_cameras", "everything", "images", "depth_m", "tables", "h264"]


@pytest.mark.parametrize("recipe", RECIPES_OF_BOTH)
def test_lerobot_resumes_ours(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    root = ours.record(recipe, tmp_path / "set", [0, 1])
    oracle.record(recipe, root, [2, 0], resume=True)
    agree(oracle, root, recipe, [0, 1, 2, 0])


@pytest.mark.parametrize("recipe", RECIPES_OF_BOTH)
def test_we_resume_lerobots(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    root = tmp_path / "set"
    oracle.record(recipe, root, [0, 1])
    ours.resume(recipe, root, [2, 0])
    agree(oracle, root, recipe, [0, 1, 2, 0])


def test_back_and_forth(oracle: Oracle, tmp_path: Path) -> None:
    root = ours.record("many", tmp_path / "set", [0, 1], episode_fields={"operator": "string"})
    oracle.record("many", root, [2], resume=True)
    agree(oracle, root, "many", [0, 1, 2])
    ours.resume("many", root, [3, 4])
    agree(oracle, root, "many", [0, 1, 2, 3, 4])
    oracle.record("many", root, [5, 6], resume=True, streaming_encoding=True)
    ours.record_drop_in("many", root, [7], resume=True)
    agree(oracle, root, "many", range(8))


def test_lerobot_resumes_ours_before_packing_was_done(oracle: Oracle, tmp_path: Path) -> None:
    """Twenty commits leave several hot files; the reference starts new ones behind them."""
    root = ours.record("many", tmp_path / "set", range(20))
    oracle.record("many", root, [20, 21], resume=True)
    agree(oracle, root, "many", range(22))
