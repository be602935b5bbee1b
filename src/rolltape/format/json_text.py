"""JSON text as the reference lays it out: four spaces of indent, non-ASCII kept."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_text"]

_INDENT = "    "
_NUMBERS = {float, int}
_flat = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: Any, margin: str = "") -> str:
    """Return what `json.dumps(value, indent=4, ensure_ascii=False)` gives, several times as fast for lists of numbers.

    `json` leaves its C encoder as soon as there is an indent; here it still writes the lists.

    Example:
        >>> json_text({"a": [1, 2.5]}) == json.dumps({"a": [1, 2.5]}, indent=4)
        True
    """
    kind, inner = type(value), margin + _INDENT
    if kind is dict and value and set(map(type, value)) == {str}:
        lines = [f"{_flat(key)}: {json_text(one, inner)}" for key, one in value.items()]
        opening, closing = "{", "}"
    elif kind is list and value:
        numbers = set(map(type, value)) <= _NUMBERS
        lines = _flat(value)[1:-1].split(", ") if numbers else [json_text(one, inner) for one in value]
        opening, closing = "[", "]"
    elif kind in (str, int, float, bool) or not value:
        return _flat(value)
    else:
        return json.dumps(value, indent=4, ensure_ascii=False).replace("\n", "\n" + margin)
    return f"{opening}\n{inner}" + f",\n{inner}".join(lines) + f"\n{margin}{closing}"
