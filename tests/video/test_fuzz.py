"""Whatever is in the bytes, the parser answers with an index or a typed error, in no more memory than they allow."""

from __future__ import annotations

import contextlib
import random
import resource
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolltape.errors import RolltapeError
from rolltape.video import Decoder, MediaIndex, build_index
from rolltape.video.packets import cut_points
from video.clips import B_FRAMES, pictures, write_video

SECONDS = 4.0


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("fuzz")
    front = {"movflags": "faststart"}
    return [
        write_video(folder / "a.mp4", pictures(9), "libx264", B_FRAMES, audio=True).read_bytes(),
        write_video(folder / "b.mp4", pictures(9), container_options=front).read_bytes(),
        write_video(folder / "c.mp4", pictures(5), "libsvtav1", {"g": "2", "preset": "12"}).read_bytes(),
    ]


def try_index(data: bytes) -> MediaIndex | None:
    """The index, checked for sanity; None for a typed error. Anything else is a failure."""
    try:
        index = build_index(data, "fuzz.mp4")
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
    cut_points(index)
    assert index.reorder_delay >= 0
    return index


def header(data: bytes) -> tuple[int, int]:
    """Where moov lies."""
    start = data.index(b"moov") - 4
    return start, start + int(struct.unpack_from(">I", data, start)[0])


def test_truncations(samples: list[bytes]) -> None:
    for data in samples:
        start, end = header(data)
        for length in [*range(64), *range(start, end, 7), end - 1]:
            try_index(data[:length])
            try_index(data[start : start + length])


def test_flipped_bytes_and_wild_numbers(samples: list[bytes]) -> None:
    rng = random.Random(7)
    wild = [0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 1 << 20]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    end_time, tried, read = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end_time:
        data = bytearray(rng.choice(samples))
        start, end = header(bytes(data))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(start, end - 4)
            if rng.random() < 0.5:
                data[place] ^= 1 << rng.randrange(8)
            else:
                struct.pack_into(">I", data, place, rng.choice(wild))
        tried += 1
        read += try_index(bytes(data)) is not None
    assert tried > 200
    assert read > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


def test_flipped_bytes_then_decode(samples: list[bytes]) -> None:
    rng = random.Random(11)
    end_time = time.monotonic() + SECONDS
    while time.monotonic() < end_time:
        data = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        index = try_index(bytes(data))
        if index is None or not 0 < index.n < 100 or index.width > 4096:
            continue
        with contextlib.suppress(RolltapeError):
            Decoder(index, memoryview(data)).decode(range(index.n), lambda rank, frame: None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=400), st.sampled_from([b"ftyp", b"moov", b"trak", b"mdat", b"moof"]))
def test_arbitrary_bytes(data: bytes, name: bytes) -> None:
    assert try_index(data) is None
    assert try_index(struct.pack(">I", 8 + len(data)) + name + data) is None


def test_deep_and_wide_nesting() -> None:
    nested = b""
    for _ in range(2000):
        nested = struct.pack(">I4s", 8 + len(nested), b"moov") + nested
    assert try_index(nested) is None
    assert try_index(struct.pack(">I4s", 8 + 8 * 200_000, b"moov") + struct.pack(">I4s", 8, b"free") * 200_000) is None


def test_from_a_folder_of_odd_files(tmp_path: Path) -> None:
    for name, data in {"zeros": bytes(5000), "ones": b"\xff" * 5000, "text": b"<html></html>" * 99}.items():
        (tmp_path / name).write_bytes(data)
        assert try_index(data) is None
