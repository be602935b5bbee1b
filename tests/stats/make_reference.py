"""Write `reference.json`: what lerobot 0.6.1 computes for `reference_inputs`. Run it with that environment's Python.

`as_is` is its answer for the values in their own dtype. `double` is its answer when the same values are given as
float64, so that its rounding does not blur the comparison.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.datasets import compute_stats

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from stats.reference_inputs import columns, pictures  # noqa: E402


def plain(stats: dict[str, Any]) -> dict[str, Any]:
    return {key: np.asarray(value, np.int64 if key == "count" else np.float64).tolist() for key, value in stats.items()}


def of_column(values: Any) -> dict[str, Any]:
    if values.shape[1:] == (1,):
        values = values[:, 0]
    return plain(compute_stats.get_feature_stats(values, axis=0, keepdims=values.ndim == 1))


def of_pictures(frames: Any, is_depth: bool, dtype: Any) -> dict[str, Any]:
    picked = compute_stats.sample_indices(len(frames))
    chw = [frames[i][None] if is_depth else frames[i].transpose(2, 0, 1) for i in picked]
    stack = np.stack([compute_stats.auto_downsample_height_width(one) for one in chw]).astype(dtype)
    stats = compute_stats.get_feature_stats(stack, axis=(0, 2, 3), keepdims=True)
    scale = 1.0 if is_depth else 255.0
    return plain({key: value if key == "count" else np.squeeze(value / scale, axis=0) for key, value in stats.items()})


def main() -> None:
    found: dict[str, Any] = {"columns": {}, "pictures": {}}
    for name, (_, values) in columns().items():
        found["columns"][name] = {"as_is": of_column(values), "double": of_column(values.astype(np.float64))}
    for name, (is_depth, frames) in pictures().items():
        answers = {
            "as_is": of_pictures(frames, is_depth, frames.dtype),
            "double": of_pictures(frames, is_depth, np.float64),
        }
        found["pictures"][name] = answers
    found["sample_indices"] = {
        str(n): compute_stats.sample_indices(n) for n in (1, 2, 3, 10, 99, 100, 101, 463, 464, 465, 500, 1000, 5000)
    }
    (HERE / "reference.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
