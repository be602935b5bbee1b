"""Encoding: settings, counts, exact times, and codecs that do not work."""

from __future__ import annotations

import importlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from rolltape.errors import ClosedError, CodecError, EncodeError
from rolltape.format import DepthEncoderConfig, Rate, RGBEncoderConfig
from rolltape.video import VideoEncoder, VideoFile, available, depth, resolve, tick_grid, video_info
from video.clips import pictures

encode = importlib.import_module("rolltape.video.encode")
RATES = [Rate.parse(30), Rate.parse(10), Rate.parse(7), Rate.parse(29.97, [30000, 1001]), Rate.parse(29.97)]
CONFIGS = {
    "default": RGBEncoderConfig(),
    "h264": RGBEncoderConfig(vcodec="h264"),
    "h264 long": RGBEncoderConfig(vcodec="libx264", g=30, extra_options={"bf": 3}),
    "hevc": RGBEncoderConfig(vcodec="hevc", g=8),
}


def write(path: Path, frames: Any, config: Any = None, rate: Rate | None = None, **options: Any) -> Any:
    height, width = frames.shape[1:3]
    with VideoEncoder(path, rate=rate or RATES[0], width=width, height=height, config=config, **options) as encoder:
        for picture in frames:
            encoder.put(picture)
        return encoder.close()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rate", RATES, ids=str)
def test_times_and_pictures(tmp_path: Path, name: str, rate: Rate) -> None:
    frames = pictures(11)
    clip = write(tmp_path / "front.mp4.tmp", frames, CONFIGS[name], rate)
    assert (clip.frames, clip.width, clip.height) == (11, 96, 64)
    assert clip.seconds == 11 / rate.fraction
    assert clip.nbytes == clip.path.stat().st_size
    with VideoFile(clip.path) as video:
        assert video.index.is_grid(rate)
        assert (video.index.timescale, int(video.index.ticks[1])) == tick_grid(rate)
        assert video.index.rate == rate.fraction
        shown = video.read(range(11), layout="HWC").astype(int)
    levels = np.abs(shown - frames).mean(axis=(1, 2, 3))
    assert levels.max() < 25
    with av.open(str(clip.path), format="mp4") as container:
        stream = container.streams.video[0]
        assert stream.average_rate == rate.fraction
        assert stream.frames == 11
        assert stream.duration * stream.time_base == clip.seconds  # type: ignore[operator]


@pytest.mark.parametrize("count", [1, 2])
def test_very_short_videos_have_their_length(tmp_path: Path, count: int) -> None:
    for name, config in CONFIGS.items():
        clip = write(tmp_path / f"{name}.mp4", pictures(count), config)
        with VideoFile(clip.path) as video:
            assert video.index.rate == 30, name
            assert video.read(range(count)).any()


