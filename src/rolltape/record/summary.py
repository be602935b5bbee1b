"""What a recording left on the disk, read back from there and held against what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rolltape.errors import RolltapeError
from rolltape.format.paths import INFO_PATH

__all__ = ["EpisodeResult", "Summary", "read_back"]


@dataclass(frozen=True)
class EpisodeResult:
    """One recorded episode.

    Attributes:
        episode: Its number in the dataset.
        frames: Its length.
        success: The judgement, or None where nothing judges.
        measured_fps: The loop's mean rate on the clock on the wall, or None in simulated time.
        worst_interval_s: The longest time between two ticks, in seconds, or None in simulated time.
        late: Ticks that began late.
    """

    episode: int
    frames: int
    success: bool | None = None
    measured_fps: float | None = None
    worst_interval_s: float | None = None
    late: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the episode's row that are known."""
        known = {
            "success": self.success,
            "measured_fps": self.measured_fps,
            "worst_interval_s": self.worst_interval_s,
        }
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True)
class Summary:
    """The end of a recording.

    Attributes:
        root: The dataset's folder.
        repo_id: The dataset's name.
        fps: Frames a second.
        asked: How many episodes were to be recorded.
        episodes: Those that were.
        discarded: How many takes were thrown away.
        total_episodes: How many the dataset holds, as read back.
        total_frames: How many frames it holds, as read back.
        seconds: How long the run took, on the clock on the wall.
        stopped_by: Why it stopped early (`SIGINT`, `SIGTERM`, ...), or None.
        warnings: What was not as it should be.
        problems: How the disk differs from what was recorded; empty when all is well.
    """

    root: Path
    repo_id: str
    fps: float
    asked: int
    episodes: tuple[EpisodeResult, ...]
    discarded: int
    total_episodes: int
    total_frames: int
    seconds: float
    stopped_by: str | None
    warnings: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the disk holds what was recorded, and as much was recorded as was asked for."""
        return not self.problems and len(self.episodes) == self.asked

    @property
    def frames(self) -> int:
        """Frames recorded in this run."""
        return sum(episode.frames for episode in self.episodes)

    @property
    def successes(self) -> int | None:
        """How many episodes of this run succeeded, or None where nothing judges."""
        judged = [episode.success for episode in self.episodes if episode.success is not None]
        return sum(judged) if judged else None

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        plain = asdict(self)
        plain["root"] = str(self.root)
        return plain | {"frames": self.frames, "successes": self.successes, "ok": self.ok}


@dataclass(frozen=True)
class ReadBack:
    """What the disk says.

    Attributes:
        total_episodes: Episodes in the dataset.
        total_frames: Frames in the dataset.
        problems: How it differs from what was recorded.
    """

    total_episodes: int
    total_frames: int
    problems: tuple[str, ...]


def read_back(root: Path, episodes: Sequence[EpisodeResult], existing: int) -> ReadBack:
    """Open the dataset and hold it against what was recorded.

    Compared are the number of episodes, each episode's length and fields, and that the last frame of every episode of
    this run can be read with all its pictures.

    Args:
        root: The dataset's folder.
        episodes: The episodes of this run.
        existing: How many episodes the dataset held before.
    """
    import rolltape.read

    if existing + len(episodes) == 0 and not (root / INFO_PATH).exists():
        return ReadBack(0, 0, ())
    problems: list[str] = []
    try:
        dataset = rolltape.read.open(root)
    except (RolltapeError, OSError) as error:
        return ReadBack(0, 0, (f"The dataset cannot be opened: {error}",))
    expected = existing + len(episodes)
    if dataset.num_episodes != expected:
        problems.append(f"The dataset holds {dataset.num_episodes} episodes where {expected} were recorded.")
    for result in episodes:
        if result.episode < dataset.num_episodes:
            problems += _differences(dataset, result)
    return ReadBack(dataset.num_episodes, dataset.num_frames, tuple(problems))


def _differences(dataset: Any, result: EpisodeResult) -> list[str]:
    name = f"Episode {result.episode}"
    view = dataset.episode(result.episode)
    if len(view) != result.frames:
        return [f"{name} has {len(view)} frames where {result.frames} were recorded."]
    problems = [
        f"{name} has {field} = {view.fields.get(field)!r} where {value!r} was recorded."
        for field, value in result.fields.items()
        if view.fields.get(field) != value
    ]
    try:
        view[len(view) - 1]
    except (RolltapeError, OSError) as error:
        problems.append(f"The last frame of episode {result.episode} cannot be read: {error}")
    return problems
