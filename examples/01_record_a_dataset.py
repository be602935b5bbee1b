"""Record a dataset: describe the features, add frames, save episodes.

An episode is on the disk, and readable by everyone, when `save_episode` returns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import rolltape

features = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "observation.images.front": {"dtype": "video", "shape": (48, 64, 3), "names": ["height", "width", "channels"]},
}
random = np.random.default_rng(0)
root = Path(tempfile.mkdtemp()) / "circle"

with rolltape.Writer.create(root, fps=30, features=features, robot_type="pen") as writer:
    for episode in range(3):
        for frame in range(45):
            angle = 2 * np.pi * frame / 45
            state = np.array([np.cos(angle), np.sin(angle)], np.float32)
            image = np.full((48, 64, 3), 40 * (episode + 1), np.uint8)
            image[int(24 + 20 * state[1]), int(32 + 28 * state[0])] = 255
            action = state + random.normal(0, 0.01, 2).astype(np.float32)
            row = {"observation.state": state, "action": action, "observation.images.front": image}
            writer.add_frame(row, task="draw a circle")
        writer.save_episode()
        print(f"episode {episode} saved; a reader sees {rolltape.open(root).num_episodes}")

print(f"{writer.total_episodes} episodes, {writer.total_frames} frames in {root}")
