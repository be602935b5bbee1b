"""What you know of an episode stays with it: declared fields, later ones, and choosing episodes by them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import rolltape

features = {"action": {"dtype": "float32", "shape": (1,), "names": ["push"]}}
root = Path(tempfile.mkdtemp()) / "pushes"

with rolltape.Writer.create(root, 10, features, episode_fields={"operator": "string", "success": "bool"}) as writer:
    for operator, success, frames in (("ann", True, 30), ("ben", False, 12), ("ann", True, 8)):
        for frame in range(frames):
            writer.add_frame({"action": np.array([frame], np.float32)}, task="push")
        writer.save_episode(fields={"operator": operator, "success": success})

with rolltape.Writer.resume(root) as writer:
    writer.add_frame({"action": np.array([1], np.float32)}, task="push")
    writer.save_episode(fields={"operator": "cleo", "success": True, "weather": "rain"})

dataset = rolltape.open(root)
for number in dataset.episodes:
    print(number, dataset.episode(number).fields)

print("successful and long:", dataset.select(where="success and length > 10").episodes)
print("ann's:", rolltape.open(root, where="operator == 'ann'").episodes)
