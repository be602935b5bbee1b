"""Whatever is in the bytes, the parser answers with an index or a typed error, in no more memory than they allow."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolltape.errors import RolltapeError
from rolltape.video import Decoder
from video.clips import box
from video.fuzz import BYTES_MORE, BYTES_PER_BYTE, fuzz_boxes, originals, try_index

SECONDS = 4.0


def test_the_originals_are_whole() -> None:
    assert len(originals()) > 12
    for data in originals():
        index = try_index(data)
        assert index is not None
        assert index.n > 0


def test_truncations() -> None:
    for data in originals():
        for length in [*range(64), *range(64, len(data), max(7, len(data) // 150)), len(data) - 1]:
            for allow_cut in (False, True):
                try_index(data[:length], allow_cut=allow_cut)


def test_broken_files() -> None:
    report = fuzz_boxes(SECONDS, seed=int(os.environ.get("ROLLTAPE_FUZZ_SEED", "7")))
    assert report.tried > 200
    assert report.read > report.tried // 10
    assert report.refused > report.tried // 10


def test_flipped_bytes_then_decode() -> None:
    rng = random.Random(11)
    end_time = time.monotonic() + SECONDS / 2
    while time.monotonic() < end_time:
        data = bytearray(rng.choice(originals()))
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        index = try_index(bytes(data))
        if index is None or not 0 < index.n < 100 or index.width > 4096:
            continue
        with contextlib.suppress(RolltapeError):
            Decoder(index, memoryview(data)).decode(range(index.n), lambda rank, frame: None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=400), st.sampled_from([b"ftyp", b"moov", b"trak", b"mdat", b"moof"]), st.booleans())
def test_arbitrary_bytes(data: bytes, name: bytes, allow_cut: bool) -> None:
    assert try_index(data, allow_cut=allow_cut) is None
    assert try_index(struct.pack(">I", 8 + len(data)) + name + data, allow_cut=allow_cut) is None


def test_deep_and_wide_nesting() -> None:
    nested = b""
    for _ in range(2000):
        nested = struct.pack(">I4s", 8 + len(nested), b"moov") + nested
    assert try_index(nested) is None
    assert try_index(struct.pack(">I4s", 8 + 8 * 200_000, b"moov") + struct.pack(">I4s", 8, b"free") * 200_000) is None


def test_from_a_folder_of_odd_files() -> None:
    for data in (bytes(5000), b"\xff" * 5000, b"<html></html>" * 99):
        assert try_index(data) is None
        assert try_index(data, allow_cut=True) is None


def head_of_a_fragmented_file() -> bytes:
    data = next(data for data in originals() if b"moof" in data and b"avc1" in data)
    return data[: data.index(b"moof") - 4]


def hostile(runs: int, claimed: int) -> bytes:
    """Thousands of runs that claim billions of samples without a table of them."""
    tfhd = box("tfhd", struct.pack(">III", 0x20010, 1, claimed))
    trun = box("trun", struct.pack(">IIi", 0x1, 0xFFFFFFFF, 100))
    moof = box("moof", box("mfhd", bytes(8)), box("traf", tfhd, *[trun] * 50))
    return head_of_a_fragmented_file() + moof * (runs // 50) + box("mdat", bytes(100_000))


@pytest.mark.parametrize("claimed", [1, 7, 2**32 - 1])
@pytest.mark.parametrize("allow_cut", [False, True])
def test_claims_without_bytes_cost_no_memory(claimed: int, allow_cut: bool) -> None:
    data = hostile(5000, claimed)
    tracemalloc.start()
    try:
        try_index(data, allow_cut=allow_cut)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < BYTES_MORE + BYTES_PER_BYTE * len(data)


LIMITED = """
import resource, sys
from video.fuzz import try_index
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (256 << 20),) * 2)
data = open(sys.argv[1], "rb").read()
for length in (len(data), len(data) // 2):
    for allow_cut in (False, True):
        try_index(data[:length], allow_cut=allow_cut)
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on memory is Linux's")
def test_within_a_limit_of_memory(tmp_path: Path) -> None:
    (tmp_path / "hostile.mp4").write_bytes(hostile(5000, 1))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "hostile.mp4")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)
    assert done.stdout == "done\n", done.stderr
