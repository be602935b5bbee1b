"""The one index of a video: where each frame lies, in which order it is shown, and from which keyframe it is reached.

Reading, joining, cutting, checking and streaming all use this; nobody else opens an MP4 to find a frame.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rolltape.errors import ContainerError, DamagedFileError, FrameTimestampError
from rolltape.video.boxes import Edit, Int64Array, Movie, Track, parse_movie
from rolltape.video.fragments import gather
from rolltape.video.samples import Samples, unroll

if TYPE_CHECKING:
    from rolltape.format.rate import Rate

__all__ = ["MediaIndex", "build_index", "index_file"]

# Sample entry -> (codec, box whose body the decoder takes as its configuration)
_CODECS: dict[str, tuple[str, str | None]] = {
    "avc1": ("h264", "avcC"),
    "avc3": ("h264", "avcC"),
    "hvc1": ("hevc", "hvcC"),
    "hev1": ("hevc", "hvcC"),
    "av01": ("av1", "av1C"),
    "vp09": ("vp9", None),
    "mp4v": ("mpeg4", "esds"),
}
_FURTHEST = 2**60  # ticks; beyond that sums would overflow


@dataclass(frozen=True, repr=False)
class MediaIndex:
    """Every frame of a video, by number.

    A *position* counts samples in decode order (the order in the file); a *rank* counts frames in presentation order.

    Attributes:
        where: The file's name, for messages.
        codec: `"h264"`, `"hevc"`, `"av1"`, `"vp9"` or `"mpeg4"`.
        fourcc: The sample entry's name.
        width, height: Pixels.
        rotation: Degrees by which a player turns the picture.
        timescale: Ticks per second.
        extradata: The decoder's configuration, as a decoder takes it.
        entry: The sample entry whole, with its boxes: what a file with the same packets must say of them.
        offset, size: int64 [n]: bytes of each sample, by position.
        dts, pts: int64 [n]: ticks by position; the edit list is applied, so the first frame shown is at 0 or later.
        span: int64 [n]: ticks that each sample lasts, by position.
        key: bool [n]: keyframes, by position.
        order: int32 [m]: position of the frame with each rank. Samples that the edit list hides have no rank.
        ticks: int64 [m]: presentation time by rank, ascending.
        gop_start: int32 [m]: position of the keyframe from which to decode, by rank; -1 where there is none before it.
        nbytes: Size of the file, or of the bytes that were given.
        duration: Ticks from 0 to the end of the last frame.
    """

    where: str
    codec: str
    fourcc: str
    width: int
    height: int
    rotation: int
    timescale: int
    extradata: bytes
    entry: bytes
    offset: Int64Array
    size: Int64Array
    dts: Int64Array
    pts: Int64Array
    span: Int64Array
    key: npt.NDArray[np.bool_]
    order: npt.NDArray[np.int32]
    ticks: Int64Array
    gop_start: npt.NDArray[np.int32]
    nbytes: int
    duration: int

    def __repr__(self) -> str:
        return f"MediaIndex({self.where!r}, {self.codec} {self.width}x{self.height}, {self.n} frames)"

    @property
    def n(self) -> int:
        """Number of frames shown."""
        return len(self.order)

    def __len__(self) -> int:
        return self.n

    @property
    def picture_size(self) -> tuple[int, int]:
        """Height and width of the pictures as they are shown, after the rotation that the file asks for."""
        return (self.width, self.height) if self.rotation in (90, 270) else (self.height, self.width)

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Presentation times in seconds by rank, float64 [m]."""
        return self.ticks / np.float64(self.timescale)

    @property
    def reorder_delay(self) -> int:
        """By how many frames decoding must run ahead of showing: 0 without B-frames."""
        if not self.n:
            return 0
        rank = np.empty(len(self.pts), np.int64)
        rank[np.argsort(self.pts, kind="stable")] = np.arange(len(self.pts))
        return int((np.arange(len(rank)) - rank).max())

    @property
    def rate(self) -> Fraction:
        """Average frames per second: frames over duration; 0 for an empty video."""
        return Fraction(self.n * self.timescale, self.duration) if self.duration > 0 else Fraction(0)

    def is_grid(self, rate: Rate) -> bool:
        """Whether frame k is shown at k / fps for every k, to within half a tick."""
        num, den = rate.fraction.numerator, rate.fraction.denominator
        wanted = np.arange(self.n, dtype=np.int64) * (self.timescale * den)
        return bool((np.abs(2 * (self.ticks * num - wanted)) <= num).all())

    def frame_of(self, second: float, tolerance: float = 1e-4) -> int:
        """Return the rank of the frame nearest to a time.

        Args:
            second: Time in seconds from the start of the video.
            tolerance: Largest distance in seconds.

        Raises:
            FrameTimestampError: No frame is that near; the message names the nearest one.
        """
        if self.n == 0 or not np.isfinite(second):
            raise FrameTimestampError(
                "The video has no frame at this time.", where=self.where, found=f"{self.n} frames"
            )
        wanted = second * self.timescale
        after = int(np.searchsorted(self.ticks, wanted))
        near = min((k for k in (after - 1, after) if 0 <= k < self.n), key=lambda k: abs(self.ticks[k] - wanted))
        apart = abs(float(self.ticks[near]) / self.timescale - second)
        if apart > tolerance:
            raise FrameTimestampError(
                "No frame is near enough to the wanted time.",
                where=self.where,
                expected=f"{second:.6f} s, within {tolerance} s",
                found=f"frame {near} at {float(self.ticks[near]) / self.timescale:.6f} s",
            )
        return near

    def prefix(self, count: int) -> MediaIndex:
        """Return the index of the first `count` samples in decode order, as of a file that ends behind them."""
        if not 0 <= count <= len(self.pts):
            raise ContainerError(
                "The video has fewer samples.", where=self.where, expected=f"0 to {len(self.pts)}", found=count
            )
        kept = self.order < count
        order, ticks = self.order[kept], self.ticks[kept]
        cut = {name: getattr(self, name)[:count] for name in ("offset", "size", "dts", "pts", "span", "key")}
        duration = int(ticks[-1] + self.span[order[-1]]) if len(order) else 0
        return replace(self, **cut, order=order, ticks=ticks, gop_start=self.gop_start[kept], duration=duration)

    def gop(self, rank: int) -> range:
        """Positions to decode, in order, to see the frame of this rank (it may need a few more for its delay)."""
        return range(int(self.gop_start[rank]), int(self.order[rank]) + 1)


