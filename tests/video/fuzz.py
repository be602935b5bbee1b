"""Broken MP4 files, made from whole ones, for the box parser: `fuzz_boxes` for as long as one likes.

Whatever the bytes are, the answer is an index that is sane or a typed error that names the file, and the memory used
on the way is bounded by the number of bytes.
"""

from __future__ import annotations

import os
import random
import struct
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from rolltape.errors import RolltapeError
from rolltape.format import Rate
from rolltape.video import MediaIndex, build_index
from rolltape.video.packets import cut_points, whole_prefixes
from video.clips import B_FRAMES, box, pictures, split_boxes, write_video

__all__ = ["FuzzReport", "fuzz_boxes", "mutate", "originals", "try_index"]

BYTES_PER_BYTE, BYTES_MORE = 400, 1 << 20
"""Memory that the parser may use: so many bytes for each byte of the file, and so many more."""

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
LARGEST_GOLDEN = 8192
NESTED = ("moov", "trak", "mdia", "minf", "stbl", "edts", "mvex", "moof", "traf")
WILD = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 1 << 20)
RATE = Rate.parse(30)


@dataclass(frozen=True)
class FuzzReport:
    """What was tried: how many files, how many of them were read and refused, and the most memory for one of them."""

    tried: int
    read: int
    refused: int
    most_bytes: int


@cache
def originals() -> tuple[bytes, ...]:
    """Whole files: ordinary and fragmented ones made here, and the small ones of the golden datasets."""
    os.environ.setdefault("SVT_LOG", "1")
    av1 = {"g": "2", "preset": "12"}
    kinds = [
        ("libx264", B_FRAMES, True, {}),
        ("libx264", None, False, {"movflags": "faststart"}),
        ("libsvtav1", av1, False, {}),
        ("libx264", B_FRAMES, False, {"movflags": "empty_moov+default_base_moof", "frag_duration": "100000"}),
        ("libx264", B_FRAMES, True, {"movflags": "frag_keyframe+delay_moov+separate_moof"}),
        ("libx264", B_FRAMES, True, {"movflags": "frag_keyframe"}),
        ("libsvtav1", av1, False, {"movflags": "dash+frag_keyframe"}),
        ("libsvtav1", av1, True, {"movflags": "cmaf+frag_keyframe+omit_tfhd_offset"}),
    ]
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for codec, options, audio, container in kinds:
            path = write_video(
                Path(folder) / "a.mp4", pictures(9), codec, options, audio=audio, container_options=container
            )
            made.append(path.read_bytes())
    golden = [path.read_bytes() for path in sorted(GOLDEN.rglob("*.mp4")) if path.stat().st_size <= LARGEST_GOLDEN]
    return (*made, *golden)


def try_index(data: bytes, *, allow_cut: bool = False) -> MediaIndex | None:
    """The index, checked for sanity; None for a typed error. Anything else is a failure."""
    try:
        index = build_index(data, "fuzz.mp4", allow_cut=allow_cut)
    except RolltapeError as error:
        if "fuzz.mp4" not in str(error):
            raise AssertionError("the error does not name the file") from error
        return None
    n = len(index.offset)
    assert all(len(table) == n for table in (index.size, index.dts, index.pts, index.span, index.key))
    assert len(index.order) == len(index.ticks) == len(index.gop_start) == index.n <= n
    assert not n or (int(index.offset.min()) >= 0 and int((index.offset + index.size).max()) <= len(data))
    assert (np.diff(index.ticks) > 0).all()
    assert (index.gop_start >= -1).all()
    assert (index.gop_start <= index.order).all()
    assert set(cut_points(index).tolist()) <= set(range(n + 1))
    assert index.reorder_delay >= 0
    counts = whole_prefixes(index, RATE)
    assert (np.diff(counts) > 0).all()
    assert 0 <= counts[-1] <= n
    assert len(index.prefix(int(counts[-1])).pts) == counts[-1]
    return index


def spans(data: bytes) -> list[tuple[int, int]]:
    """Where the boxes lie that say something, the media left out; the whole where there are none (any more)."""
    found, at = [], 0
    while at + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        end = min(len(data), at + max(8, size))
        if name not in (b"mdat", b"free"):
            found.append((at, end))
        at = end
    return found or [(0, len(data))]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A whole file with a few things wrong."""
    if rng.random() < 0.3:
        data = _shuffle(data, rng, 0)
    if rng.random() < 0.6:
        data = _strewn(data, rng)
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data) + 1)] + bytes(rng.choice((0, 0, 5, 600)))
    return data or b"\0"


def _strewn(data: bytes, rng: random.Random) -> bytes:
    """Bits turned and numbers replaced, wherever boxes say something."""
    changed = bytearray(data)
    places = spans(data)
    for _ in range(rng.randint(1, 5)):
        start, end = rng.choice(places)
        if end - start < 16:
            continue
        at = rng.randrange(start, end - 8)
        how = rng.random()
        if how < 0.4:
            changed[at] ^= 1 << rng.randrange(8)
        elif how < 0.8:
            struct.pack_into(">I", changed, at, rng.choice(WILD))
        elif how < 0.9:
            struct.pack_into(">Q", changed, at, rng.choice((2**63, 2**64 - 1, 2**62, 2**40)))
        else:
            changed[at : at + 8] = bytes(8)
    return bytes(changed)


def _shuffle(data: bytes, rng: random.Random, depth: int) -> bytes:
    """The boxes dropped, doubled, renamed or in another order, here or further inside."""
    boxes = list(split_boxes(data))
    inner = [k for k, (name, _) in enumerate(boxes) if name in NESTED]
    if inner and rng.random() < 0.8 and depth < 6:
        k = rng.choice(inner)
        boxes[k] = (boxes[k][0], _shuffle(boxes[k][1], rng, depth + 1))
    elif boxes:
        k, how = rng.randrange(len(boxes)), rng.random()
        if how < 0.3:
            del boxes[k]
        elif how < 0.6:
            boxes.insert(rng.randrange(len(boxes) + 1), boxes[k])
        elif how < 0.8:
            boxes[k] = (rng.choice(boxes)[0], boxes[k][1])
        else:
            boxes[k] = (boxes[k][0], boxes[k][1][: rng.randrange(len(boxes[k][1]) + 1)])
    return b"".join(_named(name, body) for name, body in boxes)


def _named(name: str, body: bytes) -> bytes:
    return box("free", body)[:4] + name.encode("latin-1") + body


def fuzz_boxes(seconds: float, seed: int = 0) -> FuzzReport:
    """Break files for so many seconds, and raise AssertionError where the parser does wrong.

    The file that it does wrong with is kept in the temporary folder; the message names it.
    """
    rng = random.Random(seed)
    end, tried, read, most = time.monotonic() + seconds, 0, 0, 0
    sources = originals()
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        while tried == 0 or time.monotonic() < end:
            data = mutate(rng.choice(sources), rng)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                read += try_index(data, allow_cut=rng.random() < 0.5) is not None
                used = tracemalloc.get_traced_memory()[1] - before
                assert used <= BYTES_MORE + BYTES_PER_BYTE * len(data), f"{used} bytes of memory"
            except BaseException as error:
                kept = Path(tempfile.gettempdir()) / f"fuzz-boxes-{seed}-{tried}.mp4"
                kept.write_bytes(data)
                if isinstance(error, Exception):
                    raise AssertionError(f"{kept}, {len(data)} bytes: {type(error).__name__}: {error}") from error
                raise
            tried, most = tried + 1, max(most, used)
    finally:
        if not tracing:
            tracemalloc.stop()
    return FuzzReport(tried, read, tried - read, most)
