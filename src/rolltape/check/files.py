"""Checks of what lies in the folder: files that nobody points to, that lie in a wrong place, or that a writer left."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

from rolltape.check.survey import Survey
from rolltape.format.paths import (
    EPISODES_FOLDER,
    INFO_PATH,
    STATS_PATH,
    TASKS_PATH,
    WORK_FOLDER,
    episodes_file,
    parse_number,
    video_file,
)
from rolltape.store import OWNER_FILE

__all__ = ["check_files"]

_GLOBBED = re.compile(r"(data|meta/episodes)/[^/]+/[^/]+\.parquet")
"""What lerobot reads: every Parquet file one folder deep, also hidden ones."""
_KNOWN_META = {INFO_PATH, TASKS_PATH, STATS_PATH}


def check_files(survey: Survey) -> None:
    """Check every file that no earlier check has used."""
    _check_work_area(survey)
    staged = [file for file in survey.files if file.startswith("images/")]
    if staged:
        survey.findings.add("files.staging", f"{len(staged)} pictures were left.", file="images/")
    unknown: set[str] = set()
    for file in survey.files:
        if file in survey.used or file in _KNOWN_META or file.startswith((f"{WORK_FOLDER}/", "images/")):
            continue
        if PurePosixPath(file).suffix in (".tmp", ".part", ".incomplete"):
            survey.findings.add("files.temporary", "A temporary file was left.", file=file)
        elif file.endswith(".parquet") and survey.episodes.whole:
            _check_table(survey, file)
        elif file.startswith("videos/") and survey.episodes.whole:
            folder = _unknown_camera(survey, file)
            if folder is None:
                _check_video(survey, file)
            elif folder not in unknown:
                unknown.add(folder)
                survey.findings.add(
                    "files.unknown_camera", f"The camera {folder!r} is not declared.", file=f"videos/{folder}/"
                )


def _check_table(survey: Survey, file: str) -> None:
    if file.startswith(f"{EPISODES_FOLDER}/"):
        number = parse_number(file)
        if number is not None and episodes_file(*number) == file:
            return
    if file in survey.stray or (file in survey.bad and _GLOBBED.fullmatch(file)):
        return
    if _GLOBBED.fullmatch(file):
        survey.findings.add("files.orphan_table", "lerobot reads this file, but no episode points to it.", file=file)
    elif file.startswith(("data/", EPISODES_FOLDER)):
        survey.findings.add(
            "files.misplaced",
            "The file lies where the template does not look.",
            file=file,
            expected=survey.info.data_path,
        )


def _check_video(survey: Survey, file: str) -> None:
    number = parse_number(file)
    for camera in survey.info.video_features if number is not None else ():
        if number is not None and video_file(survey.info, camera, *number) == file:
            survey.findings.add("files.orphan_video", "No episode points to this video file.", file=file, camera=camera)
            return
    survey.findings.add(
        "files.misplaced",
        "The file lies where the template does not look.",
        file=file,
        expected=survey.info.video_path,
    )


def _unknown_camera(survey: Survey, file: str) -> str | None:
    """Return the folder below videos/ that a file lies in when it names no declared camera."""
    parts = file.split("/")
    if len(parts) < 3 or parts[1] in survey.info.video_features or parts[1].startswith("chunk-"):
        return None
    return parts[1]


def _check_work_area(survey: Survey) -> None:
    inside = [file for file in survey.files if file.startswith(f"{WORK_FOLDER}/")]
    if not inside and not (survey.root / WORK_FOLDER).is_dir():
        return
    takes = sorted({parts[2] for file in inside if len(parts := file.split("/")) > 3 and parts[1] == "takes"})
    found = f"open takes: {', '.join(takes)}" if takes else f"{len(inside)} files"
    try:
        owner = json.loads((survey.root / WORK_FOLDER / OWNER_FILE).read_bytes())
        found += f"; last writer: process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    survey.findings.add("files.work_area", "A recording is open, or was killed.", file=f"{WORK_FOLDER}/", found=found)
