"""Fragmented MP4: the files of others, boxes arranged by hand, and files cut anywhere, against a full decode."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from rolltape.errors import ContainerError
from rolltape.format import Rate
from rolltape.video import VideoFile, build_index, index_file, parse_movie
from rolltape.video.packets import Source, join, whole_prefix
from video.clips import B_FRAMES, box, decode_all, pictures, split_boxes, write_video
from video.test_index import check_all

RATE = Rate.parse(30)
CODECS = {
    "h264": ("libx264", B_FRAMES),
    "av1": ("libsvtav1", {"g": "5", "preset": "12"}),
    "hevc": ("libx265", {"x265-params": "log-level=error:keyint=8:bframes=3", "crf": "20"}),
}
FLAGS = (
    "frag_keyframe+empty_moov+default_base_moof",
    "frag_keyframe",  # the first pictures are in moov
    "frag_keyframe+delay_moov",  # with an edit list
    "frag_keyframe+empty_moov+negative_cts_offsets",
    "frag_keyframe+empty_moov+separate_moof",
    "frag_keyframe+empty_moov+omit_tfhd_offset",  # data without any base
    "dash+frag_keyframe",  # with sidx
    "cmaf+frag_keyframe",
)


@pytest.fixture(autouse=True)
def _quiet_svt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVT_LOG", "1")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("fragments") / "plain.mp4", pictures(20), "libx264", B_FRAMES)


@pytest.fixture(scope="module")
def fragmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fragments") / "frag.mp4"
    options = {"movflags": "empty_moov+default_base_moof", "frag_duration": "100000"}
    return write_video(path, pictures(20), "libx264", B_FRAMES, container_options=options)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("audio", [False, True], ids=["silent", "sound"])
def test_every_frame_of_what_ffmpeg_writes(tmp_path: Path, flags: str, codec: str, audio: bool) -> None:
    path = tmp_path / "clip.mp4"
    write_video(path, pictures(27), *CODECS[codec], audio=audio, container_options={"movflags": flags})
    assert parse_movie(path.read_bytes()).fragmented
    index = index_file(path)
    with av.open(str(path)) as container:
        found = [packet for packet in container.demux(container.streams.video[0]) if packet.size]
    assert index.size.tolist() == [packet.size for packet in found]
    assert index.offset.tolist() == [packet.pos for packet in found]
    assert index.key.tolist() == [packet.is_keyframe for packet in found]
    # With negative offsets FFmpeg's demuxer delays all pictures by the same time; the standard does not.
    assert np.diff(index.pts).tolist() == np.diff([packet.pts for packet in found]).tolist()
    expected = decode_all(path)
    with VideoFile(path) as video:
        assert np.array_equal(video.read(range(27), layout="HWC"), expected)
        for rank in (26, 0, 13, 7, 8, 9, 6, 25):
            assert np.array_equal(video.read([rank], layout="HWC")[0], expected[rank])


def test_every_frame_at_random(fragmented: Path) -> None:
    check_all(fragmented, 20)


def test_hybrid_files_have_their_tables_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "hybrid.mp4"
    try:
        write_video(path, pictures(12), container_options={"movflags": "hybrid_fragmented+frag_keyframe"})
    except av.error.FFmpegError:
        pytest.skip("this FFmpeg does not write hybrid files")
    check_all(path, 12)


def movie(plain: Path, fragments: Callable[[int], list[bytes]], trex: tuple[int, ...] = (1, 512, 0, 0x10000)) -> bytes:
    """A fragmented MP4 by hand: the head of an ordinary one without its samples, then what `fragments(start)` gives."""
    head = {name: body for name, body in split_boxes(plain.read_bytes()) if name in ("ftyp", "moov")}
    tables = {"stts": 0, "ctts": 0, "stss": 0, "stsc": 0, "stsz": 1, "stco": 0}

    def emptied(span: bytes, path: str = "") -> bytes:
        out = []
        for name, body in split_boxes(span):
            if name in ("edts", "ctts", "stss"):
                continue
            if name in tables:
                body = bytes(8 + 4 * tables[name])
            elif name in ("trak", "mdia", "minf", "stbl"):
                body = emptied(body)
            out.append(box(name, body))
        return b"".join(out)

    number = parse_movie(plain.read_bytes()).video.number
    mvex = box("mvex", box("trex", bytes(4), struct.pack(">5I", number, *trex)))
    start = box("ftyp", head["ftyp"]) + box("moov", emptied(head["moov"]), mvex)
    return start + b"".join(fragments(len(start)))


def samples_of(path: Path) -> tuple[list[bytes], list[int], list[bool]]:
    """Bytes, presentation minus decode time, and whether it is a keyframe, of each sample."""
    index, data = index_file(path), path.read_bytes()
    parts = [data[a : a + n] for a, n in zip(index.offset.tolist(), index.size.tolist())]
    return parts, (index.pts - np.arange(index.n) * 512).tolist(), index.key.tolist()


TRUN = 0x1 | 0x200 | 0x400 | 0x800  # offset, sizes, flags, shifts


def trun(version: int, offset: int, rows: list[tuple[int, int, int]], flags: int = TRUN) -> bytes:
    body = b"".join(struct.pack(">IIi", *row) for row in rows)
    place = struct.pack(">i", offset) if flags & 1 else b""
    return box("trun", struct.pack(">II", version << 24 | flags, len(rows)), place, body)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("base", ["moof", "given", "none"])
def test_runs_by_hand(tmp_path: Path, plain: Path, version: int, base: str) -> None:
    parts, shifts, keys = samples_of(plain)
    rows = [(len(part), 0 if key else 0x10000, shift) for part, key, shift in zip(parts, keys, shifts)]

    def fragments(start: int) -> list[bytes]:
        out: list[bytes] = []
        for first in range(0, 20, 7):
            some = rows[first : first + 7]

            def moof(begin: int, length: int, first: int = first, some: list[tuple[int, int, int]] = some) -> bytes:
                # Two runs in one fragment; the second says nothing of its place: it follows the first.
                flags = {"moof": 0x20000, "given": 0x1, "none": 0}[base]
                place = struct.pack(">Q", begin) if base == "given" else b""
                tfhd = box("tfhd", struct.pack(">II", flags, 1), place)
                width = "Q" if version else "I"
                tfdt = box("tfdt", struct.pack(f">I{width}", version << 24, 512 * first))
                runs = trun(version, length + 8, some[:3]) + trun(version, 0, some[3:], TRUN - 1)
                return box("moof", box("mfhd", bytes(8)), box("traf", tfhd, tfdt, runs))

            begin = start + sum(map(len, out))
            out.append(moof(begin, len(moof(begin, 0))))
            out.append(box("mdat", b"".join(parts[first : first + 7])))
        return out

    path = tmp_path / "hand.mp4"
    path.write_bytes(movie(plain, fragments))
    known, index = index_file(plain), index_file(path)
    assert index.pts.tolist() == known.pts.tolist()
    assert index.key.tolist() == known.key.tolist()
    assert index.entry == known.entry
    expected = decode_all(plain)
    with VideoFile(path) as video:
        assert np.array_equal(video.read(range(20), layout="HWC"), expected)
        assert all(np.array_equal(video.read([k], layout="HWC")[0], expected[k]) for k in (19, 3, 12, 0))


def test_defaults_first_flags_and_a_clock_that_goes_on(tmp_path: Path) -> None:
    """Nothing but sizes in the table: durations and flags are defaults, the first sample's flags stand alone."""
    plain = write_video(tmp_path / "plain.mp4", pictures(8), "libx264", {"g": "4", "bf": "0"})
    parts, _, _ = samples_of(plain)

    def fragments(_: int) -> list[bytes]:
        out = []
        for first in (0, 4):
            some = parts[first : first + 4]
            sizes = b"".join(struct.pack(">I", len(part)) for part in some)

            def moof(length: int, sizes: bytes = sizes) -> bytes:
                tfhd = box("tfhd", struct.pack(">II", 0x20000, 1))  # and no tfdt: time goes on
                run = box("trun", struct.pack(">IIiI", 0x1 | 0x4 | 0x200, 4, length + 8, 0), sizes)
                return box("moof", box("mfhd", bytes(8)), box("traf", tfhd, run))

            out += [moof(len(moof(0))), box("mdat", *some)]
        return out

    path = tmp_path / "hand.mp4"
    path.write_bytes(movie(plain, fragments))
    index = index_file(path)
    assert index.is_grid(RATE)
    assert np.flatnonzero(index.key).tolist() == [0, 4]
    with VideoFile(path) as video:
        assert np.array_equal(video.read(range(8), layout="HWC"), decode_all(plain))


