"""Items of either reader in one plain form, and their comparison.

A tensor becomes `Tensor(array)`, so that "a tensor of shape ()" and "a Python number" stay different things; everything
else stays what it is. Needs numpy only (tensors are recognised by their module), so both environments can import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor's content, carried between processes without torch."""

    array: np.ndarray


def plain(value: Any) -> Any:
    """`value` with every tensor replaced, at any depth."""
    if type(value).__module__.partition(".")[0] == "torch":
        return Tensor(np.array(value.detach().cpu().numpy()))
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def differences(ours: Any, reference: Any, at: str = "item") -> list[str]:
    """What is unequal, in words: types, keys, shapes, dtypes and every value, NaN equal to NaN."""
    if isinstance(ours, Tensor) and isinstance(reference, Tensor):
        return _array_differences(ours.array, reference.array, at)
    if type(ours) is not type(reference):
        mine, theirs = type(ours).__name__, type(reference).__name__
        return [f"{at}: ours is {mine} ({_short(ours)}), reference {theirs} ({_short(reference)})"]
    if isinstance(ours, np.ndarray):
        return _array_differences(ours, reference, at)
    if isinstance(ours, dict):
        return _mapping_differences(ours, reference, at)
    if isinstance(ours, list):
        if len(ours) != len(reference):
            return [f"{at}: ours has {len(ours)} entries, reference {len(reference)}"]
        return [line for n, pair in enumerate(zip(ours, reference)) for line in differences(*pair, f"{at}[{n}]")]
    return [] if ours == reference else [f"{at}: ours {_short(ours)}, reference {_short(reference)}"]


def _mapping_differences(ours: dict[Any, Any], reference: dict[Any, Any], at: str) -> list[str]:
    found = []
    mine, theirs = sorted(set(ours) - set(reference)), sorted(set(reference) - set(ours))
    if mine or theirs:
        found.append(f"{at}: only ours {mine}, only reference {theirs}")
    for key in ours:
        if key in reference:
            found += differences(ours[key], reference[key], f"{at}[{key!r}]")
    return found


def assert_same(ours: Sequence[Any], reference: Sequence[Any], what: str) -> None:
    """Fail with the first twelve differences."""
    found = differences(list(ours), list(reference), what)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:12])


def _array_differences(ours: np.ndarray, reference: np.ndarray, at: str) -> list[str]:
    if ours.dtype != reference.dtype or ours.shape != reference.shape:
        return [f"{at}: ours {ours.dtype}{ours.shape}, reference {reference.dtype}{reference.shape}"]
    if ours.dtype.kind == "f":
        equal = (ours == reference) | (np.isnan(ours) & np.isnan(reference))
    else:
        equal = np.asarray(ours == reference)
    if equal.all():
        return []
    bad = np.argwhere(~equal)
    first = tuple(bad[0])
    gap = np.abs(ours.astype(np.float64) - reference.astype(np.float64)).max()
    counted = f"{len(bad)} of {ours.size} values differ by up to {gap}"
    return [f"{at}: {counted}; at {first} ours {ours[first]}, reference {reference[first]}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
