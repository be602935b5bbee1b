"""Encoders tried before use: does it work here, does it take these settings, how many pictures does it hold."""

from __future__ import annotations

import functools
import os
import time
from fractions import Fraction
from typing import TYPE_CHECKING

from rolltape.errors import CodecError
from rolltape.video.options import exists

if TYPE_CHECKING:
    import av

__all__ = ["LAGGING", "LAG_FRAMES", "held_frames", "open_context", "try_open", "working", "works"]

LAGGING = ("libsvtav1",)
"""Encoders that hand out at most one packet for a picture, and none when it is not ready yet.

What they once held back, in a moment when the machine was busy, they hold from then on: up to 50 pictures.
"""

LAG_FRAMES = 5
"""By how many pictures a `LAGGING` encoder may fall behind before it is drained."""

_TRIAL = (256, 256)
_SCAN_ORDER = ("libsvtav1", "libx264", "libx265", "libaom-av1")
_WIDTH = 128  # of the pictures in `held_frames`: threads, and so the delay, go by the height
_PACE_S = 0.004  # between pictures, so that a LAGGING encoder is not driven into holding more than it must
_PICTURES = 72
_TRIALS = 6


@functools.cache
def works(encoder: str, pix_fmt: str = "yuv420p") -> bool:
    """Return whether an encoder really encodes here: two small pictures are tried, once per process."""
    import av
    import av.error

    if not exists(encoder):
        return False
    try:
        context = open_context(encoder, pix_fmt, *_TRIAL, {"x265-params": "log-level=none"} if "265" in encoder else {})
        packets = []
        for k in range(2):
            frame = av.VideoFrame(*_TRIAL, pix_fmt)
            frame.pts = k
            packets += context.encode(frame)
        packets += context.encode(None)
    except (av.error.FFmpegError, ValueError, OSError):
        return False
    return len(packets) >= 2


def working() -> list[str]:
    """The software encoders that work here."""
    return [name for name in _SCAN_ORDER if works(name)]


def open_context(
    name: str,
    pix_fmt: str,
    width: int,
    height: int,
    options: dict[str, str],
    *,
    like: av.VideoCodecContext | None = None,
) -> av.VideoCodecContext:
    """Return an open encoder that belongs to no file. Raises what PyAV raises.

    `like` is an encoder whose rate and flags it shall have; without one it encodes 30 frames a second.
    """
    import av

    os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 prints its settings to stderr unless told to print errors only
    context = av.CodecContext.create(name, "w")
    assert isinstance(context, av.VideoCodecContext)
    context.width, context.height, context.pix_fmt = width, height, pix_fmt
    context.time_base, context.framerate = Fraction(1, 30), Fraction(30)
    if like is not None:
        context.time_base, context.framerate, context.flags = like.time_base, like.framerate, like.flags
    context.options = options
    context.open()
    return context


@functools.lru_cache(maxsize=64)
def try_open(name: str, pix_fmt: str, width: int, height: int, options: tuple[tuple[str, str], ...]) -> None:
    """Open the encoder once with the real size and options, so that a refusal comes before the first picture."""
    import av.error

    if width < 1 or height < 1:
        raise CodecError("The pictures have no size.", found=f"{width}x{height}")
    try:
        open_context(name, pix_fmt, width, height, dict(options))
    except (av.error.FFmpegError, ValueError) as error:
        odd = "420" in pix_fmt and (width % 2 or height % 2)
        raise CodecError(
            f"The encoder {name} refuses these pictures or options.",
            where=f"{width}x{height}, {pix_fmt}, " + ", ".join(f"{key}={value}" for key, value in options),
            found=str(error).split("'avcodec_open2")[0].strip(" :'"),
            fix=f"{pix_fmt} with {name} needs even sizes: crop by a pixel, or use libsvtav1 or pix_fmt yuv444p."
            if odd
            else None,
        ) from error


@functools.lru_cache(maxsize=64)
def held_frames(name: str, pix_fmt: str, width: int, height: int, options: tuple[tuple[str, str], ...]) -> int:
    """Return how many pictures an encoder holds at most, measured once per setting and process.

    Narrow grey pictures are encoded. For encoders that may lag (`LAGGING`) it is what they need to hold, plus
    `LAG_FRAMES`: `VideoEncoder` keeps them to it in a fragmented file.
    """
    if name not in LAGGING:
        return _most_held(name, pix_fmt, min(width, _WIDTH), height, dict(options))
    found: list[int] = []  # on a busy machine a trial may come out too high, but hardly twice the same
    while len(found) < _TRIALS and (not found or found.count(min(found)) < 2):
        found.append(_most_held(name, pix_fmt, min(width, _WIDTH), height, dict(options)))
    return min(found) + LAG_FRAMES


def _most_held(name: str, pix_fmt: str, width: int, height: int, options: dict[str, str]) -> int:
    """The largest number of pictures that were put and could not be shown yet, over one trial.

    Where the encoder changes the order, a file that is cut there may hold packets that cannot be shown, because a
    picture before them is still to come: at most as many as there are B-frames in a row.
    """
    import av

    context = open_context(name, pix_fmt, width, height, options)
    most = steady = 0  # steady: for how many pictures there has been no new maximum
    taken, reorders = 0, False
    for k in range(4 * _PICTURES):
        frame = av.VideoFrame(width, height, pix_fmt)
        for plane in frame.planes:
            plane.update(bytes([k % 8 + 64]) * plane.buffer_size)
        frame.pts, frame.time_base = k, Fraction(1, 30)
        for packet in context.encode(frame):
            reorders |= packet.pts != taken
            taken += 1
        held = k + 1 - taken
        most, steady = max(most, held), 0 if held > most else steady + 1
        if taken and steady > _PICTURES // 4 and k >= _PICTURES // 2:
            break
        if name in LAGGING:
            time.sleep(_PACE_S)
    context.encode(None)  # SVT-AV1 complains when it is closed in the middle
    return most + (_b_frames(name, options) if reorders else 0)


def _b_frames(name: str, options: dict[str, str]) -> int:
    """How many B-frames may follow each other: as the options say, else the encoders' defaults."""
    given = f"bf={options['bf']}" if "bf" in options else ""
    for part in f"{given}:{options.get('x264-params', '')}:{options.get('x265-params', '')}".split(":"):
        key, _, value = part.partition("=")
        if key in ("bf", "bframes") and value.isdecimal():
            return int(value)
    slow = options.get("preset") in ("slower", "veryslow", "placebo")  # 8 of them
    return 8 if slow else {"libx264": 3, "libx265": 4}.get(name, 4)
