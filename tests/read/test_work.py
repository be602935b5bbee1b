"""How much work reading does, counted in calls: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import rolltape
import sample
from sample import ACTION, Extra


def calls(action: Callable[[], object]) -> int:
    """How many Python and C functions are called in this thread."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def test_A08_a_window_of_fifty_steps_costs_little(tmp_path: Path) -> None:
    def wide(episode: int, frame: int, index: int) -> list[float]:
        return [float(index)] * 64

    extras = {
        f"wide{k}": Extra({"dtype": "float32", "shape": [64], "names": None}, wide, pa.list_(pa.float32(), 64))
        for k in range(2)
    }
    made = sample.build(tmp_path / "made", lengths=[40] * 50, tasks=None, cameras={}, extras=extras, stats=False)
    columns = [ACTION, "timestamp", "index", "task"]
    plain = rolltape.open(made.root, columns=columns)
    windowed = rolltape.open(made.root, columns=columns, delta_steps={ACTION: range(50)})
    order = np.random.default_rng(0).permutation(len(plain))[:500]
    for dataset in (plain, windowed):
        dataset[0]
    single = order.tolist()
    without = calls(lambda: [plain[index] for index in single])
    with_window = calls(lambda: [windowed[index] for index in single])
    assert with_window < 3 * without
    assert calls(lambda: windowed.batch(order)) < calls(lambda: windowed.batch(order[:10])) + 50
    assert windowed.batch(order)[ACTION].shape == (500, 50, 2)


def test_opening_does_not_loop_over_episodes(tmp_path: Path) -> None:
    few = sample.build(tmp_path / "few", lengths=[2] * 20, tasks=None, cameras={}, stats=False, row_groups="one")
    many = sample.build(tmp_path / "many", lengths=[2] * 4000, tasks=None, cameras={}, stats=False, row_groups="one")
    assert calls(lambda: rolltape.open(many.root)) < calls(lambda: rolltape.open(few.root)) + 200
