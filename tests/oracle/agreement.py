"""The whole comparison of one dataset: rolltape's readers against lerobot's, and both against what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rolltape
from oracle.client import Opened, Oracle
from oracle.items import Tensor, assert_same, differences, plain
from oracle.recipes import DEFAULTS, NUMBERS, RECIPES, Recipe

REPO = "oracle/check"
CHUNK = 64
NO_WINDOW = {f"{group}.{dtype}" for group in ("typed", "vector") for dtype in NUMBERS} - {
    "typed.int16",
    "vector.float64",
}


def agree(
    oracle: Oracle, root: Path, recipe: str, episodes: Sequence[int] | None = None, *, language: bool = False
) -> None:
    """Both readers give the same of every item in every way of opening, and it is what the recipe recorded.

    Args:
        oracle: the real lerobot.
        root: the dataset.
        recipe: what was recorded.
        episodes: the recipe's episodes in the order recorded; all by default.
        language: whether the language columns were filled in after the recording.
    """
    plan = RECIPES[recipe]
    recorded = list(range(len(plan.lengths)) if episodes is None else episodes)
    whole = agree_on(oracle, root, return_uint8=True)
    assert_recorded(whole, plan, recorded, language=language)
    agree_on(oracle, root, batch_size=3)
    agree_on(oracle, root, delta_timestamps=windows(plan), batch_size=4, return_uint8=True)
    agree_on(oracle, root, delta_timestamps={key: [0.0] for key in windows(plan)})
    chosen = sorted({0, len(recorded) - 1})
    agree_on(oracle, root, episodes=chosen[::-1], delta_timestamps=windows(plan))
    if any(is_depth(plan, name) for name in plan.cameras):
        agree_on(oracle, root, depth_output_unit="m", delta_timestamps=windows(plan))
    agree_clean_reader(root, whole, plan)


def agree_on(oracle: Oracle, root: Path, *, batch_size: int = 0, keep: bool = True, **options: Any) -> list[Any]:
    """`LeRobotDataset(..., **options)` on both sides: lengths, every item, metadata, and batches where a size is given.

    Returns:
        The reference's items; none with `keep=False` (for pictures of full size).
    """
    ours = rolltape.LeRobotDataset(REPO, root=root, **options)
    kept = []
    with oracle.open(root, **options) as theirs:
        assert len(ours) == len(theirs)
        assert (ours.num_episodes, ours.num_frames) == (theirs.facts["num_episodes"], theirs.facts["num_frames"])
        for start in range(0, len(theirs), CHUNK):
            indices = range(start, min(start + CHUNK, len(theirs)))
            items = theirs.items(indices)
            for index, item in zip(indices, items):
                assert_same([plain(ours[index])], [item], f"{options} item {index}")
            kept += items if keep else []
        assert_same([plain(ours[-1])], theirs.items([-1]), f"{options} item -1")
        rows = [0, len(theirs) // 2]
        assert_same([plain(ours.hf_dataset[row]) for row in rows], theirs.raw_items(rows), "hf_dataset rows")
        if batch_size and "language_events" not in ours.features:
            assert_same(_batches(ours, batch_size), theirs.batches(batch_size), f"{options} batches")
        agree_on_metadata(ours, theirs)
    return kept


def agree_on_metadata(ours: rolltape.LeRobotDataset, theirs: Opened) -> None:
    """Counters, features, tasks, the episodes table and statistics, as `.meta` gives them."""
    facts = theirs.facts
    meta = ours.meta
    for name in ("total_episodes", "total_frames", "total_tasks", "fps", "camera_keys", "depth_keys"):
        assert getattr(meta, name) == facts[name], name
    features = {key: dict(value) for key, value in meta.features.items()}
    assert_same([plain(features)], [facts["features"]], "meta.features")
    assert {str(text): int(index) for text, index in meta.tasks["task_index"].items()} == facts["tasks"]
    table = meta.episodes
    assert table is not None
    rows = [dict(table[n]) for n in range(len(table))]
    assert_same([plain(row) for row in rows], facts["episodes"], "meta.episodes")
    assert_same([plain(meta.stats)], [facts["stats"]], "meta.stats")


def agree_clean_reader(root: Path, reference: list[Any], plan: Recipe) -> None:
    """`rolltape.open(root).batch(...)` holds the same tables and uint8 pictures as the reference's uint8 items."""
    dataset = rolltape.open(root, depth_unit="mm")
    assert len(dataset) == len(reference)
    order = np.random.default_rng(0).permutation(len(reference))
    for start in range(0, len(order), 7):
        indices = order[start : start + 7]
        batch = dataset.batch(indices)
        for row, index in enumerate(indices):
            _agree_row(batch, row, reference[index], plan, f"batch row {row}, item {index}")


