"""Open takes that a killed recording left: what there is, and making episodes of them or dropping them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rolltape.errors import EpisodeError, FormatError, OpenTakeError, RolltapeError, UsageError
from rolltape.format import Feature, Info, parse_info
from rolltape.format.paths import INFO_PATH
from rolltape.store import Intent, RootLock
from rolltape.write.change import staging_name
from rolltape.write.episode import checked_fields, field_dtype, prepare
from rolltape.write.left_take import LeftTake
from rolltape.write.options import WriterOptions
from rolltape.write.recover import empty_work_folder, is_finished
from rolltape.write.resume import load_state, open_for_resume
from rolltape.write.session import Session
from rolltape.write.state import State
from rolltape.write.take_note import NOTE, TAKES_FOLDER, TakeNote, read_saved, remove_take, take_numbers

__all__ = ["OpenTake", "RecoveredTake", "Recovery", "find_takes", "recover_takes", "refuse_open_takes", "settle_takes"]

Recovery = Literal["keep", "drop", "ask"]


@dataclass(frozen=True)
class OpenTake:
    """A take that a killed recording left.

    Attributes:
        n: Its number; its folder is `.rolltape/takes/<n>`.
        episode_index: The episode that it would become, or None if nothing can be brought back.
        frames: How many frames that episode would have.
        seconds: How long it would be.
        streams: How many frames the rows have (`rows`), and each camera. What is more than `frames` would be lost.
        tasks: What was being done.
        started: When the take was opened, ISO 8601.
        is_saved: Whether `save_episode` was called for it, and the kill came before it was in the dataset.
        problem: Why it cannot be understood, or None.
    """

    n: int
    episode_index: int | None
    frames: int = 0
    seconds: float = 0.0
    streams: Mapping[str, int] | None = None
    tasks: tuple[str, ...] = ()
    started: str = ""
    is_saved: bool = False
    problem: str | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"take {self.n}: {self.problem}"
        streams = ", ".join(f"{name} {frames}" for name, frames in (self.streams or {}).items())
        if self.episode_index is None:
            return f"take {self.n} of {self.started}: nothing can be brought back ({streams})"
        return f"take {self.n} of {self.started}: {self.frames} frames, {self.seconds:.1f} s ({streams})"


@dataclass(frozen=True)
class RecoveredTake:
    """What became of a take.

    Attributes:
        take: The take.
        episode_index: The episode that it is now, or None if it was dropped.
        frames: How many frames the episode has.
        reason: Why it was dropped, or None.
    """

    take: OpenTake
    episode_index: int | None = None
    frames: int = 0
    reason: str | None = None


def find_takes(root: Path) -> list[OpenTake]:
    """Return the open takes in a folder, in the order in which they were recorded. Nothing is changed.

    A take that is being recorded right now is among them.

    Args:
        root: The dataset's folder, which need not hold a committed episode yet.
    """
    root = Path(root)
    spent: set[str] = set()
    try:
        episode = parse_info((root / INFO_PATH).read_bytes()).total_episodes
    except FileNotFoundError:
        episode = 0
    intent = Intent.read(root)
    if intent is not None and is_finished(root, intent):
        spent = {str(one) for one in intent.facts.get("spent", ())}
        episode = max(episode, int(intent.facts.get("total_episodes", 0)))
    takes: list[OpenTake] = []
    for number in take_numbers(root):
        if f"{TAKES_FOLDER}/{number}/{NOTE}" in spent:
            continue
        take = _described(root, number, episode)
        if take is not None:
            takes.append(take)
            episode += take.episode_index is not None
    return takes


def _described(root: Path, number: int, episode: int) -> OpenTake | None:
    folder = root / TAKES_FOLDER / str(number)
    try:
        note = TakeNote.read(folder)
    except RolltapeError as error:
        return OpenTake(number, None, problem=" ".join(error.message.split()))
    if note is None:
        return None
    with LeftTake(folder, note) as left:
        frames = left.frames
        return OpenTake(
            n=number,
            episode_index=episode if frames else None,
            frames=frames,
            seconds=float(note.info.rate.seconds(frames)),
            streams=left.streams,
            tasks=left.tasks,
            started=note.started,
            is_saved=read_saved(folder) is not None,
        )


def recover_takes(
    root: Path, action: Literal["keep", "drop"], only: Iterable[int] | None = None
) -> list[RecoveredTake]:
    """Make episodes of open takes, or drop them. A change that a stop left half done is put right first.

    It may be stopped at any time and called again: a take goes only when its episode is on the disk.

    Args:
        root: The dataset's folder.
        action: What to do with them.
        only: The numbers of the takes concerned; the others stay open. All by default.

    Raises:
        LockedError: A writer holds the folder.
        UsageError: There is no such take.
        FormatError: A take does not fit the dataset, or cannot be understood; it can only be dropped.
        CommitError: The disk does not take the episodes; the takes stay.
    """
    root = Path(root)
    lock = open_for_resume(root)
    try:
        takes = find_takes(root)
        wanted = None if only is None else set(only)
        unknown = (wanted or set()) - {take.n for take in takes}
        if unknown:
            raise UsageError(
                "There is no such open take.",
                where=root,
                expected=", ".join(str(take.n) for take in takes) or "there are none",
                found=", ".join(map(str, sorted(unknown))),
            )
        chosen = [take for take in takes if wanted is None or take.n in wanted]
        done = _kept(root, lock, chosen) if action == "keep" else _dropped(root, chosen)
    finally:
        lock.release()
    return done


def settle_takes(root: Path, lock: RootLock, recover: Recovery) -> list[RecoveredTake]:
    """Do with the open takes as a `recover` argument says, before a dataset is written to. The lock is held.

    Raises:
        OpenTakeError: If `recover` is "ask", and something of them can be brought back.
    """
    takes = find_takes(root)
    if recover == "keep":
        return _kept(root, lock, takes)
    if recover == "drop":
        return _dropped(root, takes)
    refuse_open_takes(root, takes)
    for take in takes:
        warnings.warn(f"{take}; it is removed.", stacklevel=4)
    return _dropped(root, takes)


def refuse_open_takes(root: Path, takes: Sequence[OpenTake] | None = None) -> None:
    """Refuse to go on while there are open takes of which something can be brought back.

    Raises:
        OpenTakeError: If there are; the message lists them.
    """
    takes = find_takes(root) if takes is None else takes
    takes = [take for take in takes if take.frames or take.problem is not None]
    if takes:
        raise OpenTakeError(
            "A recording that was killed left an open episode here."
            if len(takes) == 1
            else f"Recordings that were killed left {len(takes)} open episodes here.",
            takes,
            where=root,
            found="; ".join(str(take) for take in takes),
            fix=f"Keep what is there with `rolltape recover {root} --keep` or Writer.resume(root, recover='keep'), or "
            f"drop it with `rolltape recover {root} --drop` or recover='drop'.",
        )


def _dropped(root: Path, takes: Sequence[OpenTake]) -> list[RecoveredTake]:
    done = []
    for take in takes:
        remove_take(root / TAKES_FOLDER / str(take.n))
        done.append(RecoveredTake(take, reason="dropped as told" if take.frames else "nothing is left of it"))
    return done


def _kept(root: Path, lock: RootLock, takes: Sequence[OpenTake]) -> list[RecoveredTake]:
    try:
        return _kept_one_by_one(root, lock, takes)
    finally:
        with contextlib.suppress(OSError, RolltapeError):
            if Intent.read(root) is None:
                empty_work_folder(root)


def _kept_one_by_one(root: Path, lock: RootLock, takes: Sequence[OpenTake]) -> list[RecoveredTake]:
    done: list[RecoveredTake] = []
    session: Session | None = None
    for take in takes:
        folder = root / TAKES_FOLDER / str(take.n)
        note = TakeNote.read(folder)
        if note is None:
            continue
        with LeftTake(folder, note) as left:
            if not left.frames:
                done.append(RecoveredTake(take, reason=left.shortage))
                remove_take(folder)
                continue
            if session is None:
                session = Session(root, lock, _state(root, note), WriterOptions())
            done.append(_revived(session, take, left))
    return done


def _state(root: Path, note: TakeNote) -> State:
    """Return what is on the disk, or for a recording without a committed episode what its take says."""
    if (root / INFO_PATH).exists():
        return load_state(root)
    if note.info.total_episodes:
        raise FormatError(
            "The take belongs to a dataset whose info.json is missing.",
            where=root,
            expected=f"{note.info.total_episodes} episodes",
            found="none",
            fix="Restore the dataset's files first. The take stays where it is.",
        )
    return State.new(note.info, note.fields)


def _revived(session: Session, take: OpenTake, left: LeftTake) -> RecoveredTake:
    """Make an episode of a take, with the ordinary commit."""
    _refuse_difference(session.state.info, left)
    session.settings = left.settings
    recorded = left.recorded(lambda name: session.root / staging_name(name))
    fields = _fields(session, read_saved(left.folder) or {})
    info = session.state.info
    episode = prepare(
        recorded,
        index=info.total_episodes,
        from_index=info.total_frames,
        info=info,
        tasks=session.state.tasks,
        schema=session.state.data_schema,
        fields=fields,
        take=left.folder,
        recovered=True,
    )
    session.save(episode, left.depth_units)
    return RecoveredTake(take, episode.index, episode.rows)


def _refuse_difference(info: Info, left: LeftTake) -> None:
    """Refuse to append a take to a dataset of another shape."""
    theirs = left.note.info
    problems = [] if info.rate.fraction == theirs.rate.fraction else [f"fps: {info.fps}, the take has {theirs.fps}"]
    for name in dict.fromkeys([*info.features, *theirs.features]):
        one, other = info.features.get(name), theirs.features.get(name)
        if one is None or other is None or _form(one) != _form(other):
            problems.append(f"{name}: {_said(one)}, the take has {_said(other)}")
    for name, unit in left.depth_units.items():
        known = info.features[name].depth_unit if name in info.features else None
        if known is not None and known != unit:
            problems.append(f"{name}: depth in {known}, the take has {unit}")
    if problems:
        raise FormatError(
            "The open take does not fit the dataset.",
            where=left.folder,
            found="; ".join(problems),
            fix="Drop it (rolltape recover PATH --drop), or move its folder away. Nothing was changed.",
        )


def _form(feature: Feature) -> tuple[Any, ...]:
    return (feature.dtype, feature.shape, feature.is_depth)


def _said(feature: Feature | None) -> str:
    return "nothing" if feature is None else f"{feature.dtype} {list(feature.shape)}"


def _fields(session: Session, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's fields of a take that was saved, those that were new included."""
    try:
        for name, value in values.items():
            if name not in session.state.fields and value is not None:
                session.add_field(name, field_dtype(name, value))
        known = {name: value for name, value in values.items() if name in session.state.fields}
        return checked_fields(known, session.state.fields)
    except EpisodeError:
        return {}
