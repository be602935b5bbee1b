"""One box of an MP4: a span of bytes, its fields and the boxes inside it, never read beyond what is there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import ContainerError

__all__ = ["Box", "Int64Array"]

Int64Array = npt.NDArray[np.int64]

_MOST_CHILDREN = 100_000  # children of one box; a real file has a few dozen


class Box:
    """A span of bytes with a name and a place in the tree.

    Attributes:
        view: The bytes of the file, or of the part of it that is there.
        start, end: The body's span in it.
        path: Names from the root, such as `"moov/trak"`; empty for the file itself.
        where: The file's name, for messages.
    """

    __slots__ = ("end", "path", "start", "view", "where")

    def __init__(self, view: memoryview, start: int, end: int, path: str, where: str) -> None:
        self.view, self.start, self.end, self.path, self.where = view, start, end, path, where

    def error(self, what: str, **parts: Any) -> ContainerError:
        """An error that names file and box."""
        return ContainerError(what, where=f"{self.where}, box {self.path or '(file)'}", **parts)

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """Unpack big-endian fields `at` bytes into the body."""
        begin, need = self.start + at, struct.calcsize(">" + form)
        if begin + need > self.end:
            raise self.error(
                "The box is too short.", expected=f"{at + need} bytes", found=f"{self.end - self.start} bytes"
            )
        return struct.unpack_from(">" + form, self.view, begin)

    def number(self, form: str, at: int) -> int:
        """One field `at` bytes into the body."""
        return int(self.unpack(form, at)[0])

    def array(self, dtype: str, columns: int, count: int, at: int) -> Int64Array:
        """`count` rows of `columns` numbers from `at` on, as int64; refused when the bytes are not there."""
        width = np.dtype(dtype).itemsize * columns
        room = max(0, self.end - self.start - at) // width
        if count > room:
            raise self.error("The table is cut off.", expected=f"{count} entries", found=f"room for {room}")
        flat = np.frombuffer(self.view, dtype, count * columns, self.start + at).astype(np.int64)
        return flat if columns == 1 else flat.reshape(count, columns)

    def children(self, at: int = 0) -> Iterator[tuple[str, Box]]:
        """Name and span of each box in the body from `at` on."""
        position, seen = self.start + at, 0
        while self.end - position >= 8:
            seen += 1
            if seen > _MOST_CHILDREN:
                raise self.error("The box has too many children.", expected=f"at most {_MOST_CHILDREN}")
            size, raw = struct.unpack_from(">I4s", self.view, position)
            name, head = raw.decode("latin-1"), 8
            if size == 1:
                if self.end - position < 16:
                    raise self.error(f"The 64-bit length of box {name!r} is cut off.")
                size, head = struct.unpack_from(">Q", self.view, position + 8)[0], 16
            elif size == 0:
                size = self.end - position
            child = Box(self.view, position + head, position + size, f"{self.path}/{name}".lstrip("/"), self.where)
            if size < head or position + size > self.end:
                raise child.error(
                    "The box does not fit.",
                    expected=f"at most {self.end - position} bytes",
                    found=f"{size} bytes",
                    fix="The file is cut off or damaged; copy or download it again." if self.path == "" else None,
                )
            yield name, child
            position += size

    def child(self, name: str) -> Box | None:
        """The first box of that name in the body, or None."""
        return next((box for found, box in self.children() if found == name), None)

    def need(self, name: str) -> Box:
        """The first box of that name in the body; `ContainerError` where there is none."""
        box = self.child(name)
        if box is None:
            raise self.error(f"The box {name!r} is missing.")
        return box