def test_data_beyond_four_gibibytes(tmp_path: Path, plain: Path) -> None:
    parts, shifts, keys = samples_of(plain)
    rows = [(len(part), 0 if key else 0x10000, shift) for part, key, shift in zip(parts, keys, shifts)]
    gap = 5 << 30

    def fragments(start: int) -> list[bytes]:
        del start
        tfhd = box("tfhd", struct.pack(">II", 0x20000, 1))

        def moof(length: int) -> bytes:
            return box("moof", box("mfhd", bytes(8)), box("traf", tfhd, trun(1, length + 8, rows)))

        return [moof(len(moof(0))), box("mdat", *parts)]

    whole = movie(plain, fragments)
    at = whole.index(b"moof") - 4
    path = tmp_path / "long.mp4"
    with open(path, "wb") as file:  # a hole of 5 GiB before the fragment
        file.write(whole[:at] + struct.pack(">I4sQ", 1, b"free", gap))
        file.seek(at + gap)
        file.write(whole[at:])
    assert path.stat().st_blocks * 512 < 1 << 24
    index = index_file(path)
    assert int(index.offset[0]) > gap
    with VideoFile(path) as video:
        assert np.array_equal(video.read([0, 7, 19], layout="HWC"), [decode_all(plain)[k] for k in (0, 7, 19)])
    assert join([path], tmp_path / "short.mp4", RATE) == 20
    check_all(tmp_path / "short.mp4", 20)


