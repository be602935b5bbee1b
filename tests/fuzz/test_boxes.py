"""The box parser: damaged MP4 files of several encoders, plain and fragmented, give an index or a typed error."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

from crash.lanes import require
from fuzz.lanes import fuzz
from fuzz.mutations import damaged_bytes
from rolltape.errors import RolltapeError
from rolltape.video import Decoder, build_index
from video.clips import B_FRAMES, pictures, write_video

FRAGMENTED = {"movflags": "empty_moov+default_base_moof+frag_keyframe"}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    room = tmp_path_factory.mktemp("clips")
    made = [
        write_video(room / "b.mp4", pictures(9), "libx264", B_FRAMES, audio=True),
        write_video(room / "front.mp4", pictures(9), container_options={"movflags": "faststart"}),
        write_video(room / "fragments.mp4", pictures(12), "libx264", B_FRAMES, container_options=FRAGMENTED),
        write_video(
            room / "av1.mp4", pictures(5), "libsvtav1", {"g": "2", "preset": "12"}, container_options=FRAGMENTED
        ),
    ]
    golden = sorted(
        (Path(__file__).parent.parent / "data/golden/v30").rglob("*.mp4"), key=lambda one: one.stat().st_size
    )
    return [path.read_bytes() for path in (*made, *golden[:3])]


@pytest.mark.timeout(1200)
def test_damaged_videos(samples: list[bytes]) -> None:
    def once(rng: random.Random) -> str:
        data = rng.choice(samples)
        if rng.random() < 0.7:  # the header is small: most damage belongs there
            at = rng.choice([data.find(name) for name in (b"moov", b"moof", b"stbl", b"trun") if name in data]) - 4
            end = min(len(data), at + rng.choice((64, 400, 2000)))
            data = data[:at] + damaged_bytes(data[at:end], rng) + data[end:]
        else:
            data = damaged_bytes(data, rng)
        try:
            index = build_index(data, "fuzz.mp4")
        except RolltapeError as error:
            require("fuzz.mp4" in str(error))
            return type(error).__name__
        count = len(index.offset)
        assert count * 4 <= max(64, len(data)) * 4, "more frames than bytes"
        assert not count or (int(index.offset.min()) >= 0 and int((index.offset + index.size).max()) <= len(data))
        assert (np.diff(index.ticks) > 0).all()
        if 0 < index.n < 100 and index.width <= 4096 and index.height <= 4096 and rng.random() < 0.2:
            with contextlib.suppress(RolltapeError):
                Decoder(index, memoryview(data)).decode(range(index.n), lambda rank, frame: None)
        return "read"

    fuzz("boxes", 12, once)
