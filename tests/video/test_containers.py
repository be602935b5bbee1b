"""The containers of others: every frame, reached at random, equals a full decode; what cannot be right is refused."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import av
import numpy as np
import pytest

from rolltape.errors import ContainerError, DecodeError, RolltapeError, VideoError
from rolltape.format import Rate
from rolltape.video import VideoFile, build_index, index_file, parse_movie
from rolltape.video.moov import Layout, head
from rolltape.video.packets import Source, cut, cut_points, join
from video.clips import B_FRAMES, box, decode_all, pictures, rewrite, shift_chunks, split_boxes, write_video
from video.test_index import check_all, edit_list

RATE = Rate.parse(30)
OPEN = "log-level=error:keyint=8:min-keyint=8:bframes=4:open-gop=1:scenecut=0:b-adapt=0"
CLOSED = "log-level=error:keyint=8:min-keyint=8:bframes=3:open-gop=0:scenecut=0:b-adapt=0"
STEADY = {**B_FRAMES, "sc_threshold": "0"}
LEADING = {
    "hevc, RASL": ("libx265", {"x265-params": OPEN, "crf": "24"}),
    "hevc, RASL, no pyramid": ("libx265", {"x265-params": OPEN + ":b-pyramid=0", "crf": "24"}),
    "hevc, RADL": ("libx265", {"x265-params": CLOSED + ":radl=3", "crf": "24"}),
    "hevc, closed": ("libx265", {"x265-params": CLOSED, "crf": "24"}),
    "h264, open": ("libx264", {**STEADY, "x264-params": "open-gop=1:keyint=8:bframes=3"}),
}


@pytest.fixture(scope="module")
def b_frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("containers") / "b.mp4", pictures(36), "libx264", STEADY)


@pytest.mark.parametrize("kind", LEADING)
def test_leading_pictures(tmp_path: Path, kind: str) -> None:
    path = write_video(tmp_path / "clip.mp4", pictures(45), *LEADING[kind])
    index = index_file(path)
    starts = index.pts[np.flatnonzero(index.key)[1:]]
    after = index.pts[np.flatnonzero(index.key)[1:] + 1]
    assert len(starts) >= 3
    if "closed" not in kind:
        assert (after < starts).all(), "the test wants pictures that follow a keyframe and are shown before it"
    check_all(path, 45)
    expected = decode_all(path)
    rng = np.random.default_rng(3)
    with VideoFile(path) as video:
        for _ in range(40):
            some = rng.integers(0, 45, rng.integers(1, 6)).tolist()
            assert np.array_equal(video.read(some, layout="HWC"), [expected[k] for k in some]), some


def test_a_stream_that_starts_in_an_open_gop(tmp_path: Path) -> None:
    """Its first leading pictures lean on a keyframe that is not there: an error names them, the others are right."""
    whole = write_video(tmp_path / "whole.mp4", pictures(32), *LEADING["hevc, RASL"])
    index, data = index_file(whole), whole.read_bytes()
    first = int(np.flatnonzero(index.key)[1])
    rank = np.argsort(np.argsort(index.pts[first:]))
    lead = int(rank[0])
    assert lead > 0
    sizes = index.size[first:]
    layout = Layout(
        entry=index.entry,
        width=index.width,
        height=index.height,
        rotation=0,
        timescale=15360,
        step=512,
        sizes=sizes,
        frames=rank,
        keys=np.flatnonzero(index.key[first:]),
    )
    parts = [data[at : at + n] for at, n in zip(index.offset[first:].tolist(), sizes.tolist())]
    path = tmp_path / "tail.mp4"
    path.write_bytes(head(layout) + b"".join(parts))
    expected = decode_all(whole)[32 - len(sizes) :]
    with VideoFile(path) as video:
        assert video.index.n == len(sizes)
        for k in [*range(len(sizes) - 1, lead - 1, -1), lead]:
            assert np.array_equal(video.read([k], layout="HWC")[0], expected[k]), k
        for k in range(lead):
            with pytest.raises(DecodeError, match=f"frame {k}"):
                video.read([k])
    assert len(decode_all(path)) == len(sizes) - lead


def test_b_frames_across_cuts(tmp_path: Path, b_frames: Path) -> None:
    points = cut_points(index_file(b_frames)).tolist()
    assert points == [0, 12, 24, 36]
    expected = decode_all(b_frames)
    for first, last in itertools.combinations(points, 2):
        assert cut(Source(b_frames, first, last - first), tmp_path / "cut.mp4", RATE) == last - first
        check_all(tmp_path / "cut.mp4", last - first)
        assert np.array_equal(decode_all(tmp_path / "cut.mp4"), expected[first:last])
    parts = [Source(b_frames, 24, 12), Source(b_frames, 0, 12), Source(b_frames, 12, 24)]
    assert join(parts, tmp_path / "mixed.mp4", RATE) == 48
    check_all(tmp_path / "mixed.mp4", 48)
    assert np.array_equal(decode_all(tmp_path / "mixed.mp4"), [*expected[24:], *expected[:12], *expected[12:]])


@pytest.mark.parametrize("frame", [0, 1, 2, 3, 5, 11, 12, 13, 30, 35])
@pytest.mark.parametrize("empty", [0, 250])
def test_edits_that_begin_anywhere_among_b_frames(tmp_path: Path, b_frames: Path, frame: int, empty: int) -> None:
    delay = next(edit.media_time for edit in parse_movie(b_frames.read_bytes()).video.edits)
    length = min(8, 36 - frame)

    def change(name: str, _: bytes) -> bytes | None:
        if not name.endswith("edts/elst"):
            return None
        shown = (length * 1000 // 30, delay + 512 * frame)  # movie ticks are milliseconds
        return edit_list([(empty, -1), shown] if empty else [shown])

    path = tmp_path / "edited.mp4"
    path.write_bytes(rewrite(b_frames.read_bytes(), change))
    expected = decode_all(b_frames)[frame : frame + length]
    with VideoFile(path) as video:
        assert video.index.n == length
        assert video.index.seconds[0] == pytest.approx(empty / 1000, abs=1e-9)
        assert np.array_equal(video.read(range(length), layout="HWC"), expected)
        for k in reversed(range(length)):
            assert np.array_equal(video.read([k], layout="HWC")[0], expected[k])
    assert np.array_equal(decode_all(path), expected), "FFmpeg shows the same frames"
    if length < 36:
        with pytest.raises(VideoError, match="hides"):
            join([path], tmp_path / "out.mp4", RATE)


def test_edits_that_repeat_or_change_the_speed_are_refused(b_frames: Path) -> None:
    def rated(whole: int, part: int) -> bytes:
        return box("elst", bytes(4), struct.pack(">IIihh", 1, 500, 1024, whole, part))

    wide = box("elst", b"\1\0\0\0", struct.pack(">IQqhh", 1, 2**63, 1024, 1, 0))
    lists = {
        "repeat": edit_list([(200, 1024), (200, 1024)]),
        "an empty edit in the middle": edit_list([(200, 1024), (100, -1), (200, 5120)]),
        "twice as fast": rated(2, 0),
        "half as fast": rated(0, -(2**15)),
        "a still": rated(0, 0),
        "backwards": rated(-1, 0),
    }
    for name, changed in lists.items():
        data = replaced(b_frames, changed)
        with pytest.raises(ContainerError, match="several pieces or at another speed"):
            build_index(data, name)
    assert build_index(replaced(b_frames, wide)).n == 36


def replaced(path: Path, edits: bytes) -> bytes:
    """The file with another edit list."""
    return rewrite(path.read_bytes(), lambda name, _: edits if name.endswith("edts/elst") else None)


@pytest.mark.parametrize(("degrees", "matrix"), [(90, (0, 1, -1, 0)), (180, (-1, 0, 0, -1)), (270, (0, -1, 1, 0))])
@pytest.mark.parametrize("fragmented", [False, True])
def test_rotated(tmp_path: Path, degrees: int, matrix: tuple[int, ...], fragmented: bool) -> None:
    options = {"movflags": "frag_keyframe+empty_moov"} if fragmented else None
    source = write_video(tmp_path / "flat.mp4", pictures(14), "libx264", B_FRAMES, container_options=options)

    def change(name: str, body: bytes) -> bytes | None:
        if name != "moov/trak/tkhd":
            return None
        assert body[0] == 0  # version
        a, b, c, d = (value << 16 for value in matrix)
        return box("tkhd", body[:40], struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30), body[76:])

    path = tmp_path / "turned.mp4"
    path.write_bytes(rewrite(source.read_bytes(), change))
    expected = [np.rot90(picture, -degrees // 90) for picture in decode_all(source)]
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        assert getattr(frame, "rotation", degrees - 360) % 360 in (degrees, 360 - degrees)
    with VideoFile(path) as video:
        assert video.index.rotation == degrees
        assert video.index.picture_size == expected[0].shape[:2]
        assert np.array_equal(video.read(range(14), layout="HWC"), expected)
        for k in (13, 0, 6, 5, 7):
            assert np.array_equal(video.read([k], layout="HWC")[0], expected[k])
            assert np.array_equal(video.read([k])[0].transpose(1, 2, 0), expected[k])
    join([path], tmp_path / "joined.mp4", RATE)
    with VideoFile(tmp_path / "joined.mp4") as video:
        assert video.index.rotation == degrees
        assert np.array_equal(video.read(range(14), layout="HWC"), expected)


@pytest.mark.parametrize("fragmented", [False, True])
def test_encrypted_is_refused(tmp_path: Path, fragmented: bool) -> None:
    options = {
        "encryption_scheme": "cenc-aes-ctr",
        "encryption_key": "76a6c65c5ea762046bd749a2e632ccbb",
        "encryption_kid": "a7e61c373e219033c21091fa607bf3b8",
        **({"movflags": "frag_keyframe+empty_moov"} if fragmented else {}),
    }
    path = write_video(tmp_path / "secret.mp4", pictures(8), container_options=options)
    assert b"encv" in path.read_bytes()
    with pytest.raises(ContainerError, match=r"encrypted[\s\S]*secret\.mp4"):
        index_file(path)
    with pytest.raises(RolltapeError, match="encrypted"):
        VideoFile(path)
    # Signs of it that stand alone: the sample entry under its own name, or only the samples' keys.
    data = path.read_bytes().replace(b"encv", b"avc1")
    with pytest.raises(ContainerError, match="encrypted"):
        build_index(data)
    if b"senc" in data:
        with pytest.raises(ContainerError, match="encrypted"):
            build_index(data.replace(b"sinf", b"free"))


def test_several_sample_entries_are_refused(tmp_path: Path, b_frames: Path) -> None:
    other = write_video(tmp_path / "other.mp4", pictures(5), "libx265", {"x265-params": "log-level=error"})
    entry = next(body for path, body in walk(other.read_bytes()) if path.endswith("stbl/stsd"))[8:]

    def both(name: str, body: bytes) -> bytes | None:
        return box("stsd", bytes(4), struct.pack(">I", 2), body[8:], entry) if name.endswith("stbl/stsd") else None

    def second(name: str, body: bytes) -> bytes | None:
        return box("stsc", body[:16], struct.pack(">I", 2), body[20:]) if name.endswith("stbl/stsc") else None

    for change, words in ((both, "exactly one sample entry"), (second, "several sample entries")):
        with pytest.raises(ContainerError, match=words):
            build_index(rewrite(b_frames.read_bytes(), change), "several.mp4")


def walk(data: bytes, path: str = "") -> list[tuple[str, bytes]]:
    """Every box with its path."""
    found = []
    for name, body in split_boxes(data):
        here = f"{path}/{name}".lstrip("/")
        found.append((here, body))
        if name in ("moov", "trak", "mdia", "minf", "stbl", "edts"):
            found += walk(body, here)
    return found


def test_more_than_four_gibibytes(tmp_path: Path, b_frames: Path) -> None:
    """The pictures lie behind a hole of 5 GiB: 64-bit chunk offsets and box sizes."""
    gap = 5 << 30
    order = [name for name, _ in split_boxes(b_frames.read_bytes())]
    assert order.index("mdat") < order.index("moov")
    grown = shift_chunks(b_frames.read_bytes(), gap, "co64")
    at = next(k for k in range(4096) if grown[k + 4 : k + 8] == b"mdat")
    path = tmp_path / "long.mp4"
    with open(path, "wb") as file:
        file.write(grown[:at] + struct.pack(">I4sQ", 1, b"free", gap))
        file.seek(at + gap)
        file.write(grown[at:])
    assert path.stat().st_size > gap
    assert path.stat().st_blocks * 512 < 1 << 24, "the hole takes no space"
    index = index_file(path)
    assert int(index.offset.min()) > gap
    expected = decode_all(b_frames)
    with VideoFile(path) as video:
        assert np.array_equal(video.read([35, 0, 13], layout="HWC"), [expected[k] for k in (35, 0, 13)])
    assert join([Source(path, 12, 24)], tmp_path / "short.mp4", RATE) == 24
    assert np.array_equal(decode_all(tmp_path / "short.mp4"), expected[12:])


def test_a_head_for_more_than_four_gibibytes() -> None:
    """What a join of that size would write: 64-bit chunk offsets that point at each sample."""
    sizes = np.full(400, 20 << 20, np.int64)
    layout = Layout(
        entry=box("avc1", bytes(24), struct.pack(">HH", 64, 48), bytes(50), box("avcC", b"\1abc")),
        width=64,
        height=48,
        rotation=0,
        timescale=15360,
        step=512,
        sizes=sizes,
        frames=np.arange(400),
        keys=np.arange(0, 400, 2),
    )
    data = head(layout)
    assert b"co64" in data
    index = build_index(data, "long.mp4", total_bytes=len(data) + int(sizes.sum()))
    assert index.offset.tolist() == [len(data) + k * (20 << 20) for k in range(400)]
    assert index.is_grid(RATE)
