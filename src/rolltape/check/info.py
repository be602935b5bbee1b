"""Checks of meta/info.json: the version, the counters, the splits, the templates; and of meta/stats.json."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from rolltape.check.findings import Findings
from rolltape.check.survey import Survey, file_is_there, first_line
from rolltape.errors import FormatError, UnsupportedFormatError
from rolltape.format.dialects import require_readable
from rolltape.format.features import DEFAULT_FEATURES
from rolltape.format.info import Info, parse_info
from rolltape.format.paths import INFO_PATH, STATS_PATH, data_file, video_file

__all__ = ["check_info", "load_info"]

_SPLIT = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*")


def load_info(root: Path, files: dict[str, int], findings: Findings) -> Info | None:
    """Return what meta/info.json says, or None after a finding that says why it cannot be used."""
    if INFO_PATH not in files:
        findings.add("info.missing", "The file is missing.", file=INFO_PATH)
        return None
    if not file_is_there(root, INFO_PATH, files, findings, {"file": INFO_PATH}):
        return None
    try:
        require_readable(root)
        info = parse_info((root / INFO_PATH).read_bytes())
    except UnsupportedFormatError as error:
        findings.add("info.version", error.what, file=INFO_PATH, expected="v3.0", found=error.found)
        return None
    except FormatError as error:
        found = error.found if error.found is not None else error.where
        findings.add("info.malformed", error.what, file=INFO_PATH, expected=error.expected, found=found)
        return None
    return info if _templates_work(info, findings) else None


def _templates_work(info: Info, findings: Findings) -> bool:
    try:
        data_file(info, 0, 0)
        for key in info.video_features:
            video_file(info, key, 0, 0)
    except FormatError as error:
        findings.add("info.path_template", error.what, file=INFO_PATH, found=error.found or error.where)
        return False
    return True


def check_info(survey: Survey) -> None:
    """Check the default features, the counters, the splits and the statistics file."""
    info, findings = survey.info, survey.findings
    for name in DEFAULT_FEATURES:
        if name not in info.features:
            findings.add("info.feature_missing", "The feature is not declared.", file=INFO_PATH, feature=name)
    _check_counters(survey)
    for name, text in info.splits.items():
        found = _SPLIT.fullmatch(text) if isinstance(text, str) else None
        if found is None or not int(found[1]) <= int(found[2]) <= max(info.total_episodes, len(survey.episodes)):
            findings.add(
                "info.splits",
                f"The split {name!r} does not fit.",
                file=INFO_PATH,
                expected=f"a range inside 0:{info.total_episodes}",
                found=repr(text),
            )
    _check_stats(survey)


def _check_counters(survey: Survey) -> None:
    info, table = survey.info, survey.episodes
    if not table.whole:
        return
    rows, frames = len(np.unique(table.index)), int(table.length[table.length > 0].sum())
    pairs = [
        ("total_episodes", info.total_episodes, rows, "rows in meta/episodes"),
        ("total_frames", info.total_frames, frames, "frames in all episodes"),
    ]
    if survey.tasks is not None:
        pairs.append(("total_tasks", info.total_tasks, len(survey.tasks), "rows in meta/tasks.parquet"))
    for name, stated, found, what in pairs:
        if stated != found:
            survey.findings.add(
                f"info.{name}",
                f"{name} is {stated}, but there are {found} {what}.",
                file=INFO_PATH,
                expected=found,
                found=stated,
            )


def _check_stats(survey: Survey) -> None:
    if STATS_PATH not in survey.files:
        if survey.info.total_frames:
            survey.findings.add("stats.missing", "The file is missing.", file=STATS_PATH)
        return
    survey.used.add(STATS_PATH)
    if not file_is_there(survey.root, STATS_PATH, survey.files, survey.findings, {"file": STATS_PATH}):
        return
    try:
        stats = json.loads((survey.root / STATS_PATH).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        survey.findings.add("stats.malformed", "The file is not JSON.", file=STATS_PATH, found=first_line(error))
        return
    if not isinstance(stats, dict) or not all(isinstance(one, dict) for one in stats.values()):
        survey.findings.add(
            "stats.malformed",
            "The file does not hold an object for each feature.",
            file=STATS_PATH,
            expected="{feature: {min: ...}}",
        )
