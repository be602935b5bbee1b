"""LeRobotDataset, unchanged but for the import: writing, reading, a DataLoader. Reading items needs torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from rolltape import LeRobotDataset

features = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "observation.images.front": {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
}
root = Path(tempfile.mkdtemp()) / "set"

dataset = LeRobotDataset.create(repo_id="me/set", fps=10, features=features, root=root)
for episode in range(2):
    for frame in range(20):
        dataset.add_frame(
            {
                "observation.state": np.array([episode, frame], np.float32),
                "action": np.array([frame, -frame], np.float32),
                "observation.images.front": np.full((64, 64, 3), 10 * frame, np.uint8),
                "task": "count",
            }
        )
    dataset.save_episode()
dataset.finalize()

windows = {"action": [0.0, 0.1, 0.2], "observation.images.front": [-0.1, 0.0]}
dataset = LeRobotDataset("me/set", root=root, delta_timestamps=windows)
print(dataset.num_episodes, "episodes,", dataset.num_frames, "frames,", dataset.fps, "Hz,", dataset.meta.camera_keys)

item = dataset[25]
print(item["action"].shape, item["action"].dtype, item["observation.images.front"].shape, item["task"])

loader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
batch = next(iter(loader))
print(batch["observation.images.front"].shape, batch["action"].shape, batch["action_is_pad"].shape)
