"""Every part of the golden answers, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

from read import expected
from rolltape import LeRobotDataset

torch = pytest.importorskip("torch")

CASES = [(name, part) for name in expected.NAMES for part in expected.parts(name)]


def as_numpy(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in item.items()}


@pytest.mark.parametrize(("name", "part"), CASES)
def test_items_equal_those_of_lerobot(name: str, part: str) -> None:
    wanted = expected.answers(name)[part]
    dataset = LeRobotDataset(f"golden/{name}", expected.root(name), **expected.arguments(name, part))

    assert len(dataset) == wanted["len"]
    for index, answer in enumerate(wanted["items"]):
        expected.assert_item(as_numpy(dataset[index]), answer, f"{name} {part} [{index}]")


@pytest.mark.parametrize(("name", "part"), CASES)
def test_batches_equal_items(name: str, part: str) -> None:
    wanted = expected.answers(name)[part]
    dataset = LeRobotDataset(f"golden/{name}", expected.root(name), **expected.arguments(name, part))
    order = [7 * step % wanted["len"] for step in range(wanted["len"])]

    for index, item in zip(order, dataset.__getitems__(order), strict=True):
        expected.assert_item(as_numpy(item), wanted["items"][index], f"{name} {part} [{index}]")
