"""Tasks: the texts that frames and episodes point to by number, never by row position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from rolltape.errors import FormatError, TaskError
from rolltape.format.paths import TASKS_PATH

__all__ = ["Tasks"]

_TEXT_COLUMNS = ("task", "__index_level_0__", "index")


@dataclass(frozen=True)
class Tasks:
    """The task table: number to text.

    Example:
        >>> tasks, numbers = Tasks().with_new(["lift", "place", "lift"])
        >>> numbers, tasks.text(1)
        ([0, 1, 0], 'place')
    """

    texts: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tasks) and dict(self.texts) == dict(other.texts)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.texts.items())))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in sorted(self.texts.items(), reverse=True)}

    def index_of(self, text: str) -> int | None:
        """Return the number of a text, or None where the table does not hold it."""
        return self._numbers.get(text)

    def text(self, number: int, *, where: str | None = None) -> str:
        """Return the text of a number.

        Raises:
            TaskError: If the table has no such number.
        """
        try:
            return self.texts[int(number)]
        except KeyError:
            raise TaskError(
                f"There is no task with task_index {int(number)}.",
                where=f"{where}, {TASKS_PATH}" if where else TASKS_PATH,
                expected=f"one of {sorted(self.texts)[:20]}",
                found=int(number),
                fix="Add the task to the table, or correct the frames' task_index.",
            ) from None

    def with_new(self, texts: Iterable[str]) -> tuple[Tasks, list[int]]:
        """Return a table that also holds `texts`, and the number of each of them.

        New texts are numbered in the order given, above every number in use.
        """
        numbers = dict(self._numbers)
        grown = dict(self.texts)
        following = max(grown, default=-1) + 1
        found = []
        for text in texts:
            if text not in numbers:
                numbers[text] = following
                grown[following] = text
                following += 1
            found.append(numbers[text])
        return (self if len(grown) == len(self.texts) else Tasks(grown)), found

    @classmethod
    def from_table(cls, table: pa.Table, *, where: str = TASKS_PATH) -> Tasks:
        """Return the tasks in a table: text as a plain column or as a stored pandas index, rows in any order.

        Raises:
            FormatError: If there is no column of numbers or of texts, or a number stands twice for different texts.
        """
        once = table.column_names.count("task_index") == 1
        if not once or not pa.types.is_integer(table.schema.field("task_index").type):
            raise FormatError("The task table has no task_index of integers.", where=where, found=table.column_names)
        name = _text_column(table, where)
        numbers = table.column("task_index").to_pylist()
        texts = table.column(name).to_pylist()
        found: dict[int, str] = {}
        for number, text in zip(numbers, texts, strict=True):
            if number is None or not isinstance(text, str):
                raise FormatError("A row of the task table is incomplete.", where=where, found=f"{number!r}, {text!r}")
            if found.setdefault(number, text) != text:
                raise FormatError(
                    f"task_index {number} stands for two tasks.", where=where, found=f"{found[number]!r} and {text!r}"
                )
        return cls(found)

    def to_table(self) -> pa.Table:
        """Return the table in number order, with the pandas note that makes the text its index.

        Without that note the reference reads the numbers as texts.
        """
        numbers = sorted(self.texts)
        columns = {
            "task_index": pa.array(numbers, pa.int64()),
            "task": pa.array([self.texts[number] for number in numbers], pa.string()),
        }
        return pa.table(columns).replace_schema_metadata({"pandas": json.dumps(_PANDAS_NOTE)})


def _text_column(table: pa.Table, where: str) -> str:
    wanted: list[Any] = list(_TEXT_COLUMNS)
    note = (table.schema.metadata or {}).get(b"pandas")
    if note is not None:
        try:
            stored = json.loads(note).get("index_columns", [])
        except (ValueError, AttributeError, RecursionError):
            stored = []
        wanted += [name for name in stored if isinstance(name, str)]
    for name in wanted:
        if name in table.column_names and name != "task_index":
            kind = table.schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
                return str(name)
    raise FormatError("The task table has no column of texts.", where=where, expected="task", found=table.column_names)


def _column_note(name: str, kind: str, numpy_kind: str) -> dict[str, Any]:
    return {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_kind, "metadata": None}


_PANDAS_NOTE: dict[str, Any] = {
    "index_columns": ["task"],
    "column_indexes": [
        {
            "name": None,
            "field_name": None,
            "pandas_type": "unicode",
            "numpy_type": "object",
            "metadata": {"encoding": "UTF-8"},
        }
    ],
    "columns": [_column_note("task_index", "int64", "int64"), _column_note("task", "unicode", "object")],
    "attributes": {},
    "creator": {"library": "rolltape", "version": "1"},
    "pandas_version": "2.0.0",
}
