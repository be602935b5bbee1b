"""JSON text as the reference lays it out: four spaces of indent, non-ASCII kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["json_text"]

_INDENT = "    "
_NUMBERS = (float, int)


def json_text(value: Any, margin: str = "") -> str:
    """Return what `json.dumps(value, indent=4, ensure_ascii=False)` gives, several times as fast for lists of numbers.

    `json` leaves its C encoder as soon as there is an indent; here it still writes the lists.

    Example:
        >>> json_text({"a": [1, 2.5]}) == json.dumps({"a": [1, 2.5]}, indent=4)
        True
    """
    inner = margin + _INDENT
    if isinstance(value, Mapping) and value and all(type(key) is str for key in value):
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {json_text(one, inner)}" for key, one in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, list) and value:
        if all(type(one) in _NUMBERS for one in value):
            lines = json.dumps(value)[1:-1].split(", ")
        else:
            lines = [json_text(one, inner) for one in value]
        opening, closing = "[", "]"
    else:
        text = json.dumps(value, indent=4, ensure_ascii=False)
        return text.replace("\n", "\n" + margin) if "\n" in text else text
    return f"{opening}\n{inner}" + f",\n{inner}".join(lines) + f"\n{margin}{closing}"
