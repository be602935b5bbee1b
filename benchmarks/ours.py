"""rolltape's side: `python -m benchmarks.ours`."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import rolltape
from benchmarks import encoder, machine, workload
from benchmarks.short import short_frames, square_frames
from benchmarks.side import serve

REPO = "bench/rolltape"


class WriterSink:
    """`rolltape.Writer` as a `workload.Sink`."""

    def __init__(self, writer: rolltape.Writer) -> None:
        self.writer = writer

    def add(self, frame: dict[str, Any]) -> None:
        """Take one frame."""
        self.writer.add_frame(frame, task=frame.pop("task"))

    def save(self) -> None:
        """Commit the episode, durable when it returns (unless grouped)."""
        self.writer.save_episode()

    def close(self) -> None:
        """Pack and finish."""
        self.writer.close()

    def dropped(self) -> int:
        """There is no way to drop a frame: a commit compares rows and pictures."""
        return 0


class Commands:
    """What the driver may ask of rolltape."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.reads = 0
        self.opened: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Versions of this environment."""
        return {"rolltape": rolltape.__version__, **machine.versions()}

    def load(self, scene: str, count: int) -> None:
        """Hold frames in memory."""
        self.frames = workload.frames_of(Path(scene), count)

    def unload(self) -> None:
        """Let the frames go."""
        self.frames = []

    def encoder(self, folder: str) -> dict[str, float]:
        """The encoder alone."""
        return encoder.encoder_alone(self.frames, Path(folder))

    def record(self, root: str, episodes: int, *, pace: float = 0.0) -> dict[str, Any]:
        """Record both cameras with durable commits; checks afterwards that every frame is there."""
        shutil.rmtree(root, ignore_errors=True)
        height, width = self.frames[0][workload.CAMERAS[0]].shape[:2]
        writer = rolltape.Writer.create(
            root, 30, workload.features(height, width, 14), rgb_encoder=rolltape.RGBEncoderConfig()
        )
        found = workload.record(WriterSink(writer), self.frames, episodes, pace=pace)
        found["dropped"] = episodes * len(self.frames) - _readable_frames(root)
        return found

    def record_tables(self, root: str, episodes: int, frames: int, commit_every: int = 1) -> dict[str, Any]:
        """Record without cameras."""
        shutil.rmtree(root, ignore_errors=True)
        features = workload.features(1, 1, 14, cameras=0)
        writer = rolltape.Writer.create(root, 30, features, commit_every=commit_every)
        return workload.record(WriterSink(writer), workload.table_frames(frames), episodes)

    def record_short(self, root: str, episodes: int, frames: int, size: int) -> dict[str, Any]:
        """Many short episodes of one tiny camera, a durable commit each."""
        shutil.rmtree(root, ignore_errors=True)
        writer = rolltape.Writer.create(
            root,
            30,
            workload.features(size, size, 14, cameras=1),
            rgb_encoder=rolltape.RGBEncoderConfig(vcodec="h264"),
        )
        return workload.record(WriterSink(writer), short_frames(self.frames, frames, size), episodes)

    def commits(self, root: str, episodes: int, frames: int, size: int) -> dict[str, Any]:
        """Seconds and bytes written of each `save_episode`, and the number of the data file it went to."""
        shutil.rmtree(root, ignore_errors=True)
        taken = square_frames(self.frames, frames, size)
        seconds, written, files = [], [], []
        with rolltape.Writer.create(root, 30, workload.features(size, size, 14)) as writer:
            for _ in range(episodes):
                for frame in taken:
                    writer.add_frame(frame, task=workload.TASK)
                before_bytes, before = workload.written_bytes(), time.perf_counter()
                writer.save_episode()
                seconds.append(time.perf_counter() - before)
                written.append(workload.written_bytes() - before_bytes)
                files.append(len(list((Path(root) / "data").glob("*/*.parquet"))))
        return {"seconds": seconds, "bytes": written, "files": files}

    def open(self, root: str) -> float:
        """Seconds of `rolltape.open(root)`, tables not yet read."""
        begin = time.perf_counter()
        dataset = rolltape.open(root)
        seconds = time.perf_counter() - begin
        assert len(dataset) > 0
        return seconds

    def items(self, root: str, count: int, *, uint8: bool, drop_in: bool) -> float:
        """Random single items a second, by the drop-in class (torch) or `rolltape.open` (numpy)."""
        dataset = self._dataset(root, uint8, drop_in)
        return workload.items_per_second(dataset.__getitem__, len(dataset), count, self._seed())

    def batches(self, root: str, batch: int, count: int, *, uint8: bool) -> float:
        """Items a second of `dataset.batch`."""
        dataset = self._dataset(root, uint8, False)
        return workload.batches_per_second(dataset.batch, len(dataset), batch, count, self._seed())

    def loader(self, root: str, batch: int, count: int, workers: int, *, uint8: bool) -> float:
        """Items a second of a DataLoader over the drop-in class."""
        dataset = rolltape.LeRobotDataset(REPO, root=root, return_uint8=uint8)
        return workload.loader_per_second(dataset, batch, count, workers)

    def _seed(self) -> int:
        """Another order for every reading, the same on both sides."""
        self.reads += 1
        return self.reads

    def _dataset(self, root: str, uint8: bool, drop_in: bool) -> Any:
        key = f"{root} {uint8} {drop_in}"
        if key not in self.opened:
            if drop_in:
                self.opened[key] = rolltape.LeRobotDataset(REPO, root=root, return_uint8=uint8)
            else:
                self.opened[key] = rolltape.open(root, dtype="uint8" if uint8 else "float32")
        return self.opened[key]


def _readable_frames(root: str) -> int:
    """Frames of the dataset whose pictures decode in every camera, counted by reading all."""
    dataset = rolltape.open(root)
    total = len(dataset)
    for start in range(0, total, 32):
        dataset.batch(range(start, min(start + 32, total)))
    return total


if __name__ == "__main__":
    serve(Commands())
