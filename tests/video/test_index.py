"""The index of real files and of files with boxes arranged by hand, each compared with a full decode."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from rolltape.errors import ContainerError, DamagedFileError, FrameTimestampError
from rolltape.format import Rate
from rolltape.video import VideoFile, build_index, index_file, parse_movie
from video.clips import (
    B_FRAMES,
    box,
    decode_all,
    pictures,
    rewrite,
    shift_chunks,
    split_boxes,
    table,
    write_video,
)

HEVC = {"x265-params": "log-level=error:keyint=8:bframes=3", "crf": "20"}
KINDS = {
    "h264": ("libx264", {"g": "4", "bf": "0"}),
    "h264-b": ("libx264", B_FRAMES),
    "h264-open": ("libx264", {**B_FRAMES, "x264-params": "open-gop=1:keyint=8"}),
    "av1": ("libsvtav1", {"g": "5", "preset": "12"}),
    "hevc-closed": ("libx265", {"x265-params": HEVC["x265-params"] + ":open-gop=0"}),
    "hevc-open": ("libx265", HEVC),
    "mpeg4": ("mpeg4", {"g": "6", "bf": "2"}),
}


@pytest.fixture(autouse=True)
def _quiet_svt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVT_LOG", "1")


@pytest.fixture
def b_frames(tmp_path: Path) -> Path:
    return write_video(tmp_path / "b.mp4", pictures(20), "libx264", B_FRAMES)


def check_all(path: Path, count: int) -> None:
    """Every frame alone, in order, backwards and in one call equals a full decode."""
    expected = decode_all(path)
    assert len(expected) == count
    with VideoFile(path) as video:
        assert video.index.n == count
        assert np.array_equal(video.read(range(count), layout="HWC"), expected)
        for rank in [*range(count), *reversed(range(count))]:
            assert np.array_equal(video.read([rank], layout="HWC")[0], expected[rank]), rank
        mixed = [count - 1, 0, count // 2, count // 2, 1]
        assert np.array_equal(video.read(mixed, layout="HWC"), [expected[k] for k in mixed])


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_of_every_kind(tmp_path: Path, kind: str) -> None:
    codec, options = KINDS[kind]
    path = write_video(tmp_path / "clip.mp4", pictures(27), codec, options)
    check_all(path, 27)
    index = index_file(path)
    assert index.is_grid(Rate.parse(30))
    assert index.rate == 30
    assert list(index.seconds[:2]) == [0.0, 1 / 30]
    assert (index.reorder_delay > 0) == (kind not in ("h264", "av1"))


@pytest.mark.parametrize("fps", [7, 24, 30, 60, Fraction(30000, 1001)])
def test_times_are_exact_for_every_rate(tmp_path: Path, fps: Fraction | int) -> None:
    path = write_video(tmp_path / "clip.mp4", pictures(15), "libx264", B_FRAMES, fps=fps)
    index = index_file(path)
    assert index.rate == fps
    assert index.is_grid(Rate.parse(Fraction(fps)))
    assert not index.is_grid(Rate.parse(25))
    assert [index.frame_of(k / float(fps)) for k in range(15)] == list(range(15))
    assert index.frame_of(3.4 / float(fps), tolerance=1.0) == 3
    with pytest.raises(FrameTimestampError, match="frame 14"):
        index.frame_of(15.5 / float(fps))


def test_ticks_equal_the_demuxers(b_frames: Path) -> None:
    index = index_file(b_frames)
    with av.open(str(b_frames)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        assert [int(k) for k in index.size] == [packet.size for packet in packets]
        assert [int(k) for k in index.pts] == [packet.pts for packet in packets]
        assert [int(k) for k in index.dts] == [packet.dts for packet in packets]
        assert [bool(k) for k in index.key] == [packet.is_keyframe for packet in packets]
        assert [int(k) for k in index.offset] == [packet.pos for packet in packets]
        assert index.timescale == stream.time_base.denominator  # type: ignore[union-attr]  # never None here
        assert index.extradata == stream.codec_context.extradata


def test_audio_track_first(tmp_path: Path) -> None:
    path = write_video(tmp_path / "sound.mp4", pictures(12), "libx264", B_FRAMES, audio=True)
    kinds = [track.kind for track in parse_movie(path.read_bytes()).tracks]
    assert kinds == ["soun", "vide"]
    check_all(path, 12)


def test_moov_in_front(tmp_path: Path) -> None:
    path = write_video(
        tmp_path / "f.mp4", pictures(12), "libx264", B_FRAMES, container_options={"movflags": "faststart"}
    )
    assert [name for name, _ in split_boxes(path.read_bytes())][:2] == ["ftyp", "moov"]
    check_all(path, 12)
    head = path.read_bytes()[: path.read_bytes().index(b"mdat") + 4]
    part = build_index(head, "head", total_bytes=path.stat().st_size)
    assert np.array_equal(part.offset, index_file(path).offset)


def test_long_offsets(tmp_path: Path, b_frames: Path) -> None:
    path = tmp_path / "co64.mp4"
    path.write_bytes(shift_chunks(b_frames.read_bytes(), 0, "co64"))
    assert b"co64" in path.read_bytes()
    check_all(path, 20)


def test_long_media_box(tmp_path: Path, b_frames: Path) -> None:
    def change(name: str, body: bytes) -> bytes | None:
        return struct.pack(">I4sQ", 1, b"mdat", 16 + len(body)) + body if name == "mdat" else None

    path = tmp_path / "long.mp4"
    path.write_bytes(rewrite(shift_chunks(b_frames.read_bytes(), 8), change))
    check_all(path, 20)


def test_compact_sizes(tmp_path: Path, b_frames: Path) -> None:
    def change(name: str, body: bytes) -> bytes | None:
        if not name.endswith("stbl/stsz"):
            return None
        sizes = np.frombuffer(body, ">u4", offset=12)
        return box("stz2", bytes(7), b"\x10", struct.pack(">I", len(sizes)), sizes.astype(">u2").tobytes())

    assert int(index_file(b_frames).size.max()) < 65536
    path = tmp_path / "stz2.mp4"
    path.write_bytes(rewrite(b_frames.read_bytes(), change))
    assert np.array_equal(index_file(path).size, index_file(b_frames).size)


def test_one_sample_per_chunk(tmp_path: Path, b_frames: Path) -> None:
    known = index_file(b_frames)

    def change(name: str, body: bytes) -> bytes | None:
        if name.endswith("stbl/stsc"):
            return box("stsc", bytes(4), struct.pack(">IIII", 1, 1, 1, 1))
        if name.endswith("stbl/stco"):
            return box("stco", bytes(4), struct.pack(">I", len(known.offset)), known.offset.astype(">u4").tobytes())
        return None

    path = tmp_path / "chunks.mp4"
    path.write_bytes(rewrite(b_frames.read_bytes(), change))
    # The tables grew, but FFmpeg wrote the media before them: the offsets are still right.
    assert np.array_equal(index_file(path).offset, known.offset)
    check_all(path, 20)


def edit_list(edits: list[tuple[int, int]]) -> bytes:
    return box("elst", bytes(4), struct.pack(">I", len(edits)), *(struct.pack(">Iihh", *edit, 1, 0) for edit in edits))


def test_edit_list_offset_and_empty_edit(tmp_path: Path, b_frames: Path) -> None:
    delay = int(next(edit.media_time for edit in parse_movie(b_frames.read_bytes()).video.edits))
    assert delay == 1024  # two frames at 512 ticks

    def change(name: str, _: bytes) -> bytes | None:
        return edit_list([(500, -1), (667, delay)]) if name.endswith("edts/elst") else None

    path = tmp_path / "late.mp4"
    path.write_bytes(rewrite(b_frames.read_bytes(), change))
    index = index_file(path)
    assert index.n == 20
    assert index.seconds[0] == 0.5
    with av.open(str(path)) as container:
        shown = [float(frame.pts * frame.time_base) for frame in container.decode(video=0)]  # type: ignore[operator]
    assert np.allclose(index.seconds, shown)


def test_edit_list_cuts_frames(tmp_path: Path) -> None:
    source = write_video(tmp_path / "whole.mp4", pictures(20), "libx264", {"g": "5", "bf": "0"})

    def change(name: str, _: bytes) -> bytes | None:
        return edit_list([(200, 5 * 512)]) if name.endswith("edts/elst") else None

    path = tmp_path / "cut.mp4"
    path.write_bytes(rewrite(source.read_bytes(), change))
    expected = decode_all(source)[5:11]
    with VideoFile(path) as video:
        assert video.index.n == 6
        assert video.index.ticks[0] == 0
        assert np.array_equal(video.read(range(6), layout="HWC"), expected)
    assert len(decode_all(path)) == 6


def test_several_edits_are_refused(tmp_path: Path, b_frames: Path) -> None:
    def change(name: str, _: bytes) -> bytes | None:
        return edit_list([(100, 1024), (100, 5120)]) if name.endswith("edts/elst") else None

    path = tmp_path / "pieces.mp4"
    path.write_bytes(rewrite(b_frames.read_bytes(), change))
    with pytest.raises(ContainerError, match="several pieces"):
        index_file(path)


def test_negative_composition_offsets_in_both_versions(tmp_path: Path, b_frames: Path) -> None:
    known = index_file(b_frames)
    for version in (0, 1):

        def change(name: str, body: bytes, version: int = version) -> bytes | None:
            if name.endswith("stbl/ctts"):
                runs = table(body, ">i4").reshape(-1, 2).copy()
                runs[:, 1] -= 1024
                return box(
                    "ctts", bytes([version, 0, 0, 0]), struct.pack(">I", len(runs)), runs.astype(">i4").tobytes()
                )
            return edit_list([(667, 0)]) if name.endswith("edts/elst") else None

        path = tmp_path / f"v{version}.mp4"
        path.write_bytes(rewrite(b_frames.read_bytes(), change))
        assert np.array_equal(index_file(path).pts, known.pts)


def test_encrypted_and_several_entries_are_refused(b_frames: Path) -> None:
    data = b_frames.read_bytes()

    def encrypted(name: str, body: bytes) -> bytes | None:
        return box("stsd", body.replace(b"avc1", b"encv")) if name.endswith("stbl/stsd") else None

    def double(name: str, body: bytes) -> bytes | None:
        return box("stsd", bytes(4), struct.pack(">I", 2), body[8:], body[8:]) if name.endswith("stbl/stsd") else None

    def strange(name: str, body: bytes) -> bytes | None:
        return box("stsd", body.replace(b"avc1", b"xyz1")) if name.endswith("stbl/stsd") else None

    for change, words in ((encrypted, "encrypted"), (double, "one sample entry"), (strange, "not known")):
        with pytest.raises(ContainerError, match=words):
            build_index(rewrite(data, change), "x.mp4")


def test_errors_name_file_and_box(tmp_path: Path, b_frames: Path) -> None:
    data = b_frames.read_bytes()

    def without(name: str, _: bytes) -> bytes | None:
        return b"" if name.endswith("stbl/stsz") else None

    with pytest.raises(ContainerError, match=r"clip\.mp4, box moov/trak/mdia/minf/stbl"):
        build_index(rewrite(data, without), "clip.mp4")

    def huge(name: str, body: bytes) -> bytes | None:
        return box("stsz", body[:8], b"\xff\xff\xff\xf0", body[12:]) if name.endswith("stbl/stsz") else None

    with pytest.raises(ContainerError, match="cut off"):
        build_index(rewrite(data, huge), "clip.mp4")
    with pytest.raises(ContainerError, match="no 'moov' box"):
        build_index(data[: data.index(b"moov") - 4], "clip.mp4")
    moov = data[data.index(b"moov") - 4 :]
    with pytest.raises(ContainerError, match="beyond the end"):
        build_index(moov, "clip.mp4")
    with pytest.raises(DamagedFileError, match="missing"):
        index_file(tmp_path / "missing.mp4")
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(ContainerError, match="empty"):
        index_file(tmp_path / "empty.mp4")
    (tmp_path / "text.mp4").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ContainerError):
        index_file(tmp_path / "text.mp4")


def test_A63_a_shorter_video_shows_its_own_count(tmp_path: Path) -> None:
    index = index_file(write_video(tmp_path / "short.mp4", pictures(5)))
    assert index.n == 5
    assert len(index) == 5
    assert "5 frames" in repr(index)
