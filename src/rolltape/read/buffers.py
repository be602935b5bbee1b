"""Memory for pictures that is used again once nobody refers to it: fresh large arrays cost more than the arithmetic."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.read.threads import Lock

__all__ = ["Buffers"]

_SMALLEST = 1 << 20
_ALL_TOGETHER = 512 << 20


def _references(owners: list[npt.NDArray[np.uint8]], at: int) -> int:
    return sys.getrefcount(owners[at])


_NOBODY = _references([np.empty(1, np.uint8)], 0)


class Buffers:
    """Gives out uninitialised arrays, and gives the same memory again when every view of it is gone.

    Whether a piece of memory is free is told by its reference count: numpy views, torch tensors made from them and
    memoryviews all hold a reference. An array is therefore never overwritten while anybody can see it.

    Args:
        limit: Bytes to keep for later use, all pieces together.
    """

    def __init__(self, limit: int = _ALL_TOGETHER) -> None:
        self.limit = limit
        self._owners: list[npt.NDArray[np.uint8]] = []
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Buffers, (self.limit,))

    def take(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array with any content."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if not _SMALLEST <= size <= self.limit:
            return np.empty(shape, kind)
        with self._lock:
            owner = self._free(size)
        return owner.view(kind).reshape(shape)

    def _free(self, size: int) -> npt.NDArray[np.uint8]:
        owners = self._owners
        unused = [at for at in range(len(owners)) if _references(owners, at) <= _NOBODY]
        for at in unused:
            if owners[at].nbytes == size:
                return owners[at]
        owner = np.empty(size, np.uint8)
        total = sum(one.nbytes for one in owners) + size
        for at in reversed(unused):  # those not used again make way
            if total <= self.limit:
                break
            total -= owners[at].nbytes
            del owners[at]
        if total <= self.limit:
            owners.append(owner)
        return owner
