"""Open a dataset and take batches: stacked numpy arrays, each group of pictures decoded once."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from small_dataset import write_small_dataset

import rolltape

root = write_small_dataset(Path(tempfile.mkdtemp()) / "ball")

dataset = rolltape.open(root)
print(dataset)

item = dataset[-1]
print("one frame:", item["observation.state"], item["task"], item["observation.images.front"].shape)

order = np.random.default_rng(0).permutation(len(dataset))
for number, start in enumerate(range(0, len(order), 32)):
    batch = dataset.batch(order[start : start + 32])
    print(f"batch {number}:", batch["observation.images.front"].shape, batch["action"].shape)

small = rolltape.open(root, dtype="float32", layout="HWC", resize=(32, 32), columns=["action"])
print("as you like it:", {name: np.shape(small[0][name]) for name in ("action", "observation.images.front")})

episode = dataset.episode(1)
print("an episode:", len(episode), "frames,", episode.seconds, "s,", episode.batch()["action"].shape)

table = dataset.table()
print("as an Arrow table:", table.num_rows, "rows,", table.column_names)
