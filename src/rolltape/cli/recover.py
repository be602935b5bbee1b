"""`rolltape recover`: the open takes that killed recordings left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from rolltape.cli.printing import columns_text, print_json, print_text, seconds_text
from rolltape.errors import UsageError

if TYPE_CHECKING:
    from rolltape.write import OpenTake, RecoveredTake

__all__ = ["recover"]


def recover(
    source: Annotated[str, Parameter(name="PATH")],
    /,
    *,
    keep: Annotated[bool, Parameter(negative="")] = False,
    drop: Annotated[bool, Parameter(negative="")] = False,
    take: Annotated[tuple[int, ...], Parameter(consume_multiple=False, negative="")] = (),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Bring back the episode that a killed recording left open, or drop it.

    Without --keep or --drop it says what is there and changes nothing. Whatever was saved before the kill is in the
    dataset already and needs no recovery.

    Args:
        source: The dataset: a folder, or a repo id below $HF_LEROBOT_HOME.
        keep: Make episodes of the open takes, marked as recovered. A take without a whole frame is dropped.
        drop: Remove the open takes.
        take: Only the take of this number; may be repeated.
        json: Print one JSON object and nothing else.
    """
    from rolltape.read import find_root
    from rolltape.write import find_takes, recover_takes

    if keep and drop:
        raise UsageError("A take is kept or dropped, not both.", expected="--keep or --drop", found="both")
    root = find_root(source)
    if keep or drop:
        done = recover_takes(root, "keep" if keep else "drop", take or None)
        _print_done(root, done, json=json)
        return 0
    _refuse_open(root)
    found = [one for one in find_takes(root) if not take or one.n in take]
    _print_found(root, found, json=json)
    return 0


def _refuse_open(root: Path) -> None:
    """Refuse to list the take of a recording that is under way."""
    from rolltape.store import RootLock

    RootLock(root, "recovery").refuse_held()


def _print_found(root: Path, takes: Sequence[OpenTake], *, json: bool) -> None:
    if json:
        print_json({"root": str(root), "takes": [_plain(one) for one in takes]})
        return
    if not takes:
        print_text(["There is no open take: nothing is to be recovered."])
        return
    lines = [f"{root}: {len(takes)} open take{'s' if len(takes) > 1 else ''}"]
    for one in takes:
        lines += ["", *_description(one)]
    print_text([*lines, "", "--keep makes episodes of them, --drop removes them; nothing was changed."])


def _description(take: OpenTake) -> list[str]:
    if take.problem is not None:
        return [f"take {take.n}: {take.problem}"]
    rows = [["started", take.started]]
    if take.episode_index is None:
        rows.append(["episode", "none: a stream has no frame"])
    else:
        rows.append(["episode", f"{take.episode_index}, {take.frames} frames, {seconds_text(take.seconds)}"])
    rows.append(["tasks", ", ".join(take.tasks) or "none"])
    for name, frames in (take.streams or {}).items():
        beyond = frames - take.frames
        rows.append([name, f"{frames} frames" + (f", {beyond} of them would be lost" if beyond else "")])
    if take.is_saved:
        rows.append(["saved", "yes, but it was not in the dataset yet"])
    return [f"take {take.n}", *columns_text(rows)]


def _print_done(root: Path, done: Sequence[RecoveredTake], *, json: bool) -> None:
    if json:
        print_json({"root": str(root), "takes": [_outcome(one) for one in done]})
        return
    if not done:
        print_text(["There is no open take: nothing is to be recovered."])
        return
    print_text([_outcome_line(one) for one in done])


def _outcome_line(one: RecoveredTake) -> str:
    if one.episode_index is None:
        return f"take {one.take.n}: dropped" + (f" ({one.reason})" if one.reason != "dropped as told" else "")
    return f"take {one.take.n}: episode {one.episode_index}, {one.frames} frames"


def _plain(take: OpenTake) -> dict[str, Any]:
    return asdict(take)


def _outcome(one: RecoveredTake) -> dict[str, Any]:
    action: Literal["kept", "dropped"] = "dropped" if one.episode_index is None else "kept"
    return {
        "n": one.take.n,
        "action": action,
        "episode_index": one.episode_index,
        "frames": one.frames,
        "reason": one.reason,
    }
