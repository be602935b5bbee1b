"""Takes: what a kill leaves, how much it loses, and the ordinary file that is made of it."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from rolltape.errors import ContainerError, DamagedFileError
from rolltape.format import DepthEncoderConfig, Rate, RGBEncoderConfig
from rolltape.format.encoders import VideoEncoderConfig
from rolltape.video import VideoEncoder, VideoFile, index_file, parse_movie, resolve
from rolltape.video.encode import ResolvedEncoder
from rolltape.video.packets import Source, join, same_decoder, take, whole_prefixes
from rolltape.video.whole import is_whole
from video.clips import Pictures, decode_all, pictures

RATE = Rate.parse(30)
WIDTH, HEIGHT = 96, 64
CONFIGS: dict[str, VideoEncoderConfig] = {
    "av1-2": RGBEncoderConfig(),
    "av1-10": RGBEncoderConfig(g=10),
    "av1-30": RGBEncoderConfig(g=30),
    "h264-2": RGBEncoderConfig(vcodec="h264"),
    "h264-b": RGBEncoderConfig(vcodec="h264", g=12, extra_options={"bf": 3, "b_strategy": 0, "sc_threshold": 0}),
    "h264-30": RGBEncoderConfig(vcodec="h264", g=30),
    "hevc-2": RGBEncoderConfig(vcodec="hevc"),
    "hevc-30": RGBEncoderConfig(vcodec="hevc", g=30),
    "depth": DepthEncoderConfig(),
}


def record(path: Path, frames: Any, config: VideoEncoderConfig | ResolvedEncoder, rate: Rate = RATE) -> VideoEncoder:
    """A take, closed."""
    encoder = VideoEncoder(path, rate=rate, width=WIDTH, height=HEIGHT, config=config, fragmented=True)
    for frame in frames:
        encoder.put(frame)
    assert encoder.close().frames == len(frames)
    return encoder


def depth_pictures(count: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    return (pictures(count)[..., 0].astype(np.uint16) * 16 + 5).clip(0, 4095)


def raw(path: Path, count: int) -> np.ndarray[Any, Any]:
    """All pictures of a file, from a depth camera or another."""
    with VideoFile(path) as video:
        assert video.index.n == count
        deep = video.frames([0])[0].format.name == "gray12le"
        return video.read_raw(range(count)) if deep else video.read(range(count), layout="HWC")


@pytest.mark.parametrize("kind", CONFIGS)
def test_killed_after_any_picture(tmp_path: Path, kind: str) -> None:
    """The file as it is after each `put` is what a kill leaves; all but the stated loss comes back, bit for bit."""
    config = CONFIGS[kind]
    count = 70
    frames = depth_pictures(count) if isinstance(config, DepthEncoderConfig) else pictures(count)
    path, target = tmp_path / "take.mp4", tmp_path / "kept.mp4"
    encoder = VideoEncoder(path, rate=RATE, width=WIDTH, height=HEIGHT, config=config, fragmented=True)
    assert encoder.delay_frames is not None
    stated = encoder.delay_frames + encoder.piece_frames
    assert encoder.loss_seconds == pytest.approx(stated / 30)
    if "depth" in kind or (config.g is not None and config.g <= 10):
        assert encoder.loss_seconds < 1
    left, back = [], []
    for k, frame in enumerate(frames):
        encoder.put(frame)
        assert encoder.frames - encoder.taken <= encoder.delay_frames
        left.append(tmp_path / f"left{k}.mp4")
        shutil.copy(path, left[-1])
    encoder.close()
    expected = raw(path, count)
    for k, file in enumerate(left):
        try:
            index = take(file, RATE)
        except ContainerError:  # not even a head yet
            back.append(0)
            continue
        back.append(index.n)
        assert whole_prefixes(index, RATE)[-1] == index.n == len(index.pts)
        if index.n and k % 9 == 0:
            assert join([Source(file, index=index)], target, RATE) == index.n
            assert np.array_equal(raw(target, index.n), expected[: index.n])
            made = index_file(target)
            assert made.is_grid(RATE)
            assert made.rate == 30
            with av.open(str(target)) as container:
                assert container.streams.video[0].average_rate == 30
                assert len(list(container.decode(video=0))) == index.n
    assert max(k + 1 - n for k, n in enumerate(back)) <= stated
    assert back[-1] > 0
    assert sorted(back) == back


def test_a_finished_take_becomes_an_ordinary_file(tmp_path: Path) -> None:
    for kind in ("av1-2", "h264-b", "hevc-30"):
        record(tmp_path / "take.mp4", pictures(31), CONFIGS[kind])
        assert parse_movie((tmp_path / "take.mp4").read_bytes()).fragmented
        assert join([tmp_path / "take.mp4"], tmp_path / "out.mp4", RATE) == 31
        made = index_file(tmp_path / "out.mp4")
        assert not parse_movie((tmp_path / "out.mp4").read_bytes()).fragmented
        assert made.is_grid(RATE)
        assert np.array_equal(raw(tmp_path / "out.mp4", 31), raw(tmp_path / "take.mp4", 31))
        assert np.array_equal(raw(tmp_path / "out.mp4", 31), decode_all(tmp_path / "out.mp4"))


def test_takes_join_with_each_other_and_with_clips_of_the_same_settings(tmp_path: Path) -> None:
    config = RGBEncoderConfig()
    record(tmp_path / "a.mp4", pictures(9), config)
    record(tmp_path / "b.mp4", pictures(14, seed=1), config)
    with VideoEncoder(tmp_path / "c.mp4", rate=RATE, width=WIDTH, height=HEIGHT, config=config) as plain:
        for picture in pictures(5, seed=2):
            plain.put(picture)
    parts = [tmp_path / f"{name}.mp4" for name in "abc"]
    indexes = [index_file(part) for part in parts]
    assert all(same_decoder(indexes[0], index) for index in indexes)
    assert len({index.entry for index in indexes}) == 1
    assert join(parts, tmp_path / "all.mp4", RATE) == 28
    assert np.array_equal(raw(tmp_path / "all.mp4", 28), np.concatenate([raw(p, n) for p, n in zip(parts, (9, 14, 5))]))


def test_the_default_encodes_as_it_does_without_a_take(tmp_path: Path) -> None:
    frames = pictures(12)
    config = RGBEncoderConfig()
    assert resolve(config, width=WIDTH, height=HEIGHT, take=True).options == dict(
        resolve(config, width=WIDTH, height=HEIGHT).options
    )
    record(tmp_path / "take.mp4", frames, config)
    with VideoEncoder(tmp_path / "plain.mp4", rate=RATE, width=WIDTH, height=HEIGHT, config=config) as plain:
        assert plain.delay_frames is None
        assert plain.piece_frames == 0
        assert plain.loss_seconds == float("inf")
        for frame in frames:
            plain.put(frame)
    one, other = index_file(tmp_path / "take.mp4"), index_file(tmp_path / "plain.mp4")
    assert one.size.tolist() == other.size.tolist()
    assert one.key.tolist() == other.key.tolist()


@pytest.mark.parametrize(
    ("config", "option", "value"),
    [
        (RGBEncoderConfig(g=10), "svtav1-params", "fast-decode=0:lookahead=0:hierarchical-levels=3"),
        (RGBEncoderConfig(g=10, fast_decode=None, extra_options={"svtav1-params": "lookahead=5"}), None, "lookahead=5"),  # type: ignore[arg-type]  # None leaves the parameters to the user
        (RGBEncoderConfig(vcodec="h264", g=10), "rc-lookahead", "8"),
        (RGBEncoderConfig(vcodec="h264", g=10, extra_options={"rc-lookahead": 3}), "rc-lookahead", "3"),
        (RGBEncoderConfig(vcodec="h264", g=10, extra_options={"tune": "zerolatency"}), "rc-lookahead", None),
        (
            RGBEncoderConfig(vcodec="hevc", extra_options={"x265-params": "rc-lookahead=6"}),
            "x265-params",
            "rc-lookahead=6",
        ),
    ],
)
def test_what_the_user_set_stays(config: RGBEncoderConfig, option: str | None, value: str | None) -> None:
    found = resolve(config, width=WIDTH, height=HEIGHT, take=True)
    assert found.delay_frames is not None
    text = found.options.get(option or "svtav1-params")
    assert text == value or (value is not None and text is not None and text.split(":").count(value) == 1)


def test_a_resolved_encoder_goes_to_another_process_and_is_not_tried_again(tmp_path: Path) -> None:
    found = pickle.loads(pickle.dumps(resolve(RGBEncoderConfig(vcodec="h264"), width=WIDTH, height=HEIGHT, take=True)))
    encoder = record(tmp_path / "take.mp4", pictures(5), found)
    assert encoder.encoder is found
    assert encoder.delay_frames == found.delay_frames
    ordinary = resolve(RGBEncoderConfig(vcodec="h264"), width=WIDTH, height=HEIGHT)
    assert ordinary.delay_frames is None
    assert record(tmp_path / "other.mp4", pictures(5), ordinary).delay_frames == found.delay_frames


@pytest.mark.parametrize(
    ("fps", "piece"), [(2, 1), (10, 2), (24, 4), (30, 6), (60, 12), (Fraction(30000, 1001), 5), (500, 100)]
)
def test_pieces_of_at_most_a_fifth_of_a_second(tmp_path: Path, fps: int | Fraction, piece: int) -> None:
    rate = Rate.parse(fps)
    config = RGBEncoderConfig(vcodec="h264", g=10, extra_options={"tune": "zerolatency", "bf": 0, "threads": 1})
    path = tmp_path / "take.mp4"
    with VideoEncoder(path, rate=rate, width=WIDTH, height=HEIGHT, config=config, fragmented=True) as encoder:
        assert encoder.piece_frames == piece
        assert encoder.delay_frames == 0
        lost = []
        for k, picture in enumerate(np.tile(pictures(30), (7, 1, 1, 1))):
            encoder.put(picture)
            try:
                lost.append(k + 1 - len(index_file(path, allow_cut=True).pts))
            except ContainerError:
                lost.append(k + 1)
    assert max(lost) == piece
    assert join([path], tmp_path / "out.mp4", rate) == 210
    assert index_file(tmp_path / "out.mp4").is_grid(rate)


def test_an_encoder_that_falls_behind_is_drained(tmp_path: Path) -> None:
    """SVT-AV1 holds for ever what it once held. A new one goes on in the same file, with the same pictures."""
    path = tmp_path / "take.mp4"
    config = RGBEncoderConfig()
    encoder = VideoEncoder(path, rate=RATE, width=WIDTH, height=HEIGHT, config=config, fragmented=True)
    encoder.delay_frames = 6  # less than it needs: drained all the time
    encoders = {id(encoder._encoder)}
    kept = []  # so that no id is used twice
    for picture in pictures(60):
        encoder.put(picture)
        assert encoder.frames - encoder.taken <= 6
        kept.append(encoder._encoder)
        encoders.add(id(encoder._encoder))
    assert encoder.close().frames == 60
    assert len(encoders) > 3
    index = index_file(path)
    assert index.is_grid(RATE)
    assert np.array_equal(np.flatnonzero(index.key), np.arange(0, 60, 2)), "every second picture is a keyframe as ever"
    with VideoFile(path) as video:
        given = video.read(range(60), layout="HWC").astype(int)
        assert np.array_equal(video.read([59, 7, 8, 6, 30], layout="HWC"), given[[59, 7, 8, 6, 30]])
    assert float(np.abs(given - pictures(60)).mean()) < 12
    # Each picture is the one that was put, and not its neighbour.
    means = given.mean((1, 2, 3))
    assert float(np.abs(means - pictures(60).mean((1, 2, 3))).max()) < 6
    assert join([path], tmp_path / "out.mp4", RATE) == 60
    assert decode_all(tmp_path / "out.mp4")[59].shape == (HEIGHT, WIDTH, 3)


def test_an_odd_end(tmp_path: Path) -> None:
    for count in (1, 2, 5):
        for kind in ("av1-2", "h264-b", "hevc-30", "depth"):
            frames: Any = depth_pictures(count) if kind == "depth" else pictures(count)
            record(tmp_path / "t.mp4", frames, CONFIGS[kind])
            index = take(tmp_path / "t.mp4", RATE)
            assert index.n == count
            assert join([Source(tmp_path / "t.mp4", index=index)], tmp_path / "o.mp4", RATE) == count
            assert raw(tmp_path / "o.mp4", count).shape[0] == count


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    encoder = VideoEncoder(tmp_path / "t.mp4", rate=RATE, width=WIDTH, height=HEIGHT, fragmented=True)
    for picture in pictures(30):
        encoder.put(picture)
    encoder.abort()
    assert not (tmp_path / "t.mp4").exists()


def test_what_is_no_take(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError):
        take(tmp_path / "none.mp4", RATE)
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(ContainerError):
        take(tmp_path / "empty.mp4", RATE)
    record(tmp_path / "t.mp4", pictures(9), CONFIGS["h264-2"])
    data = (tmp_path / "t.mp4").read_bytes()
    (tmp_path / "head.mp4").write_bytes(data[: data.index(b"moof") - 4])
    assert take(tmp_path / "head.mp4", RATE).n == 0


def test_no_more_than_the_other_cameras_have(tmp_path: Path) -> None:
    record(tmp_path / "t.mp4", pictures(40), CONFIGS["h264-b"])
    index = take(tmp_path / "t.mp4", RATE)
    places = whole_prefixes(index, RATE)
    assert places[0] == 0
    assert places[-1] == 40
    for most in (0, 1, 2, 17, 39, 40, 99):
        kept = take(tmp_path / "t.mp4", RATE, most)
        assert kept.n == places[places <= most].max()
        if kept.n:
            assert join([Source(tmp_path / "t.mp4", index=kept)], tmp_path / "o.mp4", RATE) == kept.n
            assert np.array_equal(raw(tmp_path / "o.mp4", kept.n), raw(tmp_path / "t.mp4", 40)[: kept.n])
    with pytest.raises(ContainerError, match="fewer samples"):
        index.prefix(41)


@pytest.mark.parametrize("kind", ["av1-2", "av1-30", "h264-b", "hevc-30", "depth"])
def test_pages_that_were_never_written(tmp_path: Path, kind: str) -> None:
    """After a power cut the file has its length and zeros in it: the take ends before them."""
    frames: Any = depth_pictures(60) if kind == "depth" else pictures(60)
    record(tmp_path / "t.mp4", frames, CONFIGS[kind])
    data = (tmp_path / "t.mp4").read_bytes()
    index = take(tmp_path / "t.mp4", RATE)
    assert index.n == 60
    expected = raw(tmp_path / "t.mp4", 60)
    ends = (index.offset + index.size).tolist()
    for zeroed in (512, 4096, len(data)):
        for at in range(data.index(b"mdat") // 512 * 512 + 512, len(data), max(512, len(data) // 23 // 512 * 512)):
            torn = data[:at] + bytes(min(zeroed, len(data) - at)) + data[at + zeroed :]
            (tmp_path / "torn.mp4").write_bytes(torn)
            kept = take(tmp_path / "torn.mp4", RATE)
            whole = sum(end <= at for end in ends)
            assert kept.n <= whole
            assert kept.n >= whole - 24  # no more is lost than the piece that was hit, and what leans on it
            if kept.n:
                join([Source(tmp_path / "torn.mp4", index=kept)], tmp_path / "o.mp4", RATE)
                assert np.array_equal(raw(tmp_path / "o.mp4", kept.n), expected[: kept.n])


def test_samples_that_are_whole() -> None:
    unit = (3).to_bytes(4, "big") + b"abc"
    assert is_whole("h264", unit * 2)
    assert not is_whole("hevc", unit + b"\0\0\0\x09abc")
    assert not is_whole("h264", unit + bytes(8))
    assert not is_whole("h264", b"")
    assert is_whole("av1", b"\x32\x02ab\x30rest")  # a frame with its size, and one without
    assert not is_whole("av1", b"\x32\x09ab")
    assert not is_whole("av1", b"\x32\x80")
    assert not is_whole("av1", b"\x32\x02ab" + bytes(5))
    assert is_whole("vp9", b"a")
    assert not is_whole("vp9", bytes(9))


CHILD = """
import sys, time
import numpy as np
from rolltape.format import Rate, RGBEncoderConfig
from rolltape.video import VideoEncoder
from video.clips import pictures
path, codec, g = sys.argv[1], sys.argv[2], int(sys.argv[3])
shown = pictures(50)
config = RGBEncoderConfig(vcodec=codec, g=g)
encoder = VideoEncoder(path, rate=Rate.parse(30), width=96, height=64, config=config, fragmented=True)
print(encoder.delay_frames + encoder.piece_frames, flush=True)
k, begun = 0, time.monotonic()
while True:
    encoder.put(shown[k % 50])
    k += 1
    print(k, flush=True)
    time.sleep(max(0.0, begun + k / 120 - time.monotonic()))
"""


@pytest.mark.parametrize(("codec", "g"), [("libsvtav1", 2), ("h264", 10)])
def test_a_real_kill(tmp_path: Path, codec: str, g: int) -> None:
    path = tmp_path / "take.mp4"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), codec, str(g)], stdout=subprocess.PIPE, text=True, env=env
    )
    with child:
        assert child.stdout is not None
        stated = int(child.stdout.readline())
        for line in child.stdout:
            if int(line) == 60:
                break
        time.sleep(0.3)
        child.send_signal(signal.SIGKILL)
        last = child.stdout.read().split()
        sent = int(last[-1]) if last else 60
    kept = take(path, RATE)
    assert sent - kept.n <= stated
    assert join([Source(path, index=kept)], tmp_path / "out.mp4", RATE) == kept.n
    shown = pictures(50).astype(int)
    given: Pictures = raw(tmp_path / "out.mp4", kept.n)
    for k in range(kept.n):
        assert abs(float(given[k].mean() - shown[k % 50].mean())) < 6
