"""How commands print: one JSON object, or plain text that fits a terminal and a log."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["bytes_text", "columns_text", "count_text", "print_error", "print_json", "print_text", "seconds_text"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def print_json(value: Any) -> None:
    """Print one JSON object to stdout: UTF-8, two spaces, numbers that are none as null."""
    sys.stdout.write(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Return the value with NumPy's numbers and arrays, tuples and non-finite floats as JSON knows them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def print_text(lines: Iterable[str]) -> None:
    """Print lines to stdout, with characters that the terminal does not know replaced."""
    text = "\n".join(lines) + "\n"
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def print_error(text: str) -> None:
    """Print a message to stderr."""
    sys.stderr.write(f"{text}\n")


def columns_text(rows: Sequence[Sequence[str]], indent: str = "  ", gap: str = "  ") -> list[str]:
    """Return one line a row, the cells in columns as wide as their widest.

    Example:
        >>> columns_text([["action", "float32"], ["x", "int64"]])
        ['  action  float32', '  x       int64']
    """
    if not rows:
        return []
    count = max(len(row) for row in rows)
    widths = [max((len(row[k]) for row in rows if k < len(row)), default=0) for k in range(count)]
    return [(indent + gap.join(cell.ljust(widths[k]) for k, cell in enumerate(row))).rstrip() for row in rows]


def count_text(number: int, noun: str) -> str:
    """Return a number and its noun.

    Example:
        >>> count_text(1, "file"), count_text(2000, "file")
        ('1 file', '2,000 files')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_text(count: float) -> str:
    """Return a size for people.

    Example:
        >>> bytes_text(3 * 1024 * 1024)
        '3.0 MiB'
    """
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def seconds_text(seconds: float) -> str:
    """Return a duration for people.

    Example:
        >>> seconds_text(4000)
        '1 h 6 min'
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
