"""The boxes of an MP4, read by ourselves: no demuxer, no allocation by a count that the bytes do not bear out.

An MP4 is a tree of boxes (ISO/IEC 14496-12): four bytes of length, four of name, then the body. What a reader needs
lies in `moov`: one `trak` per stream, and in it the sample tables, which are run-length coded (`stts` durations,
`ctts` the distance from decode to presentation time, `stsc` samples per chunk) or flat (`stsz` sizes, `stco`/`co64`
chunk offsets, `stss` keyframes). This module gives those tables as NumPy arrays, exactly as they stand; `samples`
unrolls them.

Everything here is untrusted input. A table is only as long as the bytes that are there, a box lies inside its
parent, and whatever does not add up is a `ContainerError` that names the file and the box.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from rolltape.errors import ContainerError
from rolltape.video.box import Box, Int64Array

__all__ = ["Edit", "Int64Array", "Movie", "RunDefaults", "SampleTables", "Track", "parse_movie"]

_ENTRY_BYTES = 78  # fixed fields of a visual sample entry
_ENCRYPTED = (b"encv", b"enca")


@dataclass(frozen=True, slots=True)
class Edit:
    """One line of an edit list: show `duration` (movie ticks) of the track from `media_time` (track ticks).

    A `media_time` of -1 shows nothing for that long.
    """

    duration: int
    media_time: int
    rate: float


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """What holds for a sample of a fragment that does not say otherwise (`trex`): ticks, bytes, flags."""

    duration: int = 0
    size: int = 0
    flags: int = 0


@dataclass(frozen=True)
class SampleTables:
    """The sample tables of one track as they stand in the file.

    Attributes:
        stts: int64 [k, 2]: runs of (sample count, duration in track ticks).
        ctts: int64 [k, 2]: runs of (sample count, presentation minus decode time), or None.
        stsc: int64 [k, 3]: (first chunk, from 1; samples per chunk; sample entry, from 1).
        sizes: int64 [n]: bytes of each sample, in decode order.
        chunks: int64 [c]: position of each chunk in the file.
        sync: int64 [k]: numbers (from 1) of the keyframes, or None where every sample is one.
    """

    stts: Int64Array
    ctts: Int64Array | None
    stsc: Int64Array
    sizes: Int64Array
    chunks: Int64Array
    sync: Int64Array | None


@dataclass(frozen=True)
class Track:
    """One stream of the movie.

    Attributes:
        number: The track's id.
        kind: The handler: `"vide"`, `"soun"`, ...
        timescale: Ticks per second of this track.
        duration: Length in track ticks, as the header says.
        fourcc: Name of the sample entry, such as `"avc1"`.
        width, height: Size in pixels that the sample entry states (0 for audio).
        rotation: Degrees by which a player turns the picture: 0, 90, 180 or 270.
        entry: The sample entry's own 78 bytes, without the boxes inside it.
        config: Bodies of the boxes inside the sample entry (`avcC`, `av1C`, ...) by name.
        edits: The edit list.
        tables: The sample tables; None for tracks that are not video.
        defaults: For samples in fragments.
    """

    number: int
    kind: str
    timescale: int
    duration: int
    fourcc: str = ""
    width: int = 0
    height: int = 0
    rotation: int = 0
    entry: bytes = b""
    config: dict[str, bytes] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    tables: SampleTables | None = None
    defaults: RunDefaults = RunDefaults()


@dataclass(frozen=True)
class Movie:
    """What `moov` says.

    Attributes:
        timescale: Ticks per second of the movie header (edit list durations count in these).
        tracks: All tracks, in file order.
        fragmented: The samples (or some of them) are in `moof` boxes, not in the tables.
        where: The file's name, for messages.
    """

    timescale: int
    tracks: tuple[Track, ...]
    fragmented: bool
    where: str

    @property
    def video(self) -> Track:
        """The first video track; `ContainerError` where there is none."""
        for track in self.tracks:
            if track.kind == "vide":
                return track
        kinds = ", ".join(track.kind for track in self.tracks) or "no track at all"
        raise ContainerError("The MP4 has no video track.", where=self.where, found=kinds)


def parse_movie(view: bytes | memoryview, where: str = "video") -> Movie:
    r"""Return the tracks and sample tables of an MP4.

    Args:
        view: The bytes of the whole file, or of any part of it that holds the whole `moov` box and starts at a box.
        where: Name for messages.

    Raises:
        ContainerError: The bytes are not an MP4, or a box does not add up. The message names the box.

    Example:
        >>> parse_movie(b"\0\0\0\x08free", "clip.mp4")
        Traceback (most recent call last):
        ...
        rolltape.errors.ContainerError: The file has no 'moov' box: it was never finished, or it is cut off.
          where: clip.mp4
          ...
    """
    data = memoryview(view).cast("B") if not isinstance(view, memoryview) else view
    root = Box(data, 0, len(data), "", where)
    if len(data) < 8:
        raise ContainerError("The file is empty or far too short for an MP4.", where=where, found=f"{len(data)} bytes")
    moov, fragments = _top_level(root)
    if moov is None:
        raise ContainerError(
            "The file has no 'moov' box: it was never finished, or it is cut off.",
            where=where,
            fix="Record or download it again; a take that was interrupted can be recovered by rolltape.",
        )
    header = moov.need("mvhd")
    timescale = header.number("I", 20 if header.number("B", 0) == 1 else 12)
    mvex = moov.child("mvex")
    defaults = _defaults(mvex) if mvex is not None else {}
    tracks = tuple(_track(box, defaults) for name, box in moov.children() if name == "trak")
    return Movie(max(1, timescale), tracks, fragments or mvex is not None, where)


def _top_level(root: Box) -> tuple[Box | None, bool]:
    """The `moov` box, and whether a `moof` was seen. A box that runs over the end is forgiven once `moov` is known."""
    moov: Box | None = None
    fragments = False
    try:
        for name, box in root.children():
            if name == "moov" and moov is None:
                moov = box
            elif name == "moof":
                fragments = True
            elif moov is None and box.start - root.start <= 16 and not name.isprintable():
                raise ContainerError("The file is not an MP4.", where=root.where, found=f"first bytes {name!r}")
    except ContainerError:
        if moov is None:
            raise
    return moov, fragments


def _defaults(mvex: Box) -> dict[int, RunDefaults]:
    """Defaults of the fragments by track."""
    found: dict[int, RunDefaults] = {}
    for name, box in mvex.children():
        if name == "trex":
            track, _, duration, size, flags = box.unpack("IIIII", 4)
            found.setdefault(track, RunDefaults(duration, size, flags))
    return found


def _track(trak: Box, defaults: dict[int, RunDefaults]) -> Track:
    mdia = trak.need("mdia")
    head, handler = mdia.need("mdhd"), mdia.need("hdlr")
    wide = head.number("B", 0) == 1
    timescale, duration = head.unpack("IQ", 20) if wide else head.unpack("II", 12)
    kind = bytes(handler.unpack("4s", 8)[0]).decode("latin-1")
    tkhd = trak.child("tkhd")
    number = tkhd.number("I", 20 if tkhd.number("B", 0) == 1 else 12) if tkhd is not None else 0
    if kind != "vide":
        return Track(number, kind, max(1, timescale), duration)
    if timescale == 0:
        raise head.error("The track's timescale is zero.", expected="ticks per second, at least 1")
    stbl = mdia.need("minf").need("stbl")
    fourcc, entry, config = _sample_entry(stbl.need("stsd"))
    width, height = struct.unpack_from(">HH", entry, 24)
    return Track(
        number,
        kind,
        timescale,
        duration,
        fourcc,
        width,
        height,
        _rotation(tkhd),
        entry,
        config,
        _edits(trak),
        _tables(stbl),
        defaults.get(number, RunDefaults()),
    )


def _rotation(tkhd: Box | None) -> int:
    if tkhd is None:
        return 0
    a, b = tkhd.unpack("ii", 52 if tkhd.number("B", 0) == 1 else 40)
    return {(0, 1): 90, (-1, 0): 180, (0, -1): 270}.get(((a > 0) - (a < 0), (b > 0) - (b < 0)), 0)


def _sample_entry(stsd: Box) -> tuple[str, bytes, dict[str, bytes]]:
    """Name, fixed fields and inner boxes of the only sample entry."""
    entries = list(stsd.children(8))
    if len(entries) != 1:
        raise stsd.error(
            "The video track must have exactly one sample entry.",
            expected="1",
            found=len(entries),
            fix="Encode it again: pictures with several decoder configurations in one track are not read.",
        )
    name, entry = entries[0]
    if name.encode("latin-1") in _ENCRYPTED or entry.start == entry.end:
        raise entry.error("The video is encrypted or its sample entry is empty.")
    width, height = entry.unpack(f"HH{_ENTRY_BYTES - 28}x", 24)
    if not width or not height:
        raise entry.error("The sample entry states no picture size.", found=f"{width}x{height}")
    config: dict[str, bytes] = {}
    for found, box in entry.children(_ENTRY_BYTES):
        if found == "sinf":
            raise box.error("The video is encrypted.")
        config.setdefault(found, bytes(entry.view[box.start : box.end]))
    return name, bytes(entry.view[entry.start : entry.start + _ENTRY_BYTES]), config


def _edits(trak: Box) -> tuple[Edit, ...]:
    edts = trak.child("edts")
    elst = edts.child("elst") if edts is not None else None
    if elst is None:
        return ()
    wide, count = elst.number("B", 0) == 1, elst.number("I", 4)
    step = 20 if wide else 12
    if count * step > elst.end - elst.start - 8:
        raise elst.error("The edit list is cut off.", expected=f"{count} entries")
    rows = [elst.unpack("Qqhh" if wide else "Iihh", 8 + step * i) for i in range(count)]
    return tuple(Edit(duration, time, whole + fraction / 65536) for duration, time, whole, fraction in rows)


def _tables(stbl: Box) -> SampleTables:
    found: dict[str, Box] = {}
    for name, box in stbl.children():
        found.setdefault(name, box)
    if "senc" in found:
        raise found["senc"].error("The video is encrypted.")

    def runs(name: str, columns: int, dtype: str = ">u4") -> Int64Array:
        box = found.get(name)
        if box is None:
            raise stbl.error(f"The box {name!r} is missing.")
        return box.array(dtype, columns, box.number("I", 4), 8)

    ctts: Int64Array | None = None
    if "ctts" in found:
        # Offsets are signed in version 1, and files of version 0 with negative ones exist: read both as signed.
        ctts = runs("ctts", 2, ">i4")
        ctts[:, 0] &= 0xFFFFFFFF
    chunks = runs("co64", 1, ">u8") if "co64" in found else runs("stco", 1)
    sync = runs("stss", 1) if "stss" in found else None
    return SampleTables(runs("stts", 2), ctts, runs("stsc", 3), _sizes(stbl, found), chunks, sync)


def _sizes(stbl: Box, found: dict[str, Box]) -> Int64Array:
    if "stsz" in found:
        box = found["stsz"]
        size, count = box.unpack("II", 4)
        if size == 0:
            return box.array(">u4", 1, count, 12)
        if size * count > len(box.view):  # no table to bound the count: the samples themselves must fit the file
            raise box.error(
                "There are more samples than bytes.", expected=f"{count} x {size} bytes", found=len(box.view)
            )
        return np.full(count, size, np.int64)
    if "stz2" not in found:
        raise stbl.error("The box 'stsz' is missing.")
    box = found["stz2"]
    bits, count = box.number("B", 7), box.number("I", 8)
    if bits == 16:
        return box.array(">u2", 1, count, 12)
    if bits == 8:
        return box.array(">u1", 1, count, 12)
    if bits != 4:
        raise box.error("Unknown field size of the compact sample sizes.", expected="4, 8 or 16 bits", found=bits)
    pairs = box.array(">u1", 1, (count + 1) // 2, 12)
    return np.stack([pairs >> 4, pairs & 15], axis=1).reshape(-1)[:count]
