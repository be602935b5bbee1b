"""lerobot opens the dataset after every commit, in the middle of a recording and without `finalize`."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle import ours
from oracle.agreement import agree, agree_on, assert_recorded, windows
from oracle.client import Oracle
from oracle.recipes import RECIPES


@pytest.mark.parametrize("recipe", ["everything", "two_cameras", "h264_uneven"])
def test_after_each_commit(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    plan = RECIPES[recipe]
    root = tmp_path / "set"
    with ours.create(recipe, root) as writer:
        for episode in range(len(plan.lengths)):
            ours.add_episode(writer, recipe, episode)
            items = agree_on(oracle, root, return_uint8=True)
            assert_recorded(items, plan, range(episode + 1))
        agree_on(oracle, root, delta_timestamps=windows(plan), return_uint8=True)
    agree(oracle, root, recipe)


def test_across_hot_file_roll_over(oracle: Oracle, tmp_path: Path) -> None:
    """Past 16 episodes the hot files start new numbers; every commit must open, and every state must be right."""
    root = tmp_path / "set"
    with ours.create("many", root) as writer:
        for episode in range(36):
            ours.add_episode(writer, "many", episode)
            with oracle.open(root, return_uint8=True) as theirs:
                assert theirs.facts["total_episodes"] == len(theirs.facts["episodes"]) == episode + 1
                assert theirs.facts["rows"] == len(theirs)
                if episode % 5 == 0 or episode in (15, 16, 17, 31, 32, 33):
                    assert_recorded(theirs.items(), RECIPES["many"], range(episode + 1))
    agree(oracle, root, "many", range(36))


def test_between_frames_of_an_open_episode(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "set"
    plan = RECIPES["many"]
    with ours.create("many", root) as writer:
        ours.add_episode(writer, "many", 0)
        for frame in plan.episode(1):
            task = frame.pop("task")
            writer.add_frame(frame, task=task)
            with oracle.open(root, return_uint8=True) as theirs:
                assert_recorded(theirs.items(), plan, [0])
        writer.discard_episode()
        with oracle.open(root, return_uint8=True) as theirs:
            assert_recorded(theirs.items(), plan, [0])
        ours.add_episode(writer, "many", 2)
    agree(oracle, root, "many", [0, 2])


def test_groups_become_visible_together(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "set"
    plan = RECIPES["many"]
    with ours.create("many", root, commit_every=3) as writer:
        for episode in range(7):
            ours.add_episode(writer, "many", episode)
            visible = 3 * ((episode + 1) // 3)
            if visible:
                with oracle.open(root, return_uint8=True) as theirs:
                    assert_recorded(theirs.items(), plan, range(visible))
    agree(oracle, root, "many", range(7))