def test_cut_anywhere(tmp_path: Path, fragmented: Path) -> None:
    data, known = fragmented.read_bytes(), index_file(fragmented)
    head = data.index(b"moof") - 4
    ends = (known.offset + known.size).tolist()
    boundaries = {0, head}
    at = 0
    for _, body in split_boxes(data):
        at += 8 + len(body)
        boundaries.add(at)
    path = tmp_path / "cut.mp4"
    for length in [*range(0, len(data), 97), *sorted(boundaries), *(end for end in ends), *(end - 1 for end in ends)]:
        part = data[:length]
        path.write_bytes(part)
        if length < head:
            with pytest.raises(ContainerError):
                build_index(part, "cut.mp4", allow_cut=True)
            continue
        index = build_index(part, "cut.mp4", allow_cut=True)
        # A sample counts when its own bytes are there, and so are the boxes that tell of it.
        assert len(index.pts) == sum(end <= length for end in ends), length
        assert index.pts.tolist() == known.pts[: len(index.pts)].tolist()
        if length not in boundaries:
            with pytest.raises(ContainerError, match=r"cut off[\s\S]*cut\.mp4"):
                build_index(part, "cut.mp4")
    assert index_file(path, allow_cut=True).n < 20


def test_what_is_left_of_a_cut_file_decodes(tmp_path: Path, fragmented: Path) -> None:
    expected, data = decode_all(fragmented), fragmented.read_bytes()
    for length in range(data.index(b"moof") + 500, len(data), 1531):
        path = tmp_path / "cut.mp4"
        path.write_bytes(data[:length])
        index = index_file(path, allow_cut=True)
        whole = index.prefix(whole_prefix(index, RATE))
        assert whole.n == len(whole.pts) <= index.n
        if whole.n:
            assert join([Source(path, index=whole)], tmp_path / "kept.mp4", RATE) == whole.n
            with VideoFile(tmp_path / "kept.mp4") as video:
                assert video.index.is_grid(RATE)
                assert video.index.rate == 30
                assert np.array_equal(video.read(range(whole.n), layout="HWC"), expected[: whole.n])


