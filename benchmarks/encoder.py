"""The encoder alone, on either side: what PyAV and SVT-AV1 of that side reach with no dataset around them."""

from __future__ import annotations

import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.workload import CAMERAS


def encoder_alone(frames: list[dict[str, Any]], folder: Path) -> dict[str, float]:
    """Frames of both cameras a second; SVT-AV1 preset 12, g=2, crf 30 as the reference has it, a thread a camera."""
    folder.mkdir(parents=True, exist_ok=True)
    threads = [
        threading.Thread(target=_encode, args=([frame[name] for frame in frames], folder / f"{name}.mp4"))
        for name in CAMERAS
    ]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    size = sum((folder / f"{name}.mp4").stat().st_size for name in CAMERAS)
    return {"fps": len(frames) / seconds, "bytes_per_frame": size / len(frames)}


def _encode(pictures: list[np.ndarray], path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libsvtav1", 30, {"g": "2", "crf": "30", "preset": "12"})
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.time_base = Fraction(1, 30)
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
