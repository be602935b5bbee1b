"""What a stop left behind, put right when the dataset is next opened for writing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rolltape.format import parse_info
from rolltape.format.paths import INFO_PATH, WORK_FOLDER
from rolltape.store import OWNER_FILE, Intent, local
from rolltape.write.change import take_back

__all__ = ["LATER_FILE", "recover"]

LATER_FILE = "later.json"
"""The videos that packing left for later, in the work folder."""


def recover(root: Path) -> str | None:
    """Finish or take back a change that was stopped, and empty the work folder. The lock is held.

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
    for path in sorted(work.iterdir()):
        if path.name != OWNER_FILE:
            local.remove_tree(path)
    return done


def _settle(root: Path, intent: Intent) -> str:
    staged = {**intent.create, **intent.replace}
    order = [str(one) for one in intent.facts.get("order", ())]
    open_steps = [target for target in order if target in staged and (root / staged[target]).exists()]
    visible = [str(one) for one in intent.facts.get("visible", order)]
    if any(target in open_steps for target in visible):
        take_back(root, intent)
        return f"A {intent.kind} that was stopped was taken back."
    for target in open_steps:
        local.rename(root / staged[target], root / target)
        local.fsync_folder((root / target).parent)
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
