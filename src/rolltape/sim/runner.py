"""Driving a robot through an episode, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rolltape.errors import UsageError
from rolltape.sim.policy import Policy
from rolltape.sim.robot import MujocoRobot

__all__ = ["Tick", "rollout"]


@dataclass(frozen=True)
class Tick:
    """One tick of an episode: what was observed at its time, and the action that was set at that time.

    Attributes:
        number: Counted from 0 in the episode.
        seconds: Simulated seconds since the reset, number / fps.
        observation: As `MujocoRobot.observe` gives it.
        action: float32 [actuators], in force from this time until the next tick.
    """

    number: int
    seconds: float
    observation: dict[str, np.ndarray]
    action: np.ndarray


def rollout(
    robot: MujocoRobot, policy: Policy, *, episode: int = 0, attempt: int = 0, max_ticks: int | None = None
) -> Iterator[Tick]:
    """Yield the ticks of one episode, beginning with its reset.

    When the iterator ends, `robot.success()` judges the episode.

    Args:
        robot: The robot.
        policy: What drives it; the episode ends when it gives None.
        episode: The episode's number, which with the robot's seed decides the start.
        attempt: How often this episode was begun before.
        max_ticks: The most ticks; no limit when left out.

    Raises:
        UsageError: The policy gives no proper action.

    Example:
        >>> with MujocoRobot(cameras={}) as robot:
        ...     [tick.number for tick in rollout(robot, lambda observation: [0] * 7, max_ticks=3)]
        [0, 1, 2]
    """
    if max_ticks is not None and max_ticks < 1:
        raise UsageError("An episode needs at least one tick.", expected="max_ticks of 1 or more", found=max_ticks)
    robot.reset(episode, attempt)
    reset = getattr(policy, "reset", None)
    if callable(reset):
        reset(episode)
    number = 0
    while max_ticks is None or number < max_ticks:
        observation = robot.observe()
        action = policy(observation)
        if action is None:
            return
        sent = robot.act(action)
        yield Tick(number, number / float(robot.fps), observation, sent)
        robot.advance()
        number += 1