def test_bytes_equal_a_plain_encode(tmp_path: Path) -> None:
    """What lerobot does: `VideoFrame.from_ndarray`, a stream with the same options, PyAV's own conversion."""
    frames = np.random.default_rng(0).integers(0, 256, (5, 64, 96, 3), dtype=np.uint8)
    clip = write(tmp_path / "ours.mp4", frames, RGBEncoderConfig(vcodec="h264", crf=0, extra_options={"qp": 0}))
    plain = tmp_path / "plain.mp4"
    with av.open(str(plain), "w") as container:
        stream = container.add_stream("libx264", 30, options={"g": "2", "crf": "0", "qp": "0"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for picture in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    with VideoFile(clip.path) as ours, VideoFile(plain) as theirs:
        assert np.array_equal(ours.read(range(5)), theirs.read(range(5)))


def test_taken_counts_packets_and_wrong_pictures_are_refused(tmp_path: Path) -> None:
    encoder = VideoEncoder(
        tmp_path / "a.mp4", rate=RATES[0], width=96, height=64, config=RGBEncoderConfig(vcodec="h264")
    )
    frames = pictures(40)
    for k, picture in enumerate(frames):
        encoder.put(picture)
        assert encoder.taken <= k + 1
    assert encoder.taken > 0
    for wrong in (frames[0].astype(np.float32), frames[0][:60], frames[0].transpose(2, 0, 1)):
        with pytest.raises(EncodeError, match=r"frame 40[\s\S]*uint8 \[64, 96, 3\]"):
            encoder.put(wrong)
    encoder.put(np.asfortranarray(frames[0]))
    assert encoder.close().frames == encoder.taken == 41
    with pytest.raises(ClosedError):
        encoder.put(frames[0])
    with pytest.raises(ClosedError):
        encoder.close()
    encoder.abort()
    assert (tmp_path / "a.mp4").exists()


def test_abort_and_empty_leave_no_file(tmp_path: Path) -> None:
    first = VideoEncoder(tmp_path / "a.mp4", rate=RATES[0], width=96, height=64)
    first.put(pictures(1)[0])
    first.abort()
    second = VideoEncoder(tmp_path / "b.mp4", rate=RATES[0], width=96, height=64)
    with pytest.raises(EncodeError, match="no picture"):
        second.close()
    third = VideoEncoder(tmp_path / "c.mp4", rate=RATES[0], width=96, height=64)
    with pytest.raises(EncodeError, match="fit"), third:
        third.put(pictures(1)[0][:5])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EncodeError, match="cannot be written"):
        VideoEncoder(tmp_path / "no" / "d.mp4", rate=RATES[0], width=96, height=64)


@pytest.mark.parametrize(
    ("name", "encoder", "codec"),
    [
        ("h264", "libx264", "h264"),
        ("libx264", "libx264", "h264"),
        ("hevc", "libx265", "hevc"),
        ("libx265", "libx265", "hevc"),
        ("av1", "libsvtav1", "av1"),
        ("libsvtav1", "libsvtav1", "av1"),
    ],
)
def test_A30_both_names_of_a_codec(name: str, encoder: str, codec: str) -> None:
    found = resolve(RGBEncoderConfig(vcodec=name), width=64, height=48)
    assert (found.name, found.codec) == (encoder, codec)


def test_A30_nonsense_is_refused_with_the_list() -> None:
    with pytest.raises(CodecError, match=r"libsvtav1[\s\S]*nonsense"):
        resolve(RGBEncoderConfig(vcodec="nonsense"), width=64, height=48)


def test_A30_a_build_without_av1(monkeypatch: pytest.MonkeyPatch) -> None:
    real = encode.exists
    monkeypatch.setattr(encode, "exists", lambda name: "av1" not in name and real(name))
    encode.works.cache_clear()
    try:
        with pytest.raises(CodecError, match=r"libx264, libx265[\s\S]*libsvtav1"):
            resolve(RGBEncoderConfig(), width=64, height=48)
        assert resolve(RGBEncoderConfig(vcodec="auto"), width=64, height=48).codec in ("h264", "hevc")
    finally:
        encode.works.cache_clear()


def test_A30_auto_takes_one_that_works(tmp_path: Path) -> None:
    clip = write(tmp_path / "auto.mp4", pictures(3), RGBEncoderConfig(vcodec="auto"))
    assert clip.frames == 3
    states = {state.name: state for state in available()}
    assert resolve(RGBEncoderConfig(vcodec="auto"), width=64, height=48).name in states
    assert states["libx264"].encodes
    assert states["libx264"].decodes
    assert states["libsvtav1"].kind == "software"


def test_A30_hardware_that_is_not_there_is_refused() -> None:
    dead = next(state for state in available() if state.kind == "hardware" and not state.encodes)
    with pytest.raises(CodecError, match="does not work on this machine"):
        resolve(RGBEncoderConfig(vcodec=dead.name), width=64, height=48)


def test_A30_info_is_read_back_from_the_file(tmp_path: Path) -> None:
    config = RGBEncoderConfig(vcodec="libx264", g=4, crf=20)
    write(tmp_path / "a.mp4", pictures(5), config, RATES[1])
    assert video_info(tmp_path / "a.mp4", config) == {
        "video.height": 64,
        "video.width": 96,
        "video.codec": "h264",
        "video.pix_fmt": "yuv420p",
        "video.fps": 10,
        "video.channels": 3,
        "has_audio": False,
        "video.g": 4,
        "video.crf": 20,
        "video.preset": None,
        "video.fast_decode": 0,
        "video.video_backend": "pyav",
        "video.extra_options": {},
        "is_depth_map": False,
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"crf": 99}, "0 to 63"),
        ({"crf": 30.5}, "whole"),
        ({"preset": "fast"}, "not a number"),
        ({"preset": 14}, "-2 to 13"),
        ({"pix_fmt": "yuv444p"}, "yuv420p10le"),
        ({"vcodec": "h264", "pix_fmt": "gray"}, "cannot hold"),
        ({"vcodec": "h264", "pix_fmt": "nonsense"}, "nonsense"),
        ({"vcodec": "h264", "crf": -3}, "out of range"),
        ({"vcodec": "h264", "preset": "bogus"}, "refuses"),
        ({"vcodec": "h264", "extra_options": {"threads": "many"}}, "not a number"),
    ],
)
def test_options_are_checked_before_the_first_picture(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(CodecError, match=words):
        resolve(RGBEncoderConfig(**settings), width=64, height=48)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_odd_sizes_are_refused_in_time(codec: str) -> None:
    with pytest.raises(CodecError, match=r"63x47[\s\S]*even sizes"):
        resolve(RGBEncoderConfig(vcodec=codec), width=63, height=47)


def test_odd_sizes_work_with_av1(tmp_path: Path) -> None:
    clip = write(tmp_path / "odd.mp4", pictures(4, 63, 47), RGBEncoderConfig())
    with VideoFile(clip.path) as video:
        assert video.read(range(4)).shape == (4, 3, 47, 63)


def test_options_as_the_reference_maps_them() -> None:
    def options(threads: int | None = None, **settings: Any) -> dict[str, str]:
        return resolve(RGBEncoderConfig(**settings), width=64, height=48, threads=threads).options

    assert options() == {"g": "2", "crf": "30", "preset": "12", "svtav1-params": "fast-decode=0"}
    assert options(2, fast_decode=1, preset=10)["svtav1-params"] == "fast-decode=1:lp=2"
    assert options(2, vcodec="h264", fast_decode=1) == {"g": "2", "crf": "30", "tune": "fastdecode", "threads": "2"}
    assert options(vcodec="h264", extra_options={"crf": 1, "tune": "film"}) == {"g": "2", "crf": "30", "tune": "film"}
    given = options(vcodec="hevc", extra_options={"x265-params": "open-gop=1:aq-mode=0:log-level=none"})
    assert given["x265-params"] == "aq-mode=0:log-level=none:open-gop=0"


def test_hevc_gops_are_closed(tmp_path: Path) -> None:
    clip = write(tmp_path / "a.mp4", pictures(30), CONFIGS["hevc"])
    with VideoFile(clip.path) as video:
        index = video.index
        assert (index.pts[index.gop_start] <= index.ticks).all()


def test_depth_codes_survive_whole(tmp_path: Path) -> None:
    codes = (
        np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) + 7 * np.arange(6, dtype=np.uint16)[:, None, None]
    ) % 4096
    clip = write(tmp_path / "depth.mp4", codes, DepthEncoderConfig(), RATES[1])
    with VideoFile(clip.path) as video:
        assert np.array_equal(video.read_raw([5, 0, 3]), codes[[5, 0, 3]])
        out = np.empty((2, 48, 64), np.uint16)
        assert np.array_equal(video.read_raw([1, 1], out), codes[[1, 1]])
    info = video_info(clip.path, DepthEncoderConfig())
    assert info["video.pix_fmt"] == "gray12le"
    assert info["is_depth_map"] is True
    assert info["video.extra_options"] == {"x265-params": "lossless=1"}


def test_A71_depth_video_keeps_millimetres_within_a_step(tmp_path: Path) -> None:
    config = DepthEncoderConfig()
    ramp = np.linspace(10, 10000, 64 * 48).round().astype(np.uint16).reshape(1, 48, 64)
    write(tmp_path / "d.mp4", depth.quantize(ramp[0], None, config)[None], config)
    with VideoFile(tmp_path / "d.mp4") as video:
        back = depth.dequantize(video.read_raw([0]), config)
    allowed = np.array([depth.quantisation_step(d / 1000, config) * 500 + 0.5 for d in ramp.ravel()]).reshape(
        ramp.shape
    )
    assert (np.abs(back - ramp) <= allowed + 0.01).all()


def test_tick_grid_is_exact() -> None:
    for rate in [*RATES, Rate.parse(1), Rate.parse(1000), Rate.parse(59.94)]:
        timescale, step = tick_grid(rate)
        assert Fraction(timescale, step) == rate.fraction
        assert timescale >= 10_000
