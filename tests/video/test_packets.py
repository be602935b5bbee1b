"""Joining and cutting without re-encoding."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import av
import numpy as np
import pytest

from rolltape.errors import EncodeError, VideoError
from rolltape.format import Rate, RGBEncoderConfig
from rolltape.video import VideoEncoder, VideoFile, index_file
from rolltape.video.packets import Source, cut, cut_points, join, same_decoder, whole_prefix
from video.clips import Pictures, pictures, write_video

RATE = Rate.parse(30)
RATES = [RATE, Rate.parse(29.97, [30000, 1001])]
KINDS = {
    "h264": RGBEncoderConfig(vcodec="h264", g=12, extra_options={"bf": 3, "b_strategy": 0, "sc_threshold": 0}),
    "hevc": RGBEncoderConfig(vcodec="hevc", g=10),
    "av1": RGBEncoderConfig(),
}


def encode(path: Path, frames: Pictures, config: RGBEncoderConfig, rate: Rate = RATE) -> Path:
    with VideoEncoder(path, rate=rate, width=frames.shape[2], height=frames.shape[1], config=config) as encoder:
        for picture in frames:
            encoder.put(picture)
    return path


def read_all(path: Path) -> Pictures:
    with VideoFile(path) as video:
        return video.read(range(video.index.n))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", RATES, ids=str)
def test_clips_with_different_delays(tmp_path: Path, kind: str, rate: Rate) -> None:
    lengths = (1, 2, 25, 3, 14)
    clips = [encode(tmp_path / f"{k}.mp4", pictures(n, seed=k), KINDS[kind], rate) for k, n in enumerate(lengths)]
    delays = {index_file(clip).reorder_delay for clip in clips}
    assert (len(delays) > 1) == (kind != "av1")
    target = tmp_path / "joined.mp4.tmp"
    assert join(clips, target, rate) == sum(lengths)
    expected = np.concatenate([read_all(clip) for clip in clips])
    with VideoFile(target) as video:
        assert video.index.is_grid(rate)
        assert video.index.ticks[0] == 0
        assert video.index.rate == rate.fraction
        assert np.array_equal(video.read(range(45)), expected)
        assert all(np.array_equal(video.read([k])[0], expected[k]) for k in (0, 1, 2, 3, 27, 28, 44))
    with av.open(str(target), format="mp4") as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.base_rate, stream.frames) == (rate.fraction, rate.fraction, 45)
        frames = list(container.decode(video=0))
    assert [frame.pts * frame.time_base * rate.fraction for frame in frames] == list(range(45))  # type: ignore[operator]
    assert all(
        np.array_equal(frame.to_ndarray(format="rgb24").transpose(2, 0, 1), wanted)
        for frame, wanted in zip(frames, expected)
    )
    with av.open(str(target), format="mp4") as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    assert all(packet.duration == packets[0].duration for packet in packets)
    assert list(np.diff([packet.dts for packet in packets])) == [packets[0].duration] * 44


def test_A12_sixty_clips_of_seventeen_frames_stay_on_the_grid(tmp_path: Path) -> None:
    for fps in (7, 24, 30):
        rate = Rate.parse(fps)
        clip = encode(tmp_path / f"{fps}.mp4", pictures(17), RGBEncoderConfig(vcodec="h264"), rate)
        target = tmp_path / f"joined{fps}.mp4"
        assert join([clip] * 60, target, rate) == 1020
        index = index_file(target)
        assert index.is_grid(rate)
        for episode in (0, 31, 59):
            first = rate.seconds(17 * episode)
            assert index.frame_of(first, 1e-6) == 17 * episode
            assert index.frame_of(first + rate.seconds(16), 1e-6) == 17 * episode + 16
        with VideoFile(target) as video, VideoFile(clip) as one:
            assert np.array_equal(video.read([1019]), one.read([16]))


def test_joined_again_and_cut_again(tmp_path: Path) -> None:
    clips = [encode(tmp_path / f"{k}.mp4", pictures(n, seed=k), KINDS["h264"]) for k, n in enumerate((13, 2, 30))]
    join(clips, tmp_path / "joined.mp4", RATE)
    whole = read_all(tmp_path / "joined.mp4")
    index = index_file(tmp_path / "joined.mp4")
    points = cut_points(index)
    assert {0, 13, 15, 45} <= set(points.tolist())
    for first, last in itertools.pairwise(points.tolist()):
        source = Source(tmp_path / "joined.mp4", first, last - first, index)
        assert cut(source, tmp_path / "part.mp4", RATE) == last - first
        assert np.array_equal(read_all(tmp_path / "part.mp4"), whole[first:last])
    join(
        [Source(tmp_path / "joined.mp4", 15), clips[0], Source(tmp_path / "joined.mp4", 13, 2)],
        tmp_path / "again.mp4",
        RATE,
    )
    assert np.array_equal(read_all(tmp_path / "again.mp4"), np.concatenate([whole[15:], whole[:13], whole[13:15]]))


def test_cuts_inside_a_group_are_refused_with_the_nearest_points(tmp_path: Path) -> None:
    clip = encode(tmp_path / "a.mp4", pictures(30), KINDS["h264"])
    with pytest.raises(VideoError, match=r"frame 5[\s\S]*0 and 12"):
        cut(Source(clip, 5), tmp_path / "x.mp4", RATE)
    with pytest.raises(VideoError, match="frame 20"):
        cut(Source(clip, 0, 20), tmp_path / "x.mp4", RATE)
    for first, count in ((0, 31), (30, None), (-1, 5), (3, 0)):
        with pytest.raises(VideoError, match="not in the video"):
            cut(Source(clip, first, count), tmp_path / "x.mp4", RATE)
    assert not (tmp_path / "x.mp4").exists()


def test_open_gops_are_no_cut_points(tmp_path: Path) -> None:
    options = {"x265-params": "log-level=error:keyint=8:min-keyint=8:bframes=3:open-gop=1:scenecut=0", "crf": "20"}
    index = index_file(write_video(tmp_path / "open.mp4", pictures(24), "libx265", options))
    assert index.key.sum() > 1
    assert cut_points(index).tolist() == [0, 24]


def test_other_configuration_is_refused(tmp_path: Path) -> None:
    one = encode(tmp_path / "a.mp4", pictures(4), RGBEncoderConfig(vcodec="h264"))
    other = encode(
        tmp_path / "b.mp4", pictures(4), RGBEncoderConfig(vcodec="h264", extra_options={"profile": "baseline"})
    )
    same = encode(tmp_path / "c.mp4", pictures(9, seed=3), RGBEncoderConfig(vcodec="h264"))
    assert same_decoder(index_file(one), index_file(same))
    assert not same_decoder(index_file(one), index_file(other))
    with pytest.raises(VideoError, match=r"b\.mp4[\s\S]*different|different[\s\S]*b\.mp4"):
        join([one, other], tmp_path / "x.mp4", RATE)
    with pytest.raises(VideoError, match="nothing"):
        join([], tmp_path / "x.mp4", RATE)


def test_irregular_times_are_refused(tmp_path: Path) -> None:
    clip = encode(tmp_path / "a.mp4", pictures(6), RGBEncoderConfig(vcodec="h264"))
    with pytest.raises(VideoError, match="frame grid"):
        join([clip], tmp_path / "x.mp4", Rate.parse(20))


def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    clip = encode(tmp_path / "a.mp4", pictures(2), RGBEncoderConfig(vcodec="h264"))
    with pytest.raises(EncodeError, match="cannot be written"):
        join([clip], tmp_path / "no" / "x.mp4", RATE)


def test_whole_prefix_of_a_take_that_was_cut_off(tmp_path: Path) -> None:
    index = index_file(encode(tmp_path / "a.mp4", pictures(20), KINDS["h264"]))
    assert index.reorder_delay == 2
    numbers = [int(tick) // 512 for tick in index.pts]
    for length in range(21):
        cut_off = dataclasses.replace(index, pts=index.pts[:length])
        wanted = max(m for m in range(length + 1) if sorted(numbers[:m]) == list(range(m)))
        assert whole_prefix(cut_off, RATE) == wanted