def test_zeros_at_the_end(fragmented: Path) -> None:
    data = fragmented.read_bytes()
    for zeros in (3, 8, 5000):
        padded = data + bytes(zeros)
        assert build_index(padded, "z.mp4", allow_cut=True).n == 20
        with pytest.raises(ContainerError, match="cut off"):
            build_index(padded, "z.mp4")
    last = data.rindex(b"moof")
    torn = data[: last + 60] + bytes(len(data) - last - 60)
    assert 0 < build_index(torn, "z.mp4", allow_cut=True).n < 20


def test_an_ordinary_file_that_is_cut_off_stays_refused(plain: Path) -> None:
    data = plain.read_bytes()
    with pytest.raises(ContainerError, match="cut off"):
        build_index(data[: len(data) // 2], "p.mp4", allow_cut=True)


def test_a_part_of_a_fragmented_file_is_not_enough(fragmented: Path) -> None:
    data = fragmented.read_bytes()
    with pytest.raises(ContainerError, match="only the whole file"):
        build_index(data[: data.index(b"mdat")], "part.mp4", total_bytes=len(data))


def change_first(data: bytes, name: bytes, at: int, form: str, value: int) -> bytes:
    """A number `at` bytes into the body of the first box of that name."""
    changed = bytearray(data)
    struct.pack_into(form, changed, data.index(name) + 4 + at, value)
    return bytes(changed)


def test_refused_with_a_reason(fragmented: Path) -> None:
    data = fragmented.read_bytes()
    flags = struct.unpack_from(">I", data, data.index(b"tfhd") + 4)[0]
    assert not flags & 0x2
    cases = {
        "no 'tfhd'|'tfhd' is missing": data.replace(b"tfhd", b"free", 1),
        "encrypted": data.replace(b"tfdt", b"senc", 1),
        "cut off": change_first(data, b"trun", 4, ">I", 0xFFFFFFF0),
        "overflows": change_first(change_first(data, b"tfdt", 0, ">B", 1), b"tfdt", 4, ">Q", 2**63),
        "beyond the end": change_first(data, b"trun", 8, ">i", 2**31 - 1),
    }
    for words, changed in cases.items():
        with pytest.raises(ContainerError, match=words):
            build_index(changed, "bad.mp4")


def test_other_sample_entries_are_refused(plain: Path) -> None:
    def fragments(_: int) -> list[bytes]:
        tfhd = box("tfhd", struct.pack(">III", 0x20002, 1, 2))
        return [box("moof", box("mfhd", bytes(8)), box("traf", tfhd, trun(1, 100, [(4, 0, 0)]))), box("mdat", bytes(8))]

    with pytest.raises(ContainerError, match="several sample entries"):
        build_index(movie(plain, fragments), "two.mp4")


def test_runs_without_a_table_are_bounded_by_the_file(plain: Path) -> None:
    def fragments(size: int) -> Callable[[int], list[bytes]]:
        run = box("trun", struct.pack(">IIi", 0x1, 0xFFFFFFFF, 100))
        tfhd = box("tfhd", struct.pack(">III", 0x20010, 1, size))
        return lambda _: [box("moof", box("mfhd", bytes(8)), box("traf", tfhd, *[run] * 50)), box("mdat", bytes(999))]

    for size, words in ((0, "no size"), (1, "beyond the end"), (100, "beyond the end"), (2**32 - 1, "beyond the end")):
        with pytest.raises(ContainerError, match=words):
            build_index(movie(plain, fragments(size)), "wild.mp4")
