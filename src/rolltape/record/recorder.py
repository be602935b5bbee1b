"""A robot and a writer side by side: each step is a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rolltape.errors import EpisodeError
from rolltape.record.robots import Robot

__all__ = ["Recorder"]


class Recorder:
    """Drives a robot the way a simulation environment is driven, and records every step.

    Row k holds what was observed at t_k = k / fps and the action that was set at t_k; the next observation belongs to
    row k + 1.

    Args:
        robot: The robot.
        writer: An open `Writer` with the robot's features.
        task: What the robot does, in words.
        auto_split: Whether a `reset` saves the steps before it as an episode. If not, a `reset` with unsaved steps is
            an error: they must be saved or thrown away first. So several roll-outs never become one episode.
        fields: Called when an episode is saved; gives its user fields.
        wait: Called before each observation; returns when its tick is due (`Cadence.tick`, for what runs in real time).
        wall_time: Whether rows hold `wall_time`, the seconds since 1970 at which they were observed.

    Example:
        >>> import tempfile, rolltape
        >>> from rolltape.sim import MujocoRobot
        >>> root = tempfile.mkdtemp() + "/set"
        >>> with MujocoRobot(cameras={}) as robot, rolltape.Writer.create(root, robot.fps, robot.features) as writer:
        ...     with Recorder(robot, writer, "hold still") as recorder:
        ...         for _ in range(3):
        ...             observation = recorder.reset()
        ...             for _ in range(10):
        ...                 observation = recorder.step(observation["observation.state"])
        >>> rolltape.open(root).num_episodes
        3
    """

    def __init__(
        self,
        robot: Robot,
        writer: Any,
        task: str,
        *,
        auto_split: bool = True,
        fields: Callable[[], Mapping[str, Any] | None] = lambda: None,
        wait: Callable[[], None] = lambda: None,
        wall_time: bool = False,
    ) -> None:
        self.robot, self.writer, self.task, self.auto_split = robot, writer, task, auto_split
        self._fields, self._wait, self._wall_time = fields, wait, wall_time
        self._seconds = 0.0
        self._observation: dict[str, np.ndarray] | None = None
        self._frames = 0

    @property
    def frames(self) -> int:
        """Steps since the last reset that are not saved."""
        return self._frames

    def reset(self, episode: int | None = None, attempt: int = 0) -> dict[str, np.ndarray]:
        """Begin an episode and return its first observation.

        Args:
            episode: The episode's number; the next one of the dataset when left out.
            attempt: How often this episode was begun before.

        Raises:
            EpisodeError: There are unsaved steps and `auto_split` is off.
        """
        if self._frames:
            if not self.auto_split:
                raise EpisodeError(
                    "A reset would join two roll-outs into one episode.",
                    found=f"{self._frames} steps that are not saved",
                    fix="Call save() or discard() before reset(), or use auto_split=True.",
                )
            self.save()
        self.robot.reset(self.writer.total_episodes if episode is None else episode, attempt)
        return self._observe()

    def step(self, action: Any) -> dict[str, np.ndarray]:
        """Record the present observation with an action, let one tick pass, and return the next observation.

        Raises:
            EpisodeError: There was no reset.
            FrameError: The row does not fit the dataset's features.
        """
        if self._observation is None:
            raise EpisodeError("A step needs a reset before it.", fix="Call reset() at the start of every episode.")
        sent = self.robot.act(action)
        row = {**self._observation, "action": sent}
        if self._wall_time:
            row["wall_time"] = np.array([self._seconds])
        self.writer.add_frame(row, task=self.task)
        self._frames += 1
        self.robot.advance()
        return self._observe()

    def _observe(self) -> dict[str, np.ndarray]:
        self._wait()
        self._seconds = time.time()
        self._observation = self.robot.observe()
        return self._observation

    def save(self, fields: Mapping[str, Any] | None = None) -> None:
        """Save the steps as an episode; it is on the disk when this returns.

        Args:
            fields: User fields of this episode; what `fields` of the constructor gives when left out.

        Raises:
            EpisodeError: There is no step.
        """
        if not self._frames:
            raise EpisodeError("An episode needs at least one step.", fix="Call step() before save(), or do not save.")
        self.writer.save_episode(fields=dict((self._fields() if fields is None else fields) or {}))
        self._frames, self._observation = 0, None

    def discard(self) -> int:
        """Throw the unsaved steps away and return how many they were."""
        frames, self._frames, self._observation = self._frames, 0, None
        self.writer.discard_episode()
        return frames

    def close(self) -> None:
        """Save what is open where `auto_split` is on, and throw it away otherwise. Robot and writer stay open."""
        if not self._frames:
            return
        if self.auto_split:
            self.save()
        else:
            self.discard()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.close()
        elif self._frames and not self.writer.take_failed:  # such a take is left for recovery by the writer
            self.discard()
