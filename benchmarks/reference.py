"""The reference's side: the real lerobot in its own environment. `python -m benchmarks.reference` there."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import datasets
from lerobot.configs import RGBEncoderConfig
from lerobot.datasets import video_utils
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from benchmarks import encoder, machine, workload
from benchmarks.short import short_frames
from benchmarks.side import serve

REPO = "bench/rolltape"


class LeRobotSink:
    """lerobot's writer as a `workload.Sink`."""

    def __init__(self, dataset: LeRobotDataset) -> None:
        self.dataset = dataset

    def add(self, frame: dict[str, Any]) -> None:
        """Take one frame."""
        self.dataset.add_frame(frame)

    def save(self) -> None:
        """End the episode."""
        self.dataset.save_episode()

    def close(self) -> None:
        """Finish the dataset."""
        self.dataset.finalize()

    def dropped(self) -> int:
        """Frames that the streaming encoder threw away in this episode."""
        streaming = self.dataset.writer._streaming_encoder
        return sum(streaming._dropped_frames.values()) if streaming is not None else 0


class Commands:
    """What the driver may ask of lerobot."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.reads = 0
        self.opened: dict[str, LeRobotDataset] = {}

    def versions(self) -> dict[str, str]:
        """Versions of this environment."""
        return machine.versions()

    def load(self, scene: str, count: int) -> None:
        """Hold frames in memory."""
        self.frames = workload.frames_of(Path(scene), count)

    def unload(self) -> None:
        """Let the frames go."""
        self.frames = []

    def encoder(self, folder: str) -> dict[str, float]:
        """The encoder alone."""
        return encoder.encoder_alone(self.frames, Path(folder))

    def record(
        self,
        root: str,
        episodes: int,
        *,
        streaming: bool,
        pace: float = 0.0,
        queue: int = 10_000,
        writer_threads: int = 0,
    ) -> dict[str, Any]:
        """Record both cameras; `queue` frames may wait for each streaming encoder before it drops them."""
        shutil.rmtree(root, ignore_errors=True)
        height, width = self.frames[0][workload.CAMERAS[0]].shape[:2]
        dataset = LeRobotDataset.create(
            REPO,
            30,
            workload.features(height, width, 14),
            root=root,
            rgb_encoder=RGBEncoderConfig(),
            streaming_encoding=streaming,
            encoder_queue_maxsize=queue,
            image_writer_threads=writer_threads,
        )
        return workload.record(LeRobotSink(dataset), self.frames, episodes, pace=pace)

    def record_tables(self, root: str, episodes: int, frames: int) -> dict[str, Any]:
        """Record without cameras."""
        shutil.rmtree(root, ignore_errors=True)
        dataset = LeRobotDataset.create(REPO, 30, workload.features(1, 1, 14, cameras=0), root=root, use_videos=False)
        return workload.record(LeRobotSink(dataset), workload.table_frames(frames), episodes)

    def record_short(self, root: str, episodes: int, frames: int, size: int) -> dict[str, Any]:
        """Many short episodes of one tiny camera."""
        shutil.rmtree(root, ignore_errors=True)
        dataset = LeRobotDataset.create(
            REPO,
            30,
            workload.features(size, size, 14, cameras=1),
            root=root,
            rgb_encoder=RGBEncoderConfig(vcodec="h264"),
            streaming_encoding=True,
        )
        return workload.record(LeRobotSink(dataset), short_frames(self.frames, frames, size), episodes)

    def open(self, root: str, *, cold: bool) -> float:
        """Seconds of `LeRobotDataset(root)`; cold: with its Arrow cache emptied first."""
        if cold:
            shutil.rmtree(datasets.config.HF_DATASETS_CACHE, ignore_errors=True)
        begin = time.perf_counter()
        dataset = LeRobotDataset(REPO, root=root)
        seconds = time.perf_counter() - begin
        assert len(dataset) > 0
        return seconds

    def items(self, root: str, count: int, *, uint8: bool) -> float:
        """Random `dataset[i]` a second."""
        dataset = self._dataset(root, uint8)
        return workload.items_per_second(dataset.__getitem__, len(dataset), count, self._seed())

    def loader(self, root: str, batch: int, count: int, workers: int, *, uint8: bool) -> float:
        """Items a second of a DataLoader; its global decoders are dropped first, forked workers cannot share them."""
        video_utils._default_decoder_cache.clear()
        dataset = LeRobotDataset(REPO, root=root, return_uint8=uint8)
        return workload.loader_per_second(dataset, batch, count, workers)

    def _seed(self) -> int:
        """Another order for every reading, the same on both sides."""
        self.reads += 1
        return self.reads

    def _dataset(self, root: str, uint8: bool) -> LeRobotDataset:
        key = f"{root} {uint8}"
        if key not in self.opened:
            self.opened[key] = LeRobotDataset(REPO, root=root, return_uint8=uint8)
        return self.opened[key]


if __name__ == "__main__":
    serve(Commands())