def _agree_row(batch: Any, row: int, item: Any, plan: Recipe, what: str) -> None:
    for key, value in item.items():
        if not isinstance(value, Tensor):
            assert batch[key][row] == value, f"{what} {key}"
            continue
        mine = np.asarray(batch[key][row])
        expected = value.array
        if key in plan.cameras and not is_depth(plan, key) and expected.dtype == np.float32:
            expected = np.rint(expected * 255).astype(np.uint8)
        elif key not in plan.cameras:
            # The reference's items hold float32 and int64 whatever the column's type; here the stored type comes out.
            stored = DTYPES.get(key) or np.dtype(plan.features[key]["dtype"])
            assert mine.dtype == stored, f"{what} {key}: {mine.dtype}, stored as {stored}"
            mine = mine.astype(expected.dtype)
        found = differences(Tensor(mine.reshape(expected.shape)), Tensor(expected), f"{what} {key}")
        assert not found, found


DTYPES = {name: np.dtype("float32" if name == "timestamp" else "int64") for name in DEFAULTS}


def assert_recorded(items: list[Any], plan: Recipe, episodes: Sequence[int], *, language: bool = False) -> None:
    """The reference's items (opened with `return_uint8`) are the recipe's frames, in order.

    Language columns are empty while recording and filled in afterwards: `language` says whether they are by now.
    """
    truth = [(n, k, frame) for n, e in enumerate(episodes) for k, frame in enumerate(plan.episode(e))]
    assert len(items) == len(truth)
    for index, (item, (episode, number, frame)) in enumerate(zip(items, truth)):
        at = f"item {index} (episode {episode}, frame {number})"
        assert item["task"] == frame["task"], at
        counted = [int(item[key].array) for key in ("index", "episode_index", "frame_index")]
        assert counted == [index, episode, number], at
        assert item["timestamp"].array == np.float32(number / plan.fps), at
        for name, value in frame.items():
            if name == "task" or name in plan.cameras:
                continue
            if plan.features[name]["dtype"] == "language" and not language:
                value = []
            _assert_value(item[name], value, f"{at} {name}")
    for name in plan.cameras:
        _assert_pictures([item[name].array for item in items], [frame[name] for _, _, frame in truth], plan, name)


def _assert_value(read: Any, recorded: Any, at: str) -> None:
    if not isinstance(recorded, np.ndarray):
        assert read == recorded, at
        return
    expected = recorded.astype(read.array.dtype).reshape(read.array.shape)
    assert (read.array == expected).all(), f"{at}: read {read.array}, recorded {recorded}"


def _assert_pictures(read: list[np.ndarray], recorded: list[np.ndarray], plan: Recipe, name: str) -> None:
    """Stills are exact; a video frame is nearer to its own source than to any other frame's."""
    if plan.features[name]["dtype"] == "image":
        for index, (picture, source) in enumerate(zip(read, recorded)):
            scale = (1000.0 if name.endswith("_m") else 1.0) if is_depth(plan, name) else 1 / 255
            expected = source.transpose(2, 0, 1) * scale
            assert np.allclose(picture, expected, rtol=1e-6, atol=0), f"{name} {index}"
        return
    scale = 1000.0 if name.endswith("_m") else 1.0
    limit = 10_000.0 if is_depth(plan, name) else 255.0
    sources = np.stack([np.clip(source.transpose(2, 0, 1) * scale, 0, limit) for source in recorded]).astype(np.float32)
    for index, picture in enumerate(read):
        error = ((sources - picture.astype(np.float32)) ** 2).mean(axis=(1, 2, 3))
        assert error[index] == error.min(), f"{name}: picture {index} looks like frame {int(error.argmin())}"


def windows(plan: Recipe) -> dict[str, list[float]]:
    """Windows for the cameras and a feature of each kind that the reference can stack, padding at both ends included.

    One of each kind: every key of a window costs the reference some milliseconds an item.
    """
    step = 1 / plan.fps
    found = {}
    for name, feature in plan.features.items():
        if feature["dtype"] in ("string", "language") or name in NO_WINDOW:
            continue
        found[name] = [-2 * step, -step, 0.0] if name in plan.cameras else [-step, 0.0, step, 6 * step]
    return found


def is_depth(plan: Recipe, name: str) -> bool:
    """Whether a camera holds depth."""
    return bool((plan.features[name].get("info") or {}).get("is_depth_map"))


def _batches(ours: rolltape.LeRobotDataset, batch_size: int) -> list[Any]:
    import torch

    return [plain(batch) for batch in torch.utils.data.DataLoader(ours, batch_size=batch_size, shuffle=False)]
