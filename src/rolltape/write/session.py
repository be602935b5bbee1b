"""The dataset's side of a writer: the lock, what is on the disk, the episodes on their way there, and the end of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rolltape.errors import ClosedError, CommitError, EncodeError, EpisodeError, RolltapeError
from rolltape.format import parse_info
from rolltape.format.paths import INFO_PATH, WORK_FOLDER
from rolltape.store import INTENT_FILE, Intent, RootLock, local
from rolltape.write.cameras import EncoderSettings
from rolltape.write.commit import commit, commit_info
from rolltape.write.episode import Episode
from rolltape.write.fields import add_field
from rolltape.write.options import WriterOptions
from rolltape.write.pack import pack_videos, remove_unused_videos
from rolltape.write.recover import LATER_FILE, empty_work_folder, read_later
from rolltape.write.resume import load_state
from rolltape.write.state import State
from rolltape.write.take_note import remove_take

__all__ = ["LATE_S", "Session"]

LATE_S = 0.2
"""How long the commit of tables may be put off with `durability="relaxed"`, so that many small episodes share one."""


class Session:
    """One stretch of writing into a dataset, from the lock to its release.

    The callers hold back signals; every change here is whole or has not happened.

    Attributes:
        root: The dataset's folder.
        state: What is in the dataset.
        pending: Saved episodes that wait for the others of their group.
        written: Bytes of all files that were written.
        is_stuck: Whether a change failed half way and could not be taken back.
    """

    def __init__(self, root: Path, lock: RootLock, state: State, options: WriterOptions) -> None:
        self.root = root
        self.state = state
        self.options = options
        self.settings = EncoderSettings(
            state.info.rate, options.rgb_encoder, options.depth_encoder, options.encoder_threads
        )
        self.pending: list[Episode] = []
        self.written = 0
        self.is_stuck = False
        self._lock = lock
        self._later: list[str] = []
        self._tried = float("-inf")
        self._first_episode = state.info.total_episodes

    @property
    def total_episodes(self) -> int:
        """Saved episodes, pending ones included."""
        return self.state.info.total_episodes + len(self.pending)

    @property
    def total_frames(self) -> int:
        """Frames of the saved episodes, pending ones included."""
        return self.state.info.total_frames + sum(episode.rows for episode in self.pending)

    def require_sound(self) -> None:
        """Refuse to go on after a change that could not be taken back.

        Raises:
            ClosedError: If there was one.
        """
        if self.is_stuck:
            raise ClosedError(
                "The disk failed in the middle of a change, which could not be taken back.",
                where=self.root,
                fix="Close the writer, repair the disk, and go on with Writer.resume(root): it puts the change right.",
            )

    def save(self, episode: Episode, depth_units: Mapping[str, str]) -> None:
        """Take an episode, and commit the group when it is full. If that fails, the episode is not taken."""
        self.pending.append(episode)
        if not self._is_group_full():
            return
        try:
            self.flush(depth_units)
        except BaseException:
            self.pending.pop()
            raise

    @property
    def is_late(self) -> bool:
        """Whether there are pending episodes that should be committed without waiting for others."""
        return bool(self.pending) and self.is_putting_off and time.monotonic() - self._tried >= LATE_S

    @property
    def is_putting_off(self) -> bool:
        """Whether commits come no faster than every `LATE_S`: for tables alone, where they are most of the work."""
        return not self.options.is_durable and self.options.commit_every == 1 and not self.state.info.camera_features

    def _is_group_full(self) -> bool:
        if len(self.pending) >= self.options.commit_every and (not self.is_putting_off or self.is_late):
            return True
        held = sum(episode.nbytes for episode in self.pending)
        return held >= self.state.info.data_files_size_in_mb * (1 << 20)

    def flush(self, depth_units: Mapping[str, str]) -> None:
        """Commit the pending episodes."""
        if not self.pending:
            return
        try:
            with self._changing():
                done = commit(
                    self.root, self.state, self.pending, self.settings, depth_units, durable=self.options.is_durable
                )
        finally:
            self._tried = time.monotonic()
        self.state = done.state
        self.written += done.written
        self.is_stuck = done.is_stuck
        spent, self.pending = self.pending, []
        for episode in spent:
            if episode.take is not None and not self.is_stuck:
                # Without its note it is no take any more; what cannot be removed now goes when the writer is closed.
                with suppress(OSError):
                    remove_take(episode.take)

    def write_info(self) -> None:
        """Write `info.json` where there is none, for a dataset without episodes."""
        with self._changing():
            if self.state.info.total_episodes == 0 and not (self.root / INFO_PATH).exists():
                self.written += commit_info(self.root, self.state, durable=self.options.is_durable)

    def change_info(self, changes: Mapping[str, Any]) -> None:
        """Change size limits; on the disk at once where there is an `info.json`."""
        changed = self.state.replace(info=parse_info(self.state.info.replace(**changes).to_json()))
        if self.state.info.total_episodes:
            with self._changing():
                self.written += commit_info(self.root, changed, durable=self.options.is_durable)
        self.state = changed

    def add_field(self, name: str, dtype: str) -> None:
        """Give all episode rows one more column; nothing happens where it is there with this type."""
        known = self.state.fields.get(name)
        if known is None:
            with self._changing():
                self.state, written = add_field(self.root, self.state, name, dtype, durable=self.options.is_durable)
            self.written += written
        elif known != dtype:
            raise EpisodeError(
                f"The episode field {name!r} exists with another type.",
                where=self.root,
                expected=known,
                found=dtype,
            )

    def pack(self, *, keep_old: bool, everything: bool) -> int:
        """Join small videos, of this session or of the whole dataset, and return how many were joined."""
        with self._changing():
            self._remove_later()
            since = 0 if everything else self._first_episode
            packed = pack_videos(self.root, self.state.info, since=since, durable=self.options.is_durable)
            self.written += packed.written
            self._later += packed.old
            if packed.joined:
                self.state = load_state(self.root, statistics=self.state.statistics)
            if not keep_old:
                self._remove_later()
        return packed.joined

    def end(self) -> None:
        """Empty the work folder but for takes that wait for recovery, and let go of the lock."""
        try:
            self._remove_later()
            if Intent.read(self.root) is None:
                empty_work_folder(self.root)
        except (OSError, RolltapeError) as error:
            warnings.warn(f"The work folder could not be emptied: {error}", stacklevel=3)
        finally:
            self._lock.release()

    def _remove_later(self) -> None:
        """Remove the videos that packing left for later. What cannot be removed now is tried again."""
        later = self._later or read_later(self.root)
        try:
            self._later = remove_unused_videos(self.root, self.state.info, later) if later else []
            local.remove_file(self.root / WORK_FOLDER / LATER_FILE)
        except OSError as error:
            self._later = later
            warnings.warn(f"Videos that are no longer needed could not be removed: {error}", stacklevel=3)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Turn an error of the file system into one that says what to do."""
        try:
            yield
        except (OSError, EncodeError) as error:
            self.is_stuck = (self.root / INTENT_FILE).exists()
            if isinstance(error, RolltapeError) and not isinstance(error, EncodeError):
                raise
            raise CommitError(
                "The change could not be written.",
                errno=getattr(error, "errno", None),
                where=self.root,
                found=f"{type(error).__name__}: {error}",
                fix="Make room or repair the disk, then save the episode again or discard it. "
                "The dataset is as it was before.",
            ) from error
