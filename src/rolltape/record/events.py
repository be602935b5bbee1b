"""What a recording tells while it runs, and how it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rolltape.record.summary import EpisodeResult, Summary

__all__ = [
    "Began",
    "Control",
    "Ended",
    "EpisodeBegan",
    "EpisodeDiscarded",
    "EpisodeSaved",
    "Event",
    "Noted",
    "OnEvent",
    "Ticked",
    "Warned",
]


@dataclass(frozen=True)
class Began:
    """The dataset is open and the robot is ready.

    Attributes:
        root: The dataset's folder.
        repo_id: The dataset's name.
        fps: Frames a second.
        cameras: The names of the camera features.
        episodes: How many episodes are to be recorded.
        existing: How many the dataset held before.
        loss_s: How many seconds of the open episode are lost at most if the process is killed.
        spool_s: How many seconds of pictures may wait on the disk for an encoder.
    """

    root: Path
    repo_id: str
    fps: float
    cameras: tuple[str, ...]
    episodes: int
    existing: int
    loss_s: float | None = None
    spool_s: float = 0


@dataclass(frozen=True)
class EpisodeBegan:
    """An episode starts.

    Attributes:
        episode: Its number in the dataset.
        position: How many were saved in this run before it.
        episodes: How many are to be recorded in this run.
        attempt: How often it was begun before and thrown away.
        max_ticks: The most ticks that it may have.
    """

    episode: int
    position: int
    episodes: int
    attempt: int
    max_ticks: int


@dataclass(frozen=True)
class Ticked:
    """A tick was recorded.

    Attributes:
        tick: How many ticks the episode has.
        late: How many of them began late (0 in simulated time).
        queued: Frames that wait for an encoder: those of the camera that has most.
    """

    tick: int
    late: int
    queued: int


@dataclass(frozen=True)
class EpisodeSaved:
    """An episode is on the disk."""

    result: EpisodeResult


@dataclass(frozen=True)
class EpisodeDiscarded:
    """An episode was thrown away.

    Attributes:
        episode: The number that it would have had.
        frames: How many frames it had.
        reason: Why.
    """

    episode: int
    frames: int
    reason: str


@dataclass(frozen=True)
class Noted:
    """Something that the user may want to know."""

    text: str


@dataclass(frozen=True)
class Warned:
    """Something that is not as it should be; the recording goes on."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The recording is over and was read back."""

    summary: Summary


Event = Began | EpisodeBegan | Ticked | EpisodeSaved | EpisodeDiscarded | Noted | Warned | Ended

OnEvent = Callable[[Event], None]
"""Takes the events of a recording, in order, in the thread that records."""


class Control:
    """The switches of a running recording. Setting one is safe from a signal handler and from any thread.

    Attributes:
        end_episode: End the episode now and save it.
        rerecord: End the episode now, throw it away, and begin it again.
        finish: End the episode now, save it, and record no further one.
        stopped_by: Why the recording is to stop at once (`SIGINT`, `SIGTERM`, any word), or None. What becomes of the
            open episode is `DatasetConfig.interrupted`.
    """

    def __init__(self) -> None:
        self.end_episode = False
        self.rerecord = False
        self.finish = False
        self.stopped_by: str | None = None

    def stop(self, reason: str = "stop") -> None:
        """Stop at once."""
        self.stopped_by = self.stopped_by or reason

    @property
    def stopped(self) -> bool:
        """Whether the recording is to stop at once."""
        return self.stopped_by is not None

    @property
    def leaves_episode(self) -> bool:
        """Whether anything asks the present episode to end."""
        return self.stopped or self.end_episode or self.rerecord or self.finish
