"""Writes the small dataset that some examples read: 3 episodes of a ball that crosses a 64x64 picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rolltape

FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "observation.images.front": {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
}


def picture(x: float, y: float) -> np.ndarray:
    """Draw a ball: uint8 [64, 64, 3]."""
    rows, columns = np.mgrid[0:64, 0:64]
    ball = (rows - 8 - 48 * y) ** 2 + (columns - 8 - 48 * x) ** 2 < 36
    image = np.full((64, 64, 3), (40, 60, 90), np.uint8)
    image[ball] = (250, 180, 60)
    return image


def write_small_dataset(root: Path, episodes: int = 3, frames: int = 40) -> Path:
    with rolltape.Writer.create(root, fps=20, features=FEATURES) as writer:
        for episode in range(episodes):
            for frame in range(frames):
                now = np.array([frame / frames, (episode + 1) / 4], np.float32)
                then = np.array([(frame + 1) / frames, (episode + 1) / 4], np.float32)
                row = {"observation.state": now, "action": then, "observation.images.front": picture(*now)}
                writer.add_frame(row, task="cross the picture")
            writer.save_episode()
    return root
