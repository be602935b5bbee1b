"""The real lerobot behind a pipe: runs in the reference's own environment and never imports rolltape.

Started once for a test session (importing lerobot takes seconds). Reads pickled `(command, arguments)` from standard
input and answers `("ok", value)` or `("error", type, message, traceback)`; what libraries print goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.configs import DepthEncoderConfig, RGBEncoderConfig
from lerobot.datasets.compute_stats import (
    aggregate_stats,
    auto_downsample_height_width,
    get_feature_stats,
    sample_indices,
)
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.video_utils import get_safe_default_video_backend

from oracle.items import plain
from oracle.recipes import RECIPES

REPO = "oracle/check"


class Worker:
    """Commands, one method each; open datasets are kept under a number until `close`."""

    def __init__(self) -> None:
        self.opened: dict[int, LeRobotDataset] = {}
        self.recordings: dict[int, tuple[LeRobotDataset, str]] = {}
        self.serial = 0

    def facts(self) -> dict[str, str]:
        """Versions of this side."""

        found = {name: version(name) for name in ("lerobot", "av", "torch", "torchcodec", "datasets")}
        return {**found, "python": sys.version.split()[0], "backend": str(get_safe_default_video_backend())}

    def open(self, root: str, **options: Any) -> dict[str, Any]:
        """Open for reading; the constructor's own seconds are part of the answer."""
        begin = time.perf_counter()
        dataset = LeRobotDataset(REPO, root=root, **options)
        seconds = time.perf_counter() - begin
        self.serial += 1
        self.opened[self.serial] = dataset
        meta = dataset.meta
        return {
            "handle": self.serial,
            "seconds": seconds,
            "len": len(dataset),
            "num_episodes": dataset.num_episodes,
            "num_frames": dataset.num_frames,
            "total_episodes": meta.total_episodes,
            "total_frames": meta.total_frames,
            "total_tasks": meta.total_tasks,
            "rows": len(dataset.hf_dataset),
            "fps": meta.fps,
            "features": plain({key: dict(value) for key, value in meta.features.items()}),
            "camera_keys": list(meta.camera_keys),
            "depth_keys": list(meta.depth_keys),
            "tasks": {str(text): int(index) for text, index in meta.tasks["task_index"].items()},
            "stats": plain(meta.stats),
            "episodes": [dict(meta.episodes[n]) for n in range(len(meta.episodes))],
        }

    def close(self, handle: int) -> None:
        """Forget an open dataset."""
        del self.opened[handle]

    def items(self, handle: int, indices: list[int] | None = None) -> list[Any]:
        """`dataset[i]` for each index, all by default."""
        dataset = self.opened[handle]
        return [plain(dataset[index]) for index in (range(len(dataset)) if indices is None else indices)]

    def slice(self, handle: int, start: int | None, stop: int | None) -> Any:
        """`dataset[start:stop]`."""
        return plain(self.opened[handle][start:stop])

    def batches(self, handle: int, batch_size: int, workers: int = 0) -> list[Any]:
        """Every batch of a DataLoader in storage order."""
        loader = torch.utils.data.DataLoader(
            self.opened[handle], batch_size=batch_size, shuffle=False, num_workers=workers
        )
        return [plain(batch) for batch in loader]

    def raw_items(self, handle: int, indices: list[int]) -> list[Any]:
        """`dataset.hf_dataset[i]` for each index."""
        table = self.opened[handle].hf_dataset
        return [plain(table[index]) for index in indices]

    def record(
        self,
        recipe: str,
        root: str,
        episodes: list[int],
        *,
        resume: bool = False,
        finalize: bool = True,
        **options: Any,
    ) -> int:
        """Record episodes of a recipe with the reference's writer; answers a number for `save` and `finalize`."""
        plan = RECIPES[recipe]
        encoders = {"rgb_encoder": RGBEncoderConfig(**plan.rgb), "depth_encoder": DepthEncoderConfig(**plan.depth)}
        if resume:
            dataset = LeRobotDataset.resume(REPO, root=root, **encoders, **options)
        else:
            features = {key: {**value, "shape": tuple(value["shape"])} for key, value in plan.features.items()}
            dataset = LeRobotDataset.create(
                REPO, plan.fps, features, root=root, use_videos=plan.use_videos, **encoders, **options
            )
        self.serial += 1
        self.recordings[self.serial] = (dataset, recipe)
        self.save(self.serial, episodes)
        if finalize:
            self.finalize(self.serial)
        return self.serial

    def save(self, handle: int, episodes: list[int]) -> None:
        """Record more episodes into an open recording."""
        dataset, recipe = self.recordings[handle]
        for episode in episodes:
            for frame in RECIPES[recipe].episode(episode):
                dataset.add_frame(frame)
            dataset.save_episode()

    def finalize(self, handle: int) -> None:
        """End a recording."""
        dataset, _ = self.recordings.pop(handle)
        dataset.finalize()

    def append(self, root: str, frames: list[dict[str, Any]], rgb: dict[str, Any]) -> None:
        """Resume a dataset, record one episode of given frames, and end the recording."""
        dataset = LeRobotDataset.resume(REPO, root=root, rgb_encoder=RGBEncoderConfig(**rgb))
        for frame in frames:
            dataset.add_frame(frame)
        dataset.save_episode()
        dataset.finalize()

    def definition(self, recipe: str, episode: int) -> Any:
        """The reference's statistics of an episode's frames, computed in float64.

        Its writer hands float32 sums of all pixels to the same functions, which costs it about four digits.
        """
        plan = RECIPES[recipe]
        frames = list(plan.episode(episode))
        found = {}
        for name, feature in plan.features.items():
            if feature["dtype"] in ("string", "language"):
                continue
            values = np.stack([frame[name] for frame in frames])
            if name not in plan.cameras:
                column = values.reshape(len(frames)) if tuple(feature["shape"]) == (1,) else values
                found[name] = get_feature_stats(column.astype(np.float64), axis=0, keepdims=column.ndim == 1)
                continue
            chosen = values[sample_indices(len(frames))].transpose(0, 3, 1, 2)
            thinned = np.stack([auto_downsample_height_width(picture) for picture in chosen]).astype(np.float64)
            stats = get_feature_stats(thinned, axis=(0, 2, 3), keepdims=True)
            divisor = 255.0 if feature["shape"][2] == 3 else 1.0
            found[name] = {
                stat: value if stat == "count" else np.squeeze(value, axis=0) / divisor for stat, value in stats.items()
            }
        return found

    def aggregate(self, stats: list[dict[str, dict[str, np.ndarray]]]) -> Any:
        """The reference's merge of several episodes' statistics."""
        return aggregate_stats(stats)


def main() -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker()
    assert "rolltape" not in sys.modules
    while True:
        try:
            command, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        call: Callable[..., Any] = getattr(worker, command)
        answer: tuple[Any, ...]
        try:
            answer = ("ok", call(**arguments))
        except Exception as error:
            answer = ("error", type(error).__name__, str(error), traceback.format_exc())
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    Path(os.environ["HF_HOME"]).mkdir(parents=True, exist_ok=True)
    main()
