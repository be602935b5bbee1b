"""Whether a sample is whole, as far as its structure tells: it is made of units that state their length."""

from __future__ import annotations

__all__ = ["is_whole"]

_RESERVED_OBU = 0


def is_whole(codec: str, data: bytes) -> bool:
    """Return whether the units of a sample fill it. Its picture may be damaged all the same.

    Args:
        codec: `"h264"`, `"hevc"`, `"av1"`; the units of others are not known here.
        data: The bytes of the sample, as they stand in an MP4 (units of H.264 and HEVC with four bytes of length).
    """
    if not any(data):
        return False
    if codec in ("h264", "hevc"):
        return _units_fill(data)
    return _obus_fill(data) if codec == "av1" else True


def _units_fill(data: bytes) -> bool:
    """Units of H.264 or HEVC: length, then as many bytes, to the very end."""
    at = 0
    while at + 4 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if length == 0:
            return False
        at += 4 + length
    return at == len(data)


def _obus_fill(data: bytes) -> bool:
    """Units of AV1 (section 5.3 of its specification): header, size in LEB128, body; the last may go without a size."""
    at = 0
    while at < len(data):
        head = data[at]
        if head & 0x80 or (head >> 3 & 15) == _RESERVED_OBU:
            return False
        at += 2 if head & 0x04 else 1
        if not head & 0x02:
            return at < len(data)
        size, shift = 0, 0
        while True:
            if at >= len(data) or shift > 56:
                return False
            byte, at = data[at], at + 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += size
    return at == len(data)
