"""`rolltape check`: look for faults in a dataset."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from rolltape.cli.flags import Json, Names, Source, split_names
from rolltape.cli.printing import print_json, print_text

__all__ = ["check"]


def check(
    source: Source,
    /,
    *,
    deep: Annotated[bool, Parameter(negative="")] = False,
    select: Names = (),
    ignore: Names = (),
    fail_on: Literal["error", "warning"] = "error",
    json: Json = False,
) -> int:
    """Look for faults in a dataset. Nothing is changed.

    Every finding has a stable id, such as video.short; docs/findings has a page for each.

    Args:
        source: The dataset: a folder, or a repo id below $HF_LEROBOT_HOME.
        deep: Also decode every picture of every video.
        select: Only these findings: ids, groups (video) or patterns (*.order), with commas or repeated.
        ignore: Not these findings.
        fail_on: What makes the exit code 1.
        json: Print one JSON object and nothing else.
    """
    from rolltape.check import run

    report = run(source, deep=deep, select=split_names(select), ignore=split_names(ignore), progress=True)
    if json:
        print_json(report.to_json())
    else:
        print_text([report.text()])
    failed = report.total("error") or (fail_on == "warning" and report.total("warning"))
    return 1 if failed else 0