def build_index(
    view: bytes | memoryview, where: str = "video", *, total_bytes: int | None = None, allow_cut: bool = False
) -> MediaIndex:
    """Return the index of an MP4 from its bytes, ordinary or fragmented.

    Args:
        view: The whole file; of an ordinary MP4 also a part that starts at a box and holds the whole `moov`.
        where: Name for messages.
        total_bytes: Size of the whole file when `view` is a part of it; None: `view` is the whole.
        allow_cut: Take a fragmented MP4 that ends anywhere, as a killed recording leaves it: the samples up to the
            first that is not whole, possibly none. In such an index a frame between two others may be missing (see
            `packets.take`).

    Raises:
        ContainerError: Not an MP4, encrypted, an unknown codec, cut off, or tables that do not add up.
    """
    whole = len(view) if total_bytes is None else total_bytes
    movie = parse_movie(view, where)
    track = movie.video
    if not movie.fragmented:
        return _index(movie, track, unroll(movie, track, total_bytes=whole), whole)
    if whole != len(view):
        raise ContainerError(
            "The MP4 is fragmented: only the whole file tells where its frames are.",
            where=where,
            expected=f"{whole} bytes",
            found=f"{len(view)} bytes",
        )
    samples = gather(movie, track, memoryview(view), allow_cut=allow_cut)
    return _index(movie, track, samples, whole)


