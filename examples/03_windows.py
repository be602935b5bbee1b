"""Windows over time: pictures and states before, actions ahead, and masks where an episode has no such frame."""

from __future__ import annotations

import tempfile
from pathlib import Path

from small_dataset import write_small_dataset

import rolltape

root = write_small_dataset(Path(tempfile.mkdtemp()) / "ball")
step = 1 / 20

dataset = rolltape.open(
    root,
    delta_timestamps={
        "observation.images.front": [-2 * step, -step, 0.0],
        "observation.state": [-step, 0.0],
        "action": [k * step for k in range(8)],
    },
)

item = dataset[20]
print("pictures", item["observation.images.front"].shape, "states", item["observation.state"].shape)
print("actions ahead:", item["action"][:, 0].round(3).tolist())

first = dataset[0]
print("at the start there is nothing before:", first["observation.state_is_pad"].tolist())
last = dataset[39]
print("at the end of an episode nothing follows:", last["action_is_pad"].tolist())
print("its last action is repeated there:", last["action"][:, 0].tolist())

batch = dataset.batch(range(0, 40, 10))
print("a batch:", {name: batch[name].shape for name in ("observation.images.front", "action", "action_is_pad")})
