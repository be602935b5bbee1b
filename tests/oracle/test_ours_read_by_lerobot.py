"""What rolltape records, lerobot reads: every item equal to our own reader's and to what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import rolltape
from oracle import ours
from oracle.agreement import agree, agree_on
from oracle.client import Oracle
from oracle.items import assert_same, plain
from oracle.recipes import FRONT, RECIPES, Recipe


def _light(plan: Recipe) -> bool:
    return plan.frames <= 100 and plan.name != "rolling"


@pytest.mark.parametrize("recipe", [name for name, plan in RECIPES.items() if _light(plan)])
def test_every_feature_kind(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    root = ours.record(recipe, tmp_path / "set")
    agree(oracle, root, recipe)


def test_language_columns_filled_in_after_the_recording(oracle: Oracle, tmp_path: Path) -> None:
    root = ours.record("language", tmp_path / "set")
    ours.fill_language("language", root)
    agree(oracle, root, "language", language=True)


@pytest.mark.parametrize("recipe", ["everything", "h264_uneven"])
def test_through_the_drop_in_class(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    plan = RECIPES[recipe]
    root = ours.record_drop_in(recipe, tmp_path / "set", range(len(plan.lengths)))
    agree(oracle, root, recipe)


@pytest.mark.parametrize("backend", ["torchcodec", "pyav"])
@pytest.mark.parametrize("recipe", ["av1", "h264", "h264_uneven", "hevc"])
def test_both_decoders_of_the_reference(oracle: Oracle, tmp_path: Path, recipe: str, backend: str) -> None:
    root = ours.record(recipe, tmp_path / "set")
    agree_on(oracle, root, video_backend=backend, return_uint8=True)


@pytest.mark.parametrize("recipe", ["depth_mm", "depth_m", "depth_linear", "depth_images", "images"])
def test_lossless_pictures_are_those_that_lerobot_stores(oracle: Oracle, tmp_path: Path, recipe: str) -> None:
    """The same frames recorded by both sides: equal depth codes, equal stills, equal tables."""
    mine, theirs = ours.record(recipe, tmp_path / "ours"), tmp_path / "theirs"
    oracle.record(recipe, theirs, range(len(RECIPES[recipe].lengths)))
    left_out = ["task_index"]  # the reference numbers an episode's new tasks in any order
    left_out += [name for name in RECIPES[recipe].cameras if name == FRONT and recipe.startswith("depth")]
    with oracle.open(mine) as first, oracle.open(theirs) as second:
        found, expected = first.items(), second.items()
    for item in (*found, *expected):
        for name in left_out:
            del item[name]
    assert_same(found, expected, "items")


def test_groups_of_commits(oracle: Oracle, tmp_path: Path) -> None:
    episodes = list(range(11))
    root = ours.record("many", tmp_path / "set", episodes, commit_every=4)
    agree(oracle, root, "many", episodes)


def test_two_cameras_that_roll_over_at_different_episodes(oracle: Oracle, tmp_path: Path) -> None:
    episodes = list(range(10))
    root = ours.record("rolling", tmp_path / "set", episodes, video_files_size_in_mb=1, data_files_size_in_mb=1)
    files = {name: len(list((root / "videos" / name).glob("*/*.mp4"))) for name in RECIPES["rolling"].cameras}
    assert len(set(files.values())) == 2, files
    assert max(files.values()) > 2, files
    agree(oracle, root, "rolling", episodes)


def test_three_resumed_recordings(oracle: Oracle, tmp_path: Path) -> None:
    root = ours.record("two_cameras", tmp_path / "set", [0, 1])
    ours.resume("two_cameras", root, [2])
    agree(oracle, root, "two_cameras", [0, 1, 2])
    ours.resume("two_cameras", root, [3, 4])
    agree(oracle, root, "two_cameras", [0, 1, 2, 3, 4])


def test_episode_fields_of_the_user(oracle: Oracle, tmp_path: Path) -> None:
    kinds = {"operator": "string", "success": "bool", "attempts": "int64", "score": "float64"}
    root = ours.record(
        "many",
        tmp_path / "set",
        range(4),
        episode_fields=kinds,
        fields=lambda n: {"operator": f"Łucja {n}", "success": n % 2 == 0, "attempts": n, "score": n / 3},
    )
    agree(oracle, root, "many", range(4))
    with oracle.open(root) as theirs:
        for n, row in enumerate(theirs.facts["episodes"]):
            found = [row[name] for name in kinds]
            assert found == [f"Łucja {n}", n % 2 == 0, n, n / 3]


def test_folder_with_unusual_characters(oracle: Oracle, tmp_path: Path) -> None:
    root = ours.record("h264", tmp_path / "zbiór danych 数据 #1")
    agree(oracle, root, "h264")


def test_reader_kept_open_across_commits_and_packing(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "set"
    writer = ours.create("many", root)
    for episode in range(3):
        ours.add_episode(writer, "many", episode)
    with oracle.open(root, return_uint8=True) as early:
        before = early.items()
        for episode in range(3, 20):
            ours.add_episode(writer, "many", episode)
        assert_same(early.items(), before, "items of a reader opened before 17 more commits")
        writer.close()
        assert_same(early.items(), before, "items of a reader opened before the packing")
    agree(oracle, root, "many", range(20))


def test_folders_of_two_files(oracle: Oracle, tmp_path: Path) -> None:
    """Numbers carry from the file to the chunk, in data, episode rows and videos alike."""
    episodes = list(range(10))
    limits = {"chunks_size": 2, "video_files_size_in_mb": 1, "data_files_size_in_mb": 1}
    root = tmp_path / "set"
    with ours.create("rolling", root, **limits) as writer:
        for episode in episodes:
            ours.add_episode(writer, "rolling", episode)
        agree_on(oracle, root, return_uint8=True)
        assert {path.name for path in root.glob("videos/*/*/*")} == {"file-000.mp4", "file-001.mp4"}
        assert len(list((root / "videos").glob("*/chunk-*"))) >= 10
    agree_on(oracle, root, return_uint8=True)


def test_workers_after_reads_in_the_parent(oracle: Oracle, tmp_path: Path) -> None:
    """A forked DataLoader over our class, when the parent has decoders open: the reference itself fails here."""
    root = ours.record("two_cameras", tmp_path / "set")
    dataset = rolltape.LeRobotDataset("oracle/check", root=root, return_uint8=True)
    first = plain(dataset[0])
    found = [plain(batch) for batch in torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=2)]
    with oracle.open(root, return_uint8=True) as theirs:
        assert_same([first], theirs.items([0]), "item 0")
        assert_same(found, theirs.batches(4), "batches")
