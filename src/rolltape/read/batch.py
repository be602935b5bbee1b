"""What a batch is: a mapping of stacked arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Batch"]


class Batch(Mapping[str, Any]):
    """Frames of a dataset, stacked: `{feature: ndarray [B, ...], "task": list[str], "<key>_is_pad": bool [B, T]}`.

    The arrays are the caller's for as long as any of them (or a view, or a tensor made from one) is alive; the memory
    is used again only when nothing refers to it any more. `release` lets go of them early.

    Attributes:
        indices: The frames' indices in the dataset, int64 [B].
    """

    def __init__(self, indices: npt.NDArray[np.int64], values: dict[str, Any]) -> None:
        self.indices = indices
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def size(self) -> int:
        """How many frames the batch has."""
        return len(self.indices)

    def release(self) -> None:
        """Let go of the arrays, so that their memory can be used for the next batch."""
        self._values = {}

    def item(self, row: int) -> dict[str, Any]:
        """Return one frame of the batch; its arrays are views."""
        return {key: row_of(value, row) for key, value in self._values.items()}

    def __repr__(self) -> str:
        lines = [f"Batch of {self.size} frames"]
        for key, value in self._values.items():
            kind = f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else f"list of {len(value)}"
            lines.append(f"  {key}: {kind}")
        return "\n".join(lines)


def row_of(value: Any, row: int) -> Any:
    """Return one row of an array, as an array even where it has no axes, or one entry of a list."""
    return value[row, ...] if isinstance(value, np.ndarray) else value[row]
