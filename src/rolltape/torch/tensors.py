"""numpy arrays as tensors: the memory is shared, nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rolltape.errors import missing_extra

__all__ = ["load_torch", "tensor", "tensors", "unstacked"]

_torch: Any = None


def load_torch() -> Any:
    """Return the torch module.

    Raises:
        MissingExtraError: torch is not installed.
    """
    global _torch
    if _torch is None:
        try:
            import torch
        except ImportError as error:
            raise missing_extra("torch", "torch") from error
        _torch = torch
    return _torch


def tensor(value: Any) -> Any:
    """Return an array as a tensor that shares its memory; anything else is returned as it is.

    Read-only arrays are copied, for tensors cannot be read-only.
    """
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.writeable:
        value = value.copy()
    return load_torch().from_numpy(value)


def tensors(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item or a batch with its arrays as tensors.

    Example:
        >>> tensors({"action": np.zeros(2, np.float32), "task": "lift"})  # doctest: +SKIP
        {'action': tensor([0., 0.]), 'task': 'lift'}
    """
    return {key: tensor(value) for key, value in values.items()}


def unstacked(values: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return a batch as a list of items, whose tensors are views of the batch's."""
    items: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in values.items():
        rows = tensor(value).unbind(0) if isinstance(value, np.ndarray) else value
        for item, row in zip(items, rows, strict=True):
            item[key] = row
    return items
