"""The open take: rows in memory, a camera thread for each camera, and one count that says how many frames are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rolltape.errors import ClosedError, EncodeError, EpisodeError
from rolltape.format import Feature
from rolltape.write.cameras import CameraTake, Footage, encode_error
from rolltape.write.frames import FrameForm
from rolltape.write.ring import FrameCount

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
    """

    def __init__(self, form: FrameForm, count: FrameCount, cameras: Mapping[str, CameraTake]) -> None:
        self._form = form
        self._count = count
        self.cameras = dict(cameras)
        self._cameras = [cameras[feature.name] for feature in form.cameras]
        self._numbers = [_Column(feature) for feature in form.columns]
        self._texts: list[list[str]] = [[] for _ in form.texts]
        self._tasks: list[str] = []
        self._ended = False
        self._recorded: Recorded | None = None

    @property
    def frames(self) -> int:
        """How many whole frames there are."""
        return self._count.value

    @property
    def waiting(self) -> dict[str, int]:
        """How many frames wait for each camera's encoder."""
        return {name: camera.waiting for name, camera in self.cameras.items()}

    def add(self, values: list[Any], task: str) -> None:
        """Add one frame, as `FrameForm.read` gives it. Stopped half way, it has not happened.

        Raises:
            EncodeError: If a camera's encoder has failed.
            ClosedError: If the take has ended.
        """
        number = self._count.value
        if self._ended:
            raise ClosedError("The take has ended.", fix="Call save_episode again, or discard_episode.")
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
                camera.put(values[at])
            if camera.error is not None:
                self._report(camera)
            at += 1
        self._tasks[number:] = [task]
        self._count.value = number + 1
        for camera in self._cameras:
            camera.wake()

    def _report(self, camera: CameraTake) -> None:
        name = next(name for name, one in self.cameras.items() if one is camera)
        assert camera.error is not None
        raise encode_error(self._form.features[name], camera.error) from camera.error

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
        footage: dict[str, Footage] = {}
        failures: list[EncodeError] = []
        for name, camera in self.cameras.items():
            try:
                footage[name] = camera.finish()
            except EncodeError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        off = {name: one.frames for name, one in footage.items() if one.frames != rows}
        if off:
            raise EncodeError(
                "A camera has another number of pictures than the episode has rows.",
                where=", ".join(off),
                expected=f"{rows} pictures",
                found=", ".join(f"{name}: {frames}" for name, frames in off.items()),
                fix="Discard the episode (discard_episode) and record it again; nothing of it was written.",
            )
        columns: dict[str, Any] = {column.feature.name: column.rows[:rows] for column in self._numbers}
        columns |= {feature.name: texts[:rows] for feature, texts in zip(self._form.texts, self._texts, strict=True)}
        self._recorded = Recorded(rows, columns, self._tasks[:rows], footage)
        return self._recorded

    def discard(self) -> None:
        """Throw the take away, its videos included."""
        self._ended = True
        for camera in self.cameras.values():
            camera.abort()


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