def index_file(path: str | os.PathLike[str], *, allow_cut: bool = False) -> MediaIndex:
    """Return the index of an MP4 file.

    Args:
        path: The file.
        allow_cut: See `build_index`.

    Raises:
        DamagedFileError: The file is missing or cannot be read.
        ContainerError: See `build_index`.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise ContainerError("The video file is empty.", where=name)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                return build_index(view, name, allow_cut=allow_cut)
    except OSError as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError("The video cannot be read.", path=name, found=error.strerror) from error


def _index(movie: Movie, track: Track, samples: Samples, nbytes: int) -> MediaIndex:
    codec, extradata = _configuration(movie, track)
    shift, first, last = _edit(movie, track)
    shown = (samples.pts >= first) & (samples.pts < last)
    positions = np.flatnonzero(shown)
    order = positions[np.argsort(samples.pts[positions], kind="stable")]
    pts, dts = samples.pts + shift, samples.dts + shift
    ticks = pts[order]
    if len(ticks) > 1 and (np.diff(ticks) <= 0).any():
        k = int(np.argmax(np.diff(ticks) <= 0))
        raise ContainerError(
            "Two frames have the same presentation time.",
            where=movie.where,
            found=f"frames {k} and {k + 1} at tick {ticks[k]}",
        )
    return MediaIndex(
        where=movie.where,
        codec=codec,
        fourcc=track.fourcc,
        width=track.width,
        height=track.height,
        rotation=track.rotation,
        timescale=track.timescale,
        extradata=extradata,
        entry=_entry(track),
        offset=samples.offset,
        size=samples.size,
        dts=dts,
        pts=pts,
        span=samples.duration,
        key=samples.key,
        order=order.astype(np.int32),
        ticks=ticks,
        gop_start=_gop_starts(samples, order),
        nbytes=nbytes,
        duration=int(ticks[-1] + samples.duration[order[-1]]) if len(order) else 0,
    )


def _gop_starts(samples: Samples, order: Int64Array) -> npt.NDArray[np.int32]:
    """Keyframe to start from, by rank.

    A frame that follows a keyframe in the file but is shown before it (a leading picture of an open GOP) needs the
    keyframe before that one: a decoder drops such pictures when it starts at their own keyframe.
    """
    n = len(samples.key)
    keys = np.flatnonzero(samples.key)
    before = np.cumsum(samples.key) - 1  # which keyframe is at or before each position
    if not len(keys):
        return np.full(len(order), -1, np.int32)
    own = np.where(before >= 0, keys[np.maximum(before, 0)], -1)
    leading = (own >= 0) & (samples.pts < samples.pts[np.maximum(own, 0)]) & (np.arange(n) != own)
    which = before - leading
    start = np.where(which >= 0, keys[np.maximum(which, 0)], -1)
    return start[order].astype(np.int32)


def _edit(movie: Movie, track: Track) -> tuple[int, int, int]:
    """Shift to add to media times, and the span [first, last) of media times that is shown."""
    end = 2**62
    lead, shown = 0, list(track.edits)
    while shown and shown[0].media_time < 0:
        lead += shown.pop(0).duration
    lead_ticks = (lead * track.timescale + movie.timescale // 2) // movie.timescale
    if lead_ticks > _FURTHEST or any(abs(edit.media_time) > _FURTHEST for edit in shown):
        raise ContainerError("The times of the edit list overflow.", where=f"{movie.where}, box moov/trak/edts/elst")
    if not shown:
        return lead_ticks, -end, end
    edit: Edit = shown[0]
    if len(shown) > 1 or edit.rate != 1.0:
        raise ContainerError(
            "The edit list shows the video in several pieces or at another speed.",
            where=f"{movie.where}, box moov/trak/edts/elst",
            expected="one edit at normal speed",
            found=f"{len(shown)} edits",
            fix="Encode the video again.",
        )
    # Length 0 is "to the end". A frame is shown when it begins inside the edit, as FFmpeg has it.
    length = (2 * edit.duration * track.timescale + movie.timescale) // (2 * movie.timescale) or end
    return lead_ticks - edit.media_time, edit.media_time, min(end, edit.media_time + length)


def _configuration(movie: Movie, track: Track) -> tuple[str, bytes]:
    """Codec name and decoder configuration."""
    if track.fourcc not in _CODECS:
        raise ContainerError(
            "The codec of this video is not known here.",
            where=f"{movie.where}, box moov/trak/mdia/minf/stbl/stsd",
            expected=f"one of {', '.join(sorted(_CODECS))}",
            found=track.fourcc,
        )
    codec, box = _CODECS[track.fourcc]
    body = track.config.get(box, b"") if box is not None else b""
    if box is not None and not body:
        raise ContainerError(
            f"The decoder's configuration (box {box!r}) is missing.", where=movie.where, fix="Remux or encode it again."
        )
    return codec, _decoder_specific(body) if codec == "mpeg4" else body


def _entry(track: Track) -> bytes:
    """The sample entry as a box, but for the bit rate, which is different in every clip."""
    inner = [(name, body) for name, body in track.config.items() if name != "btrt"]
    body = track.entry + b"".join(struct.pack(">I4s", 8 + len(b), name.encode("latin-1")) + b for name, b in inner)
    return struct.pack(">I4s", 8 + len(body), track.fourcc.encode("latin-1")) + body


def _decoder_specific(esds: bytes) -> bytes:
    """The DecoderSpecificInfo (tag 5) inside an MPEG-4 `esds` box (ISO/IEC 14496-1, 7.2.6)."""
    at, skip = 4, {3: 3, 4: 13}
    while at + 2 <= len(esds):
        tag, length, at = esds[at], 0, at + 1
        for _ in range(4):
            if at >= len(esds):
                return b""
            byte, at = esds[at], at + 1
            length = length << 7 | byte & 127
            if byte < 128:
                break
        if tag == 5:
            return esds[at : at + length]
        if tag not in skip:
            return b""
        at += skip[tag]
    return b""
