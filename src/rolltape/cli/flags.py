"""Flags as LeRobot's users type them.

Dotted names (`--dataset.repo_id=x`), `-` and `_` alike, come from cyclopts. What is added here: the values of mappings
and lists are read as YAML, and `--flag true` means `--flag=true`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token, convert

from rolltape.errors import UsageError

__all__ = [
    "Json",
    "Mapping",
    "Names",
    "Number",
    "Source",
    "Values",
    "Whole",
    "join_booleans",
    "read_yaml",
    "split_names",
]

_BOOLEANS = frozenset({"true", "false"})


def join_booleans(tokens: Sequence[str]) -> list[str]:
    """Return the command line with `--flag true` written as `--flag=true`.

    Args:
        tokens: The command line, without the program's name. What follows `--` is left alone.

    Example:
        >>> join_booleans(["record", "--display_data", "true", "--fps", "30"])
        ['record', '--display_data=true', '--fps', '30']
    """
    joined: list[str] = []
    for position, token in enumerate(tokens):
        if token == "--":
            return [*joined, *tokens[position:]]
        previous = joined[-1] if joined else ""
        if token.lower() in _BOOLEANS and previous.startswith("--") and "=" not in previous and len(previous) > 2:
            joined[-1] = f"{previous}={token.lower()}"
        else:
            joined.append(token)
    return joined


def read_yaml(text: str, kind: type, flag: str = "the value") -> Any:
    """Return the value of a flag that takes a mapping or a list.

    Args:
        text: YAML in flow style (`{front: {type: opencv, fps: 30}}`) or JSON.
        kind: `dict` or `list`.
        flag: The flag's name, for the error.

    Raises:
        UsageError: The text is not YAML, or is YAML of another kind.

    Example:
        >>> read_yaml("{front: {type: opencv, width: 640}}", dict)
        {'front': {'type': 'opencv', 'width': 640}}
    """
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(
            f"{flag} is not YAML.", expected=_SAMPLES[kind], found=text, fix=f"Look at: {' '.join(str(error).split())}"
        ) from error
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise UsageError(f"{flag} is not a {_NAMES[kind]}.", expected=_SAMPLES[kind], found=text)
    return value


_SAMPLES: dict[type, str] = {
    dict: 'a mapping, like "{front: {type: opencv, width: 640}}"',
    list: 'a list, like "[0, 1, 2]"',
}
_NAMES: dict[type, str] = {dict: "mapping", list: "list"}


def _mapping(type_: Any, tokens: Sequence[Token]) -> Any:
    return read_yaml(tokens[0].value, dict, tokens[0].keyword or "The value")


def _values(type_: Any, tokens: Sequence[Token]) -> Any:
    return read_yaml(tokens[0].value, list, tokens[0].keyword or "The value")


def _whole(type_: Any, tokens: Sequence[Token]) -> Any:
    """Return a whole number; cyclopts alone would round a fraction, and record 29.97 frames a second as 30."""
    text = tokens[0].value
    if "." in text and not convert(float, tokens).is_integer():
        raise UsageError(f"{tokens[0].keyword or 'The value'} is not a whole number.", found=text)
    return convert(int, tokens)


Whole = Annotated[int, Parameter(converter=_whole)]
"""A flag whose value is a whole number; 30.0 is one, 29.97 is refused."""


def _number(type_: Any, tokens: Sequence[Token]) -> Any:
    text = tokens[0].value
    return convert(float if "." in text else int, tokens)


Number = Annotated[int | float, Parameter(converter=_number)]
"""A flag whose value is a number, whole or not; cyclopts alone would make 28 of 28.5."""

Mapping = Annotated[
    dict[str, Any], Parameter(converter=_mapping, accepts_keys=False, n_tokens=1, json_dict=False, json_list=False)
]
"""A flag whose value is a mapping in YAML."""

Values = Annotated[
    list[Any], Parameter(converter=_values, accepts_keys=False, n_tokens=1, json_dict=False, json_list=False)
]
"""A flag whose value is a list in YAML."""

Source = Annotated[str, Parameter(name="PATH")]
"""The dataset that a command is for: a folder, or a repo id."""

Json = Annotated[bool, Parameter(negative="")]
"""Whether a command prints one JSON object and nothing else."""

Names = Annotated[tuple[str, ...], Parameter(consume_multiple=False, negative="")]
"""A flag that may be repeated, each time with one name or several between commas (`split_names` takes them apart)."""


def split_names(values: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a repeated flag, commas taken apart.

    Example:
        >>> split_names(["video.short,files.missing", "info.*"])
        ('video.short', 'files.missing', 'info.*')
    """
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())
