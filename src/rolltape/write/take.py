"""The open take: rows in memory, a camera thread for each camera, and one count that says how many frames are whole.

Beside the memory stands the take's folder (`journal`), from which the episode can be made after a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rolltape.errors import ClosedError, CommitError, EncodeError, EpisodeError
from rolltape.format import Feature
from rolltape.write.cameras import CameraTake, Footage, encode_error
from rolltape.write.frames import FrameForm
from rolltape.write.journal import Journal
from rolltape.write.ring import FrameCount
from rolltape.write.row_log import Piece

__all__ = ["Recorded", "Take"]

_FIRST_ROWS = 256


@dataclass(frozen=True)
class Recorded:
    """A take that has ended and whose counts agree.

    Attributes:
        rows: How many frames it has.
        columns: Numbers [rows, *shape] and texts by feature, without the five generated columns.
        tasks: The task of each frame.
        footage: What each camera has.
    """

    rows: int
    columns: Mapping[str, np.ndarray[Any, Any] | Sequence[str]]
    tasks: Sequence[str]
    footage: Mapping[str, Footage]


class Take:
    """The frames of an episode that is being recorded.

    Args:
        form: What a frame looks like.
        count: The take's count, shared with the cameras.
        cameras: One for each camera of the form, in its order.
        journal: The take's folder.
    """

    def __init__(self, form: FrameForm, count: FrameCount, cameras: Mapping[str, CameraTake], journal: Journal) -> None:
        self._form = form
        self._count = count
        self.cameras = dict(cameras)
        self.journal = journal
        self._cameras = [cameras[feature.name] for feature in form.cameras]
        self._numbers = [_Column(feature) for feature in form.columns]
        self._texts: list[list[str]] = [[] for _ in form.texts]
        self._tasks: list[str] = []
        self._ended = False
        self._overflowed = False
        self._recorded: Recorded | None = None
        journal.rows = self.piece

    @property
    def frames(self) -> int:
        """How many whole frames there are."""
        return self._count.value

    @property
    def waiting(self) -> dict[str, int]:
        """How many frames wait for each camera's encoder."""
        return {name: camera.waiting for name, camera in self.cameras.items()}

    @property
    def has_failed(self) -> bool:
        """Whether the take ended by itself: a camera failed or fell too far behind, or the disk did."""
        broken = self.journal.error is not None or any(camera.error is not None for camera in self._cameras)
        return broken or self._overflowed

    def piece(self, first: int) -> Piece:
        """Return the rows from a frame on. Any thread may ask."""
        end = self._count.value
        return Piece(
            first,
            end - first,
            [column.rows[first:end] for column in self._numbers],
            [texts[first:end] for texts in self._texts],
            self._tasks[first:end],
        )

    def add(self, values: list[Any], task: str) -> None:
        """Add one frame, as `FrameForm.read` gives it. Stopped half way, it has not happened.

        Raises:
            EncodeError: If a camera's encoder has failed, or has no room for the frame.
            CommitError: If what came before could not be written.
            ClosedError: If the take has ended.
        """
        number = self._count.value
        if self._ended:
            raise ClosedError("The take has ended.", fix="Call save_episode again, or discard_episode.")
        if self.journal.error is not None:
            self._end_for_the_disk()
        at = len(self._numbers)
        for column, value in zip(self._numbers, values, strict=False):
            if number == column.room:
                column.grow()
            column.rows[number] = value
        for texts in self._texts:
            texts[number:] = [values[at]]
            at += 1
        for camera in self._cameras:
            if camera.error is None:
                self._put(camera, values[at])
            if camera.error is not None:
                self._report(camera)
            at += 1
        self._tasks[number:] = [task]
        self._count.value = number + 1
        for camera in self._cameras:
            camera.wake()

    def _put(self, camera: CameraTake, frame: np.ndarray[Any, Any]) -> None:
        try:
            camera.put(frame)
        except EncodeError as error:
            self._ended = self._overflowed = True
            raise EncodeError(
                error.what,
                where=f"{camera.feature.name}, {error.where}",
                expected=error.expected,
                found=error.found,
                fix=error.fix,
            ) from None

    def _report(self, camera: CameraTake) -> None:
        assert camera.error is not None
        raise encode_error(camera.feature, camera.error) from camera.error

    def _end_for_the_disk(self) -> None:
        error = self.journal.error
        self._ended = True
        raise CommitError(
            "The open take can no longer be written to the disk, and would be lost with the process.",
            errno=getattr(error, "errno", None),
            where=self.journal.folder,
            found=f"{type(error).__name__}: {error}",
            fix=f"Make room or repair the disk. The {self.frames} frames so far are still there: save_episode keeps "
            "them.",
        ) from error

    def end(self) -> Recorded:
        """End the take, wait for the cameras, and compare the counts. May be called again after an interrupt.

        Raises:
            EpisodeError: If there are no frames.
            EncodeError: If a camera failed, or has another number of pictures than there are rows.
        """
        if self._recorded is not None:
            return self._recorded
        rows = self._count.value
        if rows == 0:
            raise EpisodeError(
                "The episode has no frames.", expected="at least one add_frame before save_episode", found="0 frames"
            )
        self._ended = True
        for camera in self.cameras.values():
            camera.end()
        failures: list[EncodeError] = []
        found: dict[str, int] = {}
        for name, camera in self.cameras.items():
            try:
                found[name] = camera.finish()
            except EncodeError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        off = {name: frames for name, frames in found.items() if frames != rows}
        if off:
            raise EncodeError(
                "A camera has another number of pictures than the episode has rows.",
                where=", ".join(off),
                expected=f"{rows} pictures",
                found=", ".join(f"{name}: {frames}" for name, frames in off.items()),
                fix="Discard the episode (discard_episode) and record it again; nothing of it was written.",
            )
        footage = {name: camera.footage() for name, camera in self.cameras.items()}
        columns: dict[str, Any] = {column.feature.name: column.rows[:rows] for column in self._numbers}
        columns |= {feature.name: texts[:rows] for feature, texts in zip(self._form.texts, self._texts, strict=True)}
        self._recorded = Recorded(rows, columns, self._tasks[:rows], footage)
        return self._recorded

    def discard(self) -> None:
        """Throw the take away, its files included. Without its note it is no take, so that goes first."""
        self._ended = True
        try:
            self.journal.disown()
        finally:
            for camera in self.cameras.values():
                camera.abort()
        self.journal.remove()

    def leave(self) -> None:
        """End the take and leave it on the disk, to be recovered."""
        self._ended = True
        for camera in self.cameras.values():
            camera.leave()
        self.journal.leave()


class _Column:
    """The values of one number feature, in an array that grows by doubling."""

    __slots__ = ("feature", "room", "rows")

    def __init__(self, feature: Feature) -> None:
        self.feature = feature
        self.room = _FIRST_ROWS
        self.rows: np.ndarray[Any, Any] = np.empty((self.room, *feature.shape), feature.numpy_dtype)

    def grow(self) -> None:
        """Double the room."""
        rows = np.empty((2 * self.room, *self.feature.shape), self.feature.numpy_dtype)
        rows[: self.room] = self.rows
        self.rows = rows
        self.room *= 2
