"""How much each measure does: `FULL` for figures, `SMOKE` to see that everything runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Counts of everything."""

    repeats: int
    frames: int
    """frames of an episode with 640x480 cameras"""
    episodes: int
    paced_frames: int
    table_episodes: int
    commit_episodes: int
    commit_frames: int
    short_episodes: int
    short_frames: int
    items: int
    batches: int
    loader_batches: int
    imports: int


FULL = Sizes(
    repeats=5,
    frames=150,
    episodes=2,
    paced_frames=150,
    table_episodes=40,
    commit_episodes=300,
    commit_frames=20,
    short_episodes=2_000,
    short_frames=10,
    items=200,
    batches=12,
    loader_batches=18,
    imports=5,
)
SMOKE = Sizes(
    repeats=1,
    frames=40,
    episodes=1,
    paced_frames=40,
    table_episodes=8,
    commit_episodes=96,
    commit_frames=4,
    short_episodes=60,
    short_frames=4,
    items=20,
    batches=3,
    loader_batches=2,
    imports=1,
)
