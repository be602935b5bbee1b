"""The writer: frames in, episodes committed one by one, a valid dataset at every moment."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from rolltape.errors import ClosedError, CommitError, EpisodeError, RolltapeError, UsageError
from rolltape.format import (
    DepthEncoderConfig,
    RGBEncoderConfig,
    field_type,
    require_readable,
)
from rolltape.store import RootLock
from rolltape.write import exits
from rolltape.write.episode import Episode, checked_fields, field_dtype, prepare
from rolltape.write.frames import FrameForm, NonFinite, first_depth_units
from rolltape.write.interrupts import deferred
from rolltape.write.late import LateCommits
from rolltape.write.options import Durability, WriterOptions, recorded_encoder, try_encoders
from rolltape.write.place import claim
from rolltape.write.resume import load_state, new_info, open_for_resume, refuse_differences
from rolltape.write.rig import Rig
from rolltape.write.ring import OnFull
from rolltape.write.session import Session
from rolltape.write.standing import Standing
from rolltape.write.state import State
from rolltape.write.take import Take
from rolltape.write.takes import RecoveredTake, Recovery, settle_takes

__all__ = ["Writer"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _in_turn(method: Callable[Concatenate[Writer, _P], _R]) -> Callable[Concatenate[Writer, _P], _R]:
    """Let one thread at a time change the open take: of two frames in one place, one would be lost silently."""

    @wraps(method)
    def call(self: Writer, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if self._pid != os.getpid():
            self._require_open()  # refuses: a forked process has no encoders
        with self._turn:
            return method(self, *args, **kwargs)

    return call


class Writer(Standing):
    """Records episodes into a LeRobotDataset v3.0.

    `save_episode` returns when the episode is on the disk and every reader sees it. Nothing has to be closed for that;
    `finalize` only joins the small videos. Made by `create` or `resume`.

    The open episode is on the disk as well, as a take under `.rolltape/takes`: when the process is killed, `resume` (or
    `rolltape recover`) brings it back but for its last moment (`stated_loss_s`).

    Calls from several threads take turns. A writer that is not closed is closed at the end of the process, also when
    SIGTERM ends it (while no other handler is set).

    Attributes:
        root: The dataset's folder.
        recovered: What became of the open takes that `resume` found.

    Example:
        >>> import tempfile, numpy as np
        >>> root = Path(tempfile.mkdtemp()) / "lift"
        >>> with Writer.create(root, 30, {"action": {"dtype": "float32", "shape": [2]}}) as writer:
        ...     for step in range(3):
        ...         writer.add_frame({"action": np.full(2, step, np.float32)}, task="lift the cube")
        ...     writer.save_episode()
        >>> writer.total_episodes, writer.total_frames
        (1, 3)
    """

    def __init__(self, root: Path, lock: RootLock, state: State, options: WriterOptions) -> None:
        self.root = root
        self.recovered: tuple[RecoveredTake, ...] = ()
        self._session = Session(root, lock, state, options)
        self._options = options
        self._form = FrameForm(state.info.features, options.non_finite)
        self._rig = Rig(root, self._form, self._session.settings, options, state.data_schema)
        self._take: Take | None = None
        self._sealed: Episode | None = None
        self._closed = False
        self._pid = os.getpid()
        self._turn = threading.RLock()
        self._late: LateCommits | None = None
        exits.watch(self)

    @classmethod
    def create(
        cls,
        root: str | os.PathLike[str],
        fps: float,
        features: Mapping[str, Any],
        *,
        robot_type: str | None = None,
        episode_fields: Mapping[str, str] | None = None,
        rgb_encoder: RGBEncoderConfig | None = None,
        depth_encoder: DepthEncoderConfig | None = None,
        durability: Durability = "full",
        commit_every: int = 1,
        spool_seconds: float = 0,
        on_full: OnFull = "wait",
        encoder_threads: int | None = None,
        data_files_size_in_mb: float = 100,
        video_files_size_in_mb: float = 200,
        queue_frames: int = 30,
        overwrite: bool = False,
        fractional_fps: bool = False,
        use_videos: bool = True,
        tools: list[Any] | None = None,
        non_finite: NonFinite = "refuse",
        chunks_size: int = 1000,
    ) -> Writer:
        """Start a new dataset.

        Only a work folder `.rolltape` is made in the root; the dataset appears with its first episode, or with
        `finalize` if there is none.

        Args:
            root: The dataset's folder. It may exist if it is empty.
            fps: Frames per second. A whole number, or any with `fractional_fps`.
            features: Feature name to `{"dtype", "shape", "names"}`, the five generated ones left out.
            robot_type: What robot it is.
            episode_fields: Your own columns of the episodes table, name to type (string, bool, int64, int32, float64,
                float32).
            rgb_encoder: How colour cameras are encoded; the reference's defaults if None.
            depth_encoder: How depth cameras are encoded; the reference's defaults if None.
            durability: "full" fsyncs each commit and, once a second, the open take. "relaxed" does not, so a power cut
                can lose episodes; and without cameras it puts a commit off by up to 0.2 s after another one, so that
                small episodes that are saved in quick succession share a commit (`flush` makes it at once).
            commit_every: Episodes in one commit. More than 1 is for bulk writers: `save_episode` then returns before
                the episode is in the dataset. A killed process leaves those of the open group as takes to be recovered,
                but for takes without cameras that were over in a moment. A group is committed early when it fills a
                data file.
            spool_seconds: Let so many seconds of pictures wait on the disk for an encoder that cannot keep up. They are
                not lost with the process: at most 0.2 s is. 0: `queue_frames` wait in memory.
            on_full: What `add_frame` does when a camera's encoder is that far behind: "wait" for it, or end the take
                with an "error"; what was added before can be saved.
            encoder_threads: Threads of each encoder.
            data_files_size_in_mb: Size limit of a data file, MiB.
            video_files_size_in_mb: Size limit of a packed video, MiB.
            queue_frames: How many frames of a camera may wait for its encoder before `add_frame` waits.
            overwrite: Whether a dataset in the folder is removed first. Anything else never is.
            fractional_fps: Whether `fps` may be a fraction such as 29.97 or `Fraction(30000, 1001)`. The reference
                cannot open such a dataset.
            use_videos: Whether the dataset may have videos; False refuses features of dtype video.
            tools: Function schemas for `info.json`.
            non_finite: Whether NaN and infinity in a frame are an error ("refuse") or kept with a warning ("keep").
            chunks_size: Files in one chunk folder.

        Raises:
            DatasetExistsError: The folder holds a dataset (resume it, or overwrite=True) or other files.
            FormatError: A feature, a field or fps is malformed.
            CodecError: An encoder does not work here; the message lists those that do.
            OpenTakeError: A recording that was killed before its first commit left an open episode there.
            CommitError: There is no room for the spool.
            LockedError: Another writer holds the folder; the message names it.
            ReadOnlyError: The folder cannot be written to.
        """
        options = WriterOptions(
            rgb_encoder=rgb_encoder or RGBEncoderConfig(),
            depth_encoder=depth_encoder or DepthEncoderConfig(),
            encoder_threads=encoder_threads,
            durability=durability,
            commit_every=commit_every,
            queue_frames=queue_frames,
            non_finite=non_finite,
            spool_seconds=spool_seconds,
            on_full=on_full,
        )
        info = new_info(
            fps,
            features,
            fractional_fps=fractional_fps,
            use_videos=use_videos,
            robot_type=robot_type,
            tools=tools,
            data_files_size_in_mb=data_files_size_in_mb,
            video_files_size_in_mb=video_files_size_in_mb,
            chunks_size=chunks_size,
        )
        state = State.new(info, episode_fields or {})
        try_encoders(info, options)
        path = Path(root)
        lock = claim(path, overwrite=overwrite, durable=options.durability == "full")
        try:
            return cls(path, lock, state, options)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(
        cls,
        root: str | os.PathLike[str],
        recover: Recovery = "ask",
        *,
        fps: float | None = None,
        features: Mapping[str, Any] | None = None,
        robot_type: str | None = None,
        rgb_encoder: RGBEncoderConfig | None = None,
        depth_encoder: DepthEncoderConfig | None = None,
        durability: Durability = "full",
        commit_every: int = 1,
        spool_seconds: float = 0,
        on_full: OnFull = "wait",
        encoder_threads: int | None = None,
        queue_frames: int = 30,
        non_finite: NonFinite = "refuse",
    ) -> Writer:
        """Go on with a dataset, whoever wrote it.

        A commit that a stop left half done is finished or taken back first. Encoder settings that are not given are
        those of the dataset's cameras. The columns of the episodes table stay exactly as they are.

        Args:
            root: The dataset's folder.
            recover: What to do with the open episodes that killed recordings left: "keep" makes episodes of what is
                there, "drop" removes it, "ask" refuses to go on and says what there is.
            fps: If given, it must be the dataset's.
            features: If given, they must be the dataset's, but for what is known of its videos.
            robot_type: If given, it must be the dataset's.
            rgb_encoder: How colour cameras are encoded.
            depth_encoder: How depth cameras are encoded.
            durability: See `create`.
            commit_every: See `create`.
            spool_seconds: See `create`.
            on_full: See `create`.
            encoder_threads: See `create`.
            queue_frames: See `create`.
            non_finite: See `create`.

        Raises:
            DatasetNotFoundError: There is no dataset in the folder.
            UnsupportedFormatError: It is not v3.0; nothing is changed.
            FormatError: The dataset contradicts itself (counters and rows, ...); the message gives the facts.
            UsageError: An argument contradicts the dataset.
            OpenTakeError: There are open episodes, and `recover` is "ask".
            LockedError: Another writer holds the folder.
        """
        path = Path(root)
        if recover not in ("keep", "drop", "ask"):
            raise UsageError("recover is unknown.", expected="'keep', 'drop' or 'ask'", found=repr(recover))
        lock = open_for_resume(path)
        try:
            recovered = settle_takes(path, lock, recover)
            require_readable(path)
            state = load_state(path)
            refuse_differences(state.info, fps=fps, features=features, robot_type=robot_type)
            options = WriterOptions(
                rgb_encoder=rgb_encoder or recorded_encoder(state.info, RGBEncoderConfig),
                depth_encoder=depth_encoder or recorded_encoder(state.info, DepthEncoderConfig),
                encoder_threads=encoder_threads,
                durability=durability,
                commit_every=commit_every,
                queue_frames=queue_frames,
                non_finite=non_finite,
                spool_seconds=spool_seconds,
                on_full=on_full,
            )
            try_encoders(state.info, options)
            writer = cls(path, lock, state, options)
        except BaseException:
            lock.release()
            raise
        writer.recovered = tuple(recovered)
        return writer

    @_in_turn
    def add_frame(self, frame: Mapping[str, Any], task: str | None = None) -> None:
        """Add one frame to the open episode, opening one if there is none.

        Values are copied. The call waits only while a camera's encoder is `queue_frames` behind; no frame is dropped.
        What is accepted beyond exact dtypes and shapes is said in `rolltape.write.frames`.

        Args:
            frame: Feature name to value; never changed. May hold the task under `task`.
            task: What is being done, in words.

        Raises:
            FrameError: The frame does not fit; all problems are in the one message, and the frame is not added.
            EncodeError: A camera's encoder has failed (discard the episode, or leave it for recovery), or with
                `on_full="error"` there is no room for the picture (save what there is).
            CommitError: The open take can no longer be written to the disk; what there is can be saved.
            ClosedError: The writer is closed.
        """
        take = self._take
        if take is None:
            self._require_open()
        number = 0 if take is None else take.frames
        values, text = self._form.read(frame, task, number)
        if number == 0 and self._form.cameras:
            self._form.depth_units.update(first_depth_units(self._form, values))
        if take is None:
            take = self._opened(values)
        take.add(values, text)

    @_in_turn
    def save_episode(self, fields: Mapping[str, Any] | None = None) -> None:
        """End the open episode and make it part of the dataset.

        With `commit_every=1` it is durable and visible when this returns. If it fails, nothing of the episode is in the
        dataset; it can be saved again or discarded.

        Args:
            fields: The user's per-episode fields. One that was not declared becomes a new column, empty in the
                episodes before.

        Raises:
            EpisodeError: There are no frames, or a field has the wrong type.
            EncodeError: A camera failed, or has another number of pictures than there are rows.
            CommitError: The files could not be written (disk full, ...); the dataset is as it was.
            ClosedError: The writer is closed.
        """
        self._require_open()
        if self._sealed is None:
            if self._take is None or self._take.frames == 0:
                raise EpisodeError(
                    "The episode has no frames.",
                    expected="at least one add_frame before save_episode",
                    found="0 frames",
                )
            values = self._checked(fields or {})
            self._sealed = self._prepared(self._take, values)
        elif fields is not None:
            self._sealed = self._prepared(self._take, self._checked(fields)) if self._take else self._sealed
        with deferred():
            self._session.save(self._sealed, self._form.depth_units)
            saved, self._sealed, self._take = self._sealed, None, None
            if self._late is None and self._session.is_putting_off:
                self._late = LateCommits(self)
        self._report_clipping(saved)

    @_in_turn
    def discard_episode(self) -> None:
        """Throw the open episode away. The saved ones are not touched; without an open one this does nothing."""
        self._require_open()
        with deferred():
            take, self._take, self._sealed = self._take, None, None
            if take is not None:
                take.discard()
            if not self._session.pending:
                self._form.forget_depth_units(self.features)

    @_in_turn
    def leave_episode(self) -> int:
        """End the open episode and leave it on the disk, for `rolltape recover` or `resume(recover="keep")`.

        For a take that cannot be saved, because an encoder or the disk has failed.

        Returns:
            How many frames it has.

        Raises:
            OSError: If the disk does not take the rest of it.
        """
        with deferred():
            take, self._take, self._sealed = self._take, None, None
            if take is None:
                return 0
            try:
                take.leave()
            finally:
                self._rig.give_away()
            return take.frames

    @_in_turn
    def add_episode_field(self, name: str, dtype: str) -> None:
        """Declare a per-episode field after the creation; the episodes so far have null in it.

        Args:
            name: The column's name, without slashes.
            dtype: string, bool, int64, int32, float64 or float32.

        Raises:
            FormatError: The name is taken by the format, or the type is unknown.
            EpisodeError: The field exists with another type.
            CommitError: The files of episode rows could not be written again; they are as they were.
        """
        self._require_open()
        with deferred():
            self._session.add_field(name, dtype)

    @_in_turn
    def change_info(
        self,
        *,
        chunks_size: int | None = None,
        data_files_size_in_mb: float | None = None,
        video_files_size_in_mb: float | None = None,
    ) -> None:
        """Change the size limits for what is written from now on. Files that are there stay as they are.

        Args:
            chunks_size: Files in one chunk folder.
            data_files_size_in_mb: Size limit of a data file, MiB.
            video_files_size_in_mb: Size limit of a packed video, MiB.

        Raises:
            FormatError: A limit is not above 0.
        """
        self._require_open()
        changes = {
            "chunks_size": chunks_size,
            "data_files_size_in_mb": data_files_size_in_mb,
            "video_files_size_in_mb": video_files_size_in_mb,
        }
        with deferred():
            self._session.change_info({name: value for name, value in changes.items() if value is not None})

    @_in_turn
    def flush(self) -> None:
        """Commit the episodes of an open group now. Without `commit_every` there is nothing to do.

        Raises:
            CommitError: The files could not be written; the episodes are kept for another try.
        """
        self._require_open()
        with deferred():
            self._session.flush(self._form.depth_units)

    @_in_turn
    def pack(self, *, keep_old: bool = False) -> int:
        """Join the small videos of single episodes into large ones, losslessly. Returns how many were joined.

        Args:
            keep_old: Keep the old videos until the next `pack` or `close`, for readers that opened the dataset before.

        Raises:
            CommitError: The files could not be written; the dataset is as it was.
        """
        self.flush()
        with deferred():
            return self._session.pack(keep_old=keep_old, everything=True)

    def finalize(self) -> None:
        """Commit what is saved, join the small videos of this recording, and close. Calling it again does nothing.

        Readers that opened the dataset before find the small videos gone and have to open it again. Frames that were
        added and not saved are discarded, with a warning.

        Raises:
            CommitError: The files could not be written; what was committed before is whole.
        """
        if self._closed:
            return
        self._warn_of_unsaved()
        try:
            self.discard_episode()
            self.flush()
            with self._turn, deferred():
                self._session.write_info()
                self._session.pack(keep_old=False, everything=False)
            self._session.state.statistics.warn()
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the dataset without packing: the open episode is discarded, saved ones of a group are committed.

        An open episode that a failing encoder or disk has ended is not discarded but left for `rolltape recover`.
        """
        if self._closed or self._pid != os.getpid():
            return
        try:
            if self._session.is_stuck:
                self.leave_episode()
            else:
                self._leave_failed()
                self.discard_episode()
                self.flush()
        finally:
            with self._turn, deferred():
                self._let_go()

    def commit_late(self) -> None:
        """Commit episodes that were put off for long enough; called by a thread. An error comes with the next save."""
        if self._session.is_late:
            with self._turn:
                if self._session.is_late and not self._closed and self._pid == os.getpid():
                    with suppress(RolltapeError):
                        self._session.flush(self._form.depth_units)

    def _let_go(self) -> None:
        self._closed = True
        if self._late is not None:
            self._late.close()
        exits.forget(self)
        self._rig.close()
        self._session.end()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.finalize()
            return
        self._take_leave()

    def _take_leave(self) -> None:
        """Close after an error in the `with` block, without hiding that error behind another one."""
        try:
            if not self._closed:
                self._leave_failed()
                self.discard_episode()
            self.finalize()
        except (RolltapeError, OSError) as error:
            warnings.warn(f"The recording could not be finished: {error}", stacklevel=3)

    def _leave_failed(self) -> None:
        """Leave a take that ended by itself to recovery: nobody has decided to throw it away."""
        if self.take_failed:
            frames = self.leave_episode()
            warnings.warn(
                f"{frames} frames of the take that failed are kept; `rolltape recover {self.root}` says what can be "
                "brought back.",
                stacklevel=4,
            )

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.episode_frames} frames in the open episode"
        return f"Writer({str(self.root)!r}, {self.total_episodes} episodes, {self.total_frames} frames, {state})"

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("The writer is closed.", where=self.root, fix="Go on with Writer.resume(root).")
        if self._pid != os.getpid():
            raise ClosedError("The writer belongs to another process.", where=self.root, found=f"process {os.getpid()}")
        self._session.require_sound()

    def _opened(self, values: list[Any]) -> Take:
        with deferred():
            try:
                self._take = self._rig.open(
                    episode_index=self.total_episodes,
                    from_index=self.total_frames,
                    info=self.info,
                    fields=self.episode_fields,
                    values=values,
                )
            except OSError as error:
                if isinstance(error, RolltapeError):
                    raise
                raise CommitError(
                    "A take cannot be opened.",
                    errno=error.errno,
                    where=self.root,
                    found=f"{type(error).__name__}: {error}",
                    fix="Make room or repair the disk, then add the frame again.",
                ) from error
        return self._take

    def _prepared(self, take: Take | None, fields: Mapping[str, Any]) -> Episode:
        assert take is not None
        pending = self._session.pending
        recorded = take.end()
        take.journal.seal(fields)
        self._rig.take_back()
        return prepare(
            recorded,
            index=self.total_episodes,
            from_index=self.total_frames,
            info=self._session.state.info,
            tasks=pending[-1].all_tasks if pending else self._session.state.tasks,
            schema=self._session.state.data_schema,
            fields=fields,
            take=take.journal.folder if take.journal.is_on_disk else None,
        )

    def _checked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(fields, Mapping):
            raise EpisodeError("The episode's fields are not a mapping.", found=type(fields).__name__)
        new = {
            name: field_dtype(name, value)
            for name, value in fields.items()
            if name not in self._session.state.fields and value is not None
        }
        known = {name: value for name, value in fields.items() if name in self._session.state.fields or name in new}
        values = checked_fields(known, {**self._session.state.fields, **new})
        for name, dtype in new.items():
            field_type(name, dtype)  # all names before the first column
        for name, dtype in new.items():
            self.add_episode_field(name, dtype)
        return values

    def _report_clipping(self, saved: Episode) -> None:
        depth = self._options.depth_encoder
        for name, pixels in saved.clipped.items():
            warnings.warn(
                f"{name}: {pixels} pixels of episode {saved.index} are outside {depth.depth_min} to {depth.depth_max} "
                "m, which is what its video can hold, and were clipped; see DepthEncoderConfig.",
                stacklevel=4,
            )

    def _warn_of_unsaved(self) -> None:
        if self.has_pending_frames:
            warnings.warn(
                f"{self.episode_frames} frames of the open episode were not saved and are discarded; "
                "call save_episode before finalize to keep them.",
                stacklevel=3,
            )
