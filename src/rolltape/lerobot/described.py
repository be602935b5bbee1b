"""Parts of a description in the forms of the reference: info.json, the task table, the tool every robot has."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from rolltape.format.info import Info
from rolltape.format.tasks import Tasks
from rolltape.lerobot.rows import TableRows

__all__ = ["SAY_TOOL", "DatasetInfo", "task_table"]

SAY_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "say",
        "description": "Say a short text to the person at the robot.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The words to say."}},
            "required": ["text"],
        },
    },
}
"""The function schema of a dataset that declares none."""


class DatasetInfo:
    """`info.json` by attribute and by key, features as plain mappings with tuples for shapes."""

    def __init__(self, info: Info) -> None:
        content = {**info.to_json(), "tools": info.tools}
        for feature in content["features"].values():
            feature["shape"] = tuple(feature["shape"])
        self.__dict__.update(content)

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self.__dict__:
            raise KeyError(key)
        self.__dict__[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"info.json has no {name!r}")

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self.__dict__.get(key, default)

    def to_dict(self) -> dict[str, Any]:
        """Return the content as JSON types."""
        content = copy.deepcopy(self.__dict__)
        for feature in content["features"].values():
            feature["shape"] = list(feature["shape"])
        if content.get("tools") is None:
            content.pop("tools", None)
        return content

    def __repr__(self) -> str:
        return f"DatasetInfo({', '.join(f'{key}={value!r}' for key, value in self.__dict__.items())})"


def task_table(tasks: Tasks) -> Any:
    """Return the tasks as a DataFrame (index task, column task_index), or as rows where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return TableRows(tasks.to_table())
    numbers = sorted(tasks.texts)
    texts = [tasks.texts[number] for number in numbers]
    return pd.DataFrame({"task_index": np.array(numbers, np.int64)}, index=pd.Index(texts, name="task"))
