"""Pictures into an MP4: one encoder per camera, exact ticks, and a count of what is in the file."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import ClosedError, CodecError, EncodeError
from rolltape.format.encoders import DepthEncoderConfig, RGBEncoderConfig, VideoEncoderConfig
from rolltape.video.options import (
    HARDWARE_ENCODERS,
    check_options,
    check_pixel_format,
    encoder_candidates,
    encoder_options,
    exists,
)
from rolltape.video.planes import plane_array

if TYPE_CHECKING:
    import av

    from rolltape.format.rate import Rate

__all__ = ["Clip", "ResolvedEncoder", "VideoEncoder", "resolve", "tick_grid", "works"]

_CANONICAL = {"libsvtav1": "av1", "libaom-av1": "av1", "libx264": "h264", "libx265": "hevc"}
_TRIAL = (256, 256)
_SCAN_ORDER = ("libsvtav1", "libx264", "libx265", "libaom-av1")


@dataclass(frozen=True)
class ResolvedEncoder:
    """An encoder that was tried and works.

    Attributes:
        name: FFmpeg's encoder, such as `"libsvtav1"`.
        codec: The codec's name as `info.json` has it: `"av1"`, `"h264"`, `"hevc"`.
        pix_fmt: Pixel format inside the video.
        options: FFmpeg's options.
        config: The settings, with `vcodec` resolved.
        depth: Whether pictures are 12-bit codes of depth.
    """

    name: str
    codec: str
    pix_fmt: str
    options: dict[str, str]
    config: VideoEncoderConfig
    depth: bool


@dataclass(frozen=True)
class Clip:
    """A finished video file.

    Attributes:
        path: The file.
        frames: Number of pictures in it.
        nbytes: Size of the file.
        seconds: Exact length.
        width, height: Pixels.
        codec: `"av1"`, `"h264"` or `"hevc"`.
    """

    path: Path
    frames: int
    nbytes: int
    seconds: Fraction
    width: int
    height: int
    codec: str


def tick_grid(rate: Rate) -> tuple[int, int]:
    """Return ticks per second and ticks per frame of the videos we write: frame k is at exactly k / fps.

    As FFmpeg does: the rate's numerator doubled until it is at least 10,000 (15,360 ticks and 512 a frame at 30 fps).

    Example:
        >>> from rolltape.format import Rate
        >>> tick_grid(Rate.parse(30)), tick_grid(Rate.parse(29.97, [30000, 1001]))
        ((15360, 512), (30000, 1001))
    """
    timescale, step = rate.fraction.numerator, rate.fraction.denominator
    while timescale < 10_000:
        timescale, step = 2 * timescale, 2 * step
    return timescale, step


def resolve(
    config: VideoEncoderConfig | None = None,
    *,
    width: int,
    height: int,
    threads: int | None = None,
) -> ResolvedEncoder:
    """Return an encoder for the settings that really works here, checked before the first picture.

    Args:
        config: The settings; None is `RGBEncoderConfig()`. `vcodec` may be FFmpeg's encoder name or the codec's
            name (h264 or libx264, hevc or libx265, av1 or libsvtav1), a hardware encoder, or `"auto"`: the first
            hardware encoder, else software encoder, that encodes two small pictures.
        width, height: Pixels of the pictures.
        threads: Threads of each encoder; None leaves it to the encoder.

    Raises:
        CodecError: The name is unknown, the encoder does not work here (the message lists those that do), or it
            refuses the size, the pixel format or an option.

    Example:
        >>> resolve(RGBEncoderConfig(vcodec="h264"), width=64, height=48).name
        'libx264'
    """
    config = RGBEncoderConfig() if config is None else config
    depth = isinstance(config, DepthEncoderConfig)
    candidates = [name for name in encoder_candidates(config.vcodec) if exists(name)]
    if config.vcodec == "auto" or config.vcodec in HARDWARE_ENCODERS:
        candidates = [name for name in candidates if works(name, config.pix_fmt)]
    if not candidates:
        raise CodecError(
            "The video codec does not work on this machine.",
            expected=f"one that does: {', '.join(_working()) or 'none was found'}",
            found=repr(config.vcodec),
        )
    name = candidates[0]
    check_pixel_format(name, config.pix_fmt, 1 if depth else 3)
    options = encoder_options(name, config, threads)
    check_options(name, options)
    _try_open(name, config.pix_fmt, width, height, tuple(sorted(options.items())))
    return ResolvedEncoder(name, _CANONICAL.get(name, name.split("_")[0]), config.pix_fmt, options, config, depth)


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


def _working() -> list[str]:
    return [name for name in _SCAN_ORDER if works(name)]


def open_context(name: str, pix_fmt: str, width: int, height: int, options: dict[str, str]) -> av.VideoCodecContext:
    """Return an open encoder that belongs to no file, at 30 frames a second. Raises what PyAV raises."""
    import av

    os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 prints its settings to stderr unless told to print errors only
    context = av.CodecContext.create(name, "w")
    assert isinstance(context, av.VideoCodecContext)
    context.width, context.height, context.pix_fmt = width, height, pix_fmt
    context.time_base, context.framerate = Fraction(1, 30), Fraction(30)
    context.options = options
    context.open()
    return context


@functools.lru_cache(maxsize=64)
def _try_open(name: str, pix_fmt: str, width: int, height: int, options: tuple[tuple[str, str], ...]) -> None:
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


class VideoEncoder:
    """Encodes one camera's pictures into one MP4.

    `put` may be called from one thread at a time; the conversion and the encoder run without the GIL, so several
    encoders run in parallel. The file is complete after `close`.

    Args:
        path: The file to write (any name; writers use one that ends in `.tmp`). Its folder exists.
        rate: Frame rate; frame k is shown at exactly k / fps.
        width, height: Pixels.
        config: Settings, or an encoder from `resolve`.
        threads: Threads of this encoder; None leaves it to the encoder. With 2 cameras of 640x480 at the default
            settings on 2 cores, None, 1, 2 and 4 were equal within noise.

    Raises:
        CodecError: See `resolve`.
        EncodeError: The file cannot be written.

    Example:
        >>> encoder = VideoEncoder("front.mp4.tmp", rate=Rate.parse(30), width=640, height=480)  # doctest: +SKIP
        >>> for picture in pictures:                                                           # doctest: +SKIP
        ...     encoder.put(picture)
        >>> encoder.close().frames                                                             # doctest: +SKIP
        150
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rate: Rate,
        width: int,
        height: int,
        config: VideoEncoderConfig | ResolvedEncoder | None = None,
        threads: int | None = None,
    ) -> None:
        import av
        import av.error
        from av.video.reformatter import VideoReformatter

        if not isinstance(config, ResolvedEncoder):
            config = resolve(config, width=width, height=height, threads=threads)
        self.path, self.encoder, self.rate = Path(path), config, rate
        self.width, self.height = width, height
        self.frames = 0
        self.taken = 0
        self._lock = threading.Lock()
        self._reformatter = VideoReformatter()
        self._open = True
        try:
            open(path, "wb").close()  # PyAV opens the file with the first packet, which is late to learn that it cannot
            # Edit lists count in movie ticks: as fine as the track's, so that lengths are exact.
            fine = {"movie_timescale": str(tick_grid(rate)[0])}
            self._container = av.open(os.fspath(path), "w", format="mp4", container_options=fine)
            stream = self._container.add_stream(config.name, rate.fraction, options=dict(config.options))
        except (av.error.FFmpegError, OSError) as error:
            raise EncodeError("The video file cannot be written.", where=self.path, found=str(error)) from error
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, config.pix_fmt
        stream.time_base = stream.codec_context.time_base = 1 / rate.fraction
        self._stream = stream

    def put(self, picture: npt.NDArray[Any]) -> None:
        """Encode one picture.

        Args:
            picture: uint8 [H, W, 3] RGB, or for depth uint16 [H, W] codes (see `depth.quantize`). It may be reused
                afterwards.

        Raises:
            EncodeError: Another shape or dtype, or the encoder failed.
            ClosedError: After `close` or `abort`.
        """
        import av.error

        with self._lock:
            if not self._open:
                raise ClosedError("The encoder is closed.", where=self.path)
            frame = self._depth(picture) if self.encoder.depth else self._colour(picture)
            frame.pts, frame.time_base = self.frames, 1 / self.rate.fraction
            try:
                self._mux(self._stream.encode(frame))
            except (av.error.FFmpegError, OSError) as error:
                raise self._failed(error) from error
            self.frames += 1

    def close(self) -> Clip:
        """Finish the file and return what is in it.

        Raises:
            EncodeError: No picture was put, the encoder lost one, or the file cannot be finished.
        """
        import av.error

        with self._lock:
            if not self._open:
                raise ClosedError("The encoder is closed.", where=self.path)
            if self.frames == 0:
                self._discard()
                raise EncodeError("The video has no picture.", where=self.path)
            self._open = False
            try:
                self._mux(self._last_packets())
                self._container.close()
            except (av.error.FFmpegError, OSError) as error:
                raise self._failed(error) from error
            if self.taken != self.frames:
                raise EncodeError(
                    "The encoder lost pictures.",
                    where=self.path,
                    expected=f"{self.frames} frames",
                    found=f"{self.taken} packets",
                )
            return Clip(
                self.path,
                self.frames,
                self.path.stat().st_size,
                self.frames / self.rate.fraction,
                self.width,
                self.height,
                self.encoder.codec,
            )

    def abort(self) -> None:
        """Give up: close encoder and file, and remove the file. Does nothing after `close`."""
        with self._lock:
            if self._open:
                self._discard()

    def __enter__(self) -> VideoEncoder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self._open:
            self.close()

    def _last_packets(self) -> list[Any]:
        """What the encoder still holds. Where that is everything, decode times are made here.

        x265 leaves them undefined when it gets fewer pictures than its delay.
        """
        packets = list(self._stream.encode(None))
        if self.taken == 0:
            delay = max((place - (packet.pts or 0) for place, packet in enumerate(packets)), default=0)
            for place, packet in enumerate(packets):
                packet.dts = place - delay
        return packets

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            packet.duration = 1  # in the encoder's time base, one frame: the last frame has a duration too
            self._container.mux(packet)
            self.taken += 1

    def _discard(self) -> None:
        from rolltape.store.local import remove_file

        self._open = False
        with contextlib.suppress(Exception):
            self._container.close()
        remove_file(self.path)

    def _failed(self, error: Exception) -> EncodeError:
        return EncodeError("The video cannot be encoded.", where=f"{self.path}, frame {self.frames}", found=str(error))

    def _colour(self, picture: npt.NDArray[Any]) -> av.VideoFrame:
        """RGB to the encoder's pixel format, as PyAV converts it by default: bytes equal the reference's."""
        import av

        if picture.dtype != np.uint8 or picture.shape != (self.height, self.width, 3):
            raise self._unfit(picture, f"uint8 [{self.height}, {self.width}, 3]")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        return self._reformatter.reformat(frame, format=self.encoder.pix_fmt)

    def _depth(self, picture: npt.NDArray[Any]) -> av.VideoFrame:
        import av

        if picture.dtype != np.uint16 or picture.shape != (self.height, self.width):
            raise self._unfit(picture, f"uint16 [{self.height}, {self.width}] of depth codes")
        frame = av.VideoFrame(self.width, self.height, self.encoder.pix_fmt)
        np.copyto(plane_array(frame.planes[0], "<u2", self.width, self.height), picture)
        for plane in frame.planes[1:]:
            plane_array(plane, "<u2", plane.width, plane.height)[:] = 2048
        return frame

    def _unfit(self, picture: npt.NDArray[Any], expected: str) -> EncodeError:
        found = f"{picture.dtype} {list(picture.shape)}"
        return EncodeError(
            "The picture does not fit.", where=f"{self.path}, frame {self.frames}", expected=expected, found=found
        )
