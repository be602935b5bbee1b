"""Single encoded pictures of an open take on the disk, for cameras whose pictures live in the table.

Records one after the other: length (4 bytes, little endian), CRC-32 (4 bytes), the picture. Each is handed to the
system in one piece.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from rolltape.store import local

__all__ = ["append_picture", "read_pictures"]

_HEAD = struct.Struct("<II")


def append_picture(path: Path, picture: bytes) -> None:
    """Add a picture to the end.

    Raises:
        OSError: As the file system gave it; the file is as it was.
    """
    local.append_file(path, _HEAD.pack(len(picture), zlib.crc32(picture)) + picture)


def read_pictures(path: Path) -> list[bytes]:
    """Return the pictures up to the first record that is not whole; none where the file is missing."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found: list[bytes] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, crc = _HEAD.unpack_from(data, at)
        picture = data[at + _HEAD.size : at + _HEAD.size + length]
        if length == 0 or len(picture) != length or zlib.crc32(picture) != crc:
            break
        found.append(picture)
        at += _HEAD.size + length
    return found
