"""The loops that are timed, the same lines of Python for both sides.

A side supplies a `Sink` (record) or a reading function; everything that is measured happens here. Needs numpy only.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

CAMERAS = ("observation.images.front", "observation.images.wrist")
TASK = "stack the cups"


class Sink(Protocol):
    """A recording under way."""

    def add(self, frame: dict[str, Any]) -> None:
        """Take one frame, task included."""

    def save(self) -> None:
        """End the episode."""

    def close(self) -> None:
        """Finish the dataset."""

    def dropped(self) -> int:
        """Frames lost in the current episode, asked for before `save`."""


def features(height: int, width: int, joints: int, *, cameras: int = 2) -> dict[str, dict[str, Any]]:
    """State and action of `joints` floats, and cameras."""
    vector = {"dtype": "float32", "shape": (joints,), "names": [f"joint_{n}" for n in range(joints)]}
    picture = {"dtype": "video", "shape": (height, width, 3), "names": ["height", "width", "channels"]}
    return {"observation.state": vector, "action": vector, **{name: dict(picture) for name in CAMERAS[:cameras]}}


def frames_of(scene: Path, count: int) -> list[dict[str, Any]]:
    """The first `count` frames of a rendered scene, in memory."""
    with np.load(scene) as stored:
        pictures, joints = stored["pictures"], stored["joints"]
    return [
        {
            "observation.state": joints[number],
            "action": joints[number + 1],
            **{name: pictures[camera, number] for camera, name in enumerate(CAMERAS)},
        }
        for number in range(count)
    ]


def table_frames(count: int, joints: int = 14) -> list[dict[str, Any]]:
    """Frames without pictures."""
    values = np.random.default_rng(0).standard_normal((count + 1, joints)).astype(np.float32)
    return [{"observation.state": values[n], "action": values[n + 1]} for n in range(count)]


def record(sink: Sink, frames: Sequence[dict[str, Any]], episodes: int, *, pace: float = 0.0) -> dict[str, Any]:
    """Record the same frames `episodes` times, at `pace` frames a second or (0) as fast as it goes.

    Returns:
        `fps` over everything from the first frame to the end of `close`; the milliseconds of each `add` (median, 99th
        percentile, largest), the median seconds of `save`, and the frames dropped.
    """
    adds: list[float] = []
    saves: list[float] = []
    dropped = 0
    begin = time.perf_counter()
    for _ in range(episodes):
        start = time.perf_counter()
        for number, frame in enumerate(frames):
            if pace:
                time.sleep(max(0.0, start + number / pace - time.perf_counter()))
            fresh = {**frame, "task": TASK}
            before = time.perf_counter()
            sink.add(fresh)
            adds.append(time.perf_counter() - before)
        dropped += sink.dropped()
        before = time.perf_counter()
        sink.save()
        saves.append(time.perf_counter() - before)
    sink.close()
    seconds = time.perf_counter() - begin
    milliseconds = np.array(adds) * 1e3
    return {
        "fps": episodes * len(frames) / seconds,
        "seconds": seconds,
        "add_median_ms": float(np.median(milliseconds)),
        "add_p99_ms": float(np.percentile(milliseconds, 99)),
        "add_max_ms": float(milliseconds.max()),
        "save_median_s": float(np.median(saves)),
        "dropped": dropped,
    }


def items_per_second(read: Callable[[int], Any], total: int, count: int, seed: int) -> float:
    """Random single items a second."""
    order = np.random.default_rng(seed).permutation(total)[:count].tolist()
    read(order[0])
    begin = time.perf_counter()
    for index in order:
        read(index)
    return len(order) / (time.perf_counter() - begin)


def batches_per_second(read: Callable[[list[int]], Any], total: int, batch: int, count: int, seed: int) -> float:
    """Items a second in `count` batches of `batch` random frames."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(total)[:batch].tolist() for _ in range(count + 1)]
    read(orders[0])
    begin = time.perf_counter()
    for order in orders[1:]:
        read(order)
    return batch * count / (time.perf_counter() - begin)


def loader_per_second(dataset: Any, batch: int, count: int, workers: int) -> float:
    """Items a second of a shuffled torch DataLoader over `count` batches, the start of its workers included.

    Batches that workers prepare while the first one is waited for would flatter any other way of counting.
    """
    import torch

    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, num_workers=workers, drop_last=True)
    begin = time.perf_counter()
    done = sum(1 for _ in itertools.islice(loader, count))
    return batch * done / (time.perf_counter() - begin)


def written_bytes() -> int:
    """Bytes this process has passed to write calls so far (Linux; 0 elsewhere)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["wchar"])


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
