"""What a stop left behind, put right when the dataset is next opened for writing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rolltape.format import parse_info
from rolltape.format.paths import INFO_PATH, WORK_FOLDER
from rolltape.store import OWNER_FILE, Intent, local
from rolltape.write.change import is_as_before, remove_spent, take_back
from rolltape.write.take_note import NOTE, TAKES_FOLDER

__all__ = ["LATER_FILE", "empty_work_folder", "is_finished", "recover"]

LATER_FILE = "later.json"
"""The videos that packing left for later, in the work folder."""


def recover(root: Path) -> str | None:
    """Finish or take back a change that was stopped, and empty the work folder but for open takes. The lock is held.

    A commit whose episode rows are in place is finished, any other is taken back; only names that the change itself
    had written down are touched. Packing that was stopped is taken back unless it was complete.

    Returns:
        What was done, as a sentence, or None where nothing was to do.
    """
    work = root / WORK_FOLDER
    if not work.is_dir():
        return None
    intent = Intent.read(root)
    done = None
    unused: list[str] = []
    if intent is not None:
        done = _settle(root, intent)
        unused += intent.delete_later
    unused += read_later(root)
    if unused and (root / INFO_PATH).is_file():
        from rolltape.write.pack import remove_unused_videos

        remove_unused_videos(root, parse_info((root / INFO_PATH).read_bytes()), unused)
    if intent is not None:
        Intent.clear(root)  # before what it names: with its files half gone it would tell of another state
    empty_work_folder(root)
    return done


def empty_work_folder(root: Path) -> None:
    """Remove everything from the work folder but the lock's owner and the takes that have a note."""
    work, takes = root / WORK_FOLDER, root / TAKES_FOLDER
    for path in sorted(work.iterdir()):
        if path.name == takes.name:
            for folder in sorted(takes.iterdir()):
                if not (folder / NOTE).is_file() or not (folder / NOTE).read_bytes().strip(b"\0"):
                    local.remove_tree(folder)
            local.remove_folder_if_empty(takes)
        elif path.name != OWNER_FILE:
            local.remove_tree(path)


def is_finished(root: Path, intent: Intent) -> bool:
    """Return whether a change that was stopped is to be finished, not taken back: what makes it visible is in place."""
    visible = intent.facts.get("visible", intent.facts.get("order", ()))
    return not set(_open_steps(root, intent)) & {str(one) for one in visible}


def _open_steps(root: Path, intent: Intent) -> list[str]:
    staged = {**intent.create, **intent.replace}
    order = [str(one) for one in intent.facts.get("order", ())]
    return [target for target in order if target in staged and (root / staged[target]).exists()]


def _settle(root: Path, intent: Intent) -> str:
    if not is_finished(root, intent):
        take_back(root, intent)
        return f"A {intent.kind} that was stopped was taken back."
    staged = {**intent.create, **intent.replace}
    for target in _open_steps(root, intent):
        if is_as_before(root, intent, target):  # else another program has gone on with the dataset since
            local.rename(root / staged[target], root / target)
            local.fsync_folder((root / target).parent)
    remove_spent(root, [str(one) for one in intent.facts.get("spent", ())], durable=True)
    return f"A {intent.kind} that was stopped was finished."


def read_later(root: Path) -> list[str]:
    """Return the videos that packing left for later."""
    try:
        found = json.loads((root / WORK_FOLDER / LATER_FILE).read_bytes())
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def write_later(root: Path, videos: Sequence[str]) -> None:
    """Write down the videos that packing left for later."""
    local.write_atomic(root / WORK_FOLDER / LATER_FILE, json.dumps(list(videos)).encode(), durable=False)
