"""Checks of the task table: numbers, texts, and the order that lerobot relies on."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from rolltape.check.findings import Findings
from rolltape.check.survey import Survey, first_line, open_parquet
from rolltape.errors import FormatError
from rolltape.format.paths import TASKS_PATH
from rolltape.format.tasks import Tasks

__all__ = ["check_task_lists", "load_tasks"]


def load_tasks(root: Path, files: dict[str, int], findings: Findings) -> Tasks | None:
    """Return the task table, or None after a finding that says why it cannot be read."""
    opened = open_parquet(root, TASKS_PATH, files, findings)
    if opened is None:
        return None
    try:
        table = opened.read()
        tasks = Tasks.from_table(table)
    except FormatError as error:
        findings.add("tasks.malformed", error.what, file=TASKS_PATH, expected=error.expected, found=error.found)
        return None
    except (OSError, pa.ArrowException) as error:
        findings.add("files.unreadable", "The table cannot be read.", file=TASKS_PATH, found=first_line(error))
        return None
    _check_order(table, findings)
    if not _has_index(table):
        findings.add("tasks.index_key", "The note that makes the text the index is missing.", file=TASKS_PATH)
    seen: dict[str, int] = {}
    for number, text in sorted(tasks.texts.items()):
        if text in seen:
            findings.add(
                "tasks.duplicate",
                f"The text {text!r} has several numbers.",
                file=TASKS_PATH,
                found=f"{seen[text]} and {number}",
            )
        seen.setdefault(text, number)
    return tasks


def _check_order(table: pa.Table, findings: Findings) -> None:
    numbers = table.column("task_index").to_pylist()
    if sorted(numbers) != list(range(len(numbers))):
        findings.add(
            "tasks.gap",
            "The numbers have gaps.",
            file=TASKS_PATH,
            expected=f"0 to {len(numbers) - 1}",
            found=str(sorted(numbers)[:20]),
        )
    if numbers != sorted(numbers):
        findings.add(
            "tasks.order", "The rows are not in the order of their numbers.", file=TASKS_PATH, found=str(numbers[:20])
        )


def _has_index(table: pa.Table) -> bool:
    note = (table.schema.metadata or {}).get(b"pandas")
    try:
        columns = json.loads(note)["index_columns"] if note else []
    except (ValueError, KeyError, TypeError):
        return False
    return any(isinstance(name, str) and name in table.column_names and name != "task_index" for name in columns)


def check_task_lists(survey: Survey) -> None:
    """Check that the texts which episodes name are in the task table."""
    lists = survey.episodes.tasks
    if survey.tasks is None or lists is None or not len(lists):
        return
    known = set(survey.tasks.texts.values())
    unknown = {text for text in lists.combine_chunks().flatten().unique().to_pylist() if text not in known}
    if not unknown:
        return
    concerned: dict[str, list[int]] = {}
    for number, texts in zip(survey.episodes.index.tolist(), lists.to_pylist(), strict=True):
        for text in texts or ():
            if text in unknown:
                concerned.setdefault(str(text), []).append(number)
    for text, episodes in sorted(concerned.items()):
        survey.findings.add(
            "tasks.undeclared", f"The task {text!r} is not in the task table.", file=TASKS_PATH, episodes=episodes
        )
