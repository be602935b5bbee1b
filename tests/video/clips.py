"""Small videos for the tests of this folder: made by PyAV alone, or with boxes rearranged by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Pictures = npt.NDArray[np.uint8]

B_FRAMES = {"g": "12", "bf": "3", "b_strategy": "0", "crf": "23"}


def pictures(count: int, width: int = 96, height: int = 64, seed: int = 0) -> Pictures:
    """Moving texture with a grey level per frame, uint8 [count, height, width, 3]."""
    rng = np.random.default_rng(seed)
    base = np.kron(rng.integers(0, 160, (16, 24, 3), dtype=np.uint8), np.ones((8, 8, 1), np.uint8))
    base = np.tile(base, (1 + height // 64, 2 + width // 96, 1))
    frames = []
    for k in range(count):
        moved = np.roll(base, (k, 2 * k), (0, 1))[:height, :width].astype(np.int16)
        frames.append(np.clip(moved + 10 + (17 * k) % 80, 0, 255).astype(np.uint8))
    return np.stack(frames)


def write_video(
    path: Path,
    frames: Pictures,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    *,
    pix_fmt: str = "yuv420p",
    fps: Fraction | int = 30,
    audio: bool = False,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Write an MP4 with PyAV only."""
    with av.open(str(path), "w", format="mp4", options=container_options or {}) as container:
        sound = container.add_stream("aac", rate=48000) if audio else None
        stream = container.add_stream(codec, fps, options=options or {})
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], pix_fmt
        if sound is not None:
            assert isinstance(sound, av.AudioStream)
            wave = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), "fltp", "mono")
            wave.sample_rate, wave.pts = 48000, 0
            container.mux(sound.encode(wave))
        for k, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = k, 1 / Fraction(fps)
            for packet in stream.encode(frame):
                packet.duration = 1
                container.mux(packet)
        for packet in stream.encode(None):
            packet.duration = 1
            container.mux(packet)
        if sound is not None:
            container.mux(sound.encode(None))
    return path


def decode_all(path: Path) -> list[Pictures]:
    """Every picture of a file, front to back, by PyAV's demuxer and default conversion, uint8 [H, W, 3]."""
    with av.open(str(path)) as container:
        return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in container.decode(video=0)]


def box(name: str, *parts: bytes) -> bytes:
    """One box."""
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), name.encode()) + body


def split_boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and body of each box in a row."""
    at = 0
    while at + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1:
            size, head = struct.unpack_from(">Q", data, at + 8)[0], 16
        size = size or len(data) - at
        yield name.decode("latin-1"), data[at + head : at + size]
        at += size


CONTAINERS = {"moov", "trak", "mdia", "minf", "stbl", "edts"}


def rewrite(data: bytes, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """The boxes again; `change(path, body)` gives a box's new bytes, header and all (b"" drops it); None keeps it."""

    def walk(span: bytes, path: str) -> bytes:
        out = []
        for name, body in split_boxes(span):
            here = f"{path}/{name}".lstrip("/")
            new = change(here, body)
            if new is None:
                new = box(name, walk(body, here) if name in CONTAINERS else body)
            out.append(new)
        return b"".join(out)

    return walk(data, "")


def table(body: bytes, dtype: str = ">u4") -> npt.NDArray[Any]:
    """The entries of a full box with a count."""
    return np.frombuffer(body, dtype, offset=8)


def shift_chunks(data: bytes, by: int, name: str = "stco") -> bytes:
    """Chunk offsets moved, as `stco` or `co64`."""

    def change(path: str, body: bytes) -> bytes | None:
        if not path.endswith("stbl/stco"):
            return None
        places = table(body).astype(np.int64) + by
        return box(
            name, bytes(4), struct.pack(">I", len(places)), places.astype(">u8" if name == "co64" else ">u4").tobytes()
        )

    return rewrite(data, change)
