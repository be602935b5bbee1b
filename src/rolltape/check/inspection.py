"""The run: load what can be loaded, let every check look at it, gather the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rolltape.check.catalogue import catalogue, match_ids
from rolltape.check.episodes import check_episodes, load_episodes
from rolltape.check.files import check_files
from rolltape.check.findings import Findings, Report
from rolltape.check.info import check_info, load_info
from rolltape.check.survey import Survey, first_line, list_files
from rolltape.check.tables import check_tables
from rolltape.check.tasks import check_task_lists, load_tasks
from rolltape.check.video import check_videos
from rolltape.format import Tasks
from rolltape.format.paths import INFO_PATH, TASKS_PATH
from rolltape.read import find_root

__all__ = ["run"]

_Item = TypeVar("_Item")


def run(
    source: str | os.PathLike[str],
    *,
    deep: bool = False,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    progress: bool = False,
) -> Report:
    """Look for faults in a dataset, and return all of them. Nothing is changed, and damaged data raises nothing.

    Args:
        source: A folder, or a repo id below `$HF_LEROBOT_HOME`.
        deep: Also decode every picture of every video.
        select: Only these findings: ids (`video.short`), groups (`video`) or patterns (`*.order`).
        ignore: Not these findings.
        progress: Show a progress bar on stderr when it takes more than two seconds.

    Raises:
        DatasetNotFoundError: There is no dataset at this place.
        UsageError: `select` or `ignore` names no finding.

    Example:
        >>> from rolltape import check
        >>> report = check.run("tests/data/golden/v30/video_h264")
        >>> report.ok, report.episodes, report.frames
        (True, 3, 16)
    """
    began = time.monotonic()
    findings = Findings(_wanted(select, ignore))
    root = find_root(source)
    files = list_files(root)
    info = load_info(root, files, findings)
    episodes = frames = 0
    if info is not None:
        table = load_episodes(root, info, files, findings)
        # A dataset without episodes, as `finalize` leaves one where nothing was saved, has no task table.
        is_new = not info.total_episodes and not info.total_tasks and not len(table) and TASKS_PATH not in files
        tasks = Tasks() if is_new else load_tasks(root, files, findings)
        survey = Survey(root, files, info, findings, table, tasks)
        survey.used.update({INFO_PATH, TASKS_PATH})
        bar = _bar if progress else _plain
        checks: tuple[tuple[str, Callable[[], None]], ...] = (
            ("info", lambda: check_info(survey)),
            ("episodes", lambda: check_episodes(survey)),
            ("tasks", lambda: check_task_lists(survey)),
            ("tables", lambda: check_tables(survey, lambda items: bar(items, "tables"))),
            ("video", lambda: check_videos(survey, lambda items: bar(items, "videos"), deep=deep)),
            ("files", lambda: check_files(survey)),
        )
        for name, one in checks:
            _guarded(name, one, findings)
        episodes, frames = len(table), int(table.length[table.length > 0].sum())
    return Report.gather(
        str(source), findings, episodes=episodes, frames=frames, files=len(files), seconds=time.monotonic() - began
    )


def _wanted(select: str | Sequence[str] | None, ignore: str | Sequence[str] | None) -> frozenset[str] | None:
    chosen, left = ([one] if isinstance(one, str) else list(one or ()) for one in (select, ignore))
    if not chosen and not left:
        return None
    return (match_ids(chosen) if chosen else frozenset(catalogue())) - match_ids(left)


def _guarded(name: str, one: Callable[[], None], findings: Findings) -> None:
    """Run one check; a fault that it did not foresee is a finding, and the other checks still run."""
    try:
        one()
    except Exception as error:  # what is checked is untrusted: whatever it breaks must not hide the other findings
        findings.add(
            "check.failed",
            f"The check {name!r} could not finish.",
            found=f"{type(error).__name__}: {first_line(error)}",
        )


def _plain(items: Iterable[_Item], what: str) -> Iterable[_Item]:
    return items


def _bar(items: Iterable[Any], what: str) -> Iterable[Any]:
    from tqdm import tqdm

    bar: Iterable[Any] = tqdm(items, desc=what, delay=2, leave=False, disable=None, unit="file")
    return bar
