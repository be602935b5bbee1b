"""Pictures into an MP4: one encoder per camera, exact ticks, and a count of what is in the file."""

from __future__ import annotations

import contextlib
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
    take_options,
)
from rolltape.video.planes import plane_array
from rolltape.video.trial import LAG_FRAMES, LAGGING, held_frames, open_context, try_open, working, works

if TYPE_CHECKING:
    import av

    from rolltape.format.rate import Rate

__all__ = ["Clip", "ResolvedEncoder", "VideoEncoder", "resolve", "tick_grid"]

_PIECE_S = Fraction(1, 5)
_CANONICAL = {"libsvtav1": "av1", "libaom-av1": "av1", "libx264": "h264", "libx265": "hevc"}


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
        delay_frames: For a take: how many pictures the encoder holds at most. None: not asked for.
    """

    name: str
    codec: str
    pix_fmt: str
    options: dict[str, str]
    config: VideoEncoderConfig
    depth: bool
    delay_frames: int | None = None


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
    take: bool = False,
) -> ResolvedEncoder:
    """Return an encoder for the settings that really works here, checked before the first picture.

    Args:
        config: The settings; None is `RGBEncoderConfig()`. `vcodec` may be FFmpeg's encoder name or the codec's
            name (h264 or libx264, hevc or libx265, av1 or libsvtav1), a hardware encoder, or `"auto"`: the first
            hardware encoder, else software encoder, that encodes two small pictures.
        width, height: Pixels of the pictures.
        threads: Threads of each encoder; None leaves it to the encoder.
        take: For a recording that must survive a kill: settings that the user left open are chosen so that the
            encoder holds few pictures (see `options.take_options`), and it is measured how many (`delay_frames`,
            about 0.2 s of trial the first time in a process).

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
            expected=f"one that does: {', '.join(working()) or 'none was found'}",
            found=repr(config.vcodec),
        )
    name = candidates[0]
    check_pixel_format(name, config.pix_fmt, 1 if depth else 3)
    options = encoder_options(name, config, threads)
    if take:
        options = take_options(name, options, config)
    check_options(name, options)
    fixed = tuple(sorted(options.items()))
    try_open(name, config.pix_fmt, width, height, fixed)
    held = held_frames(name, config.pix_fmt, width, height, fixed) if take else None
    codec = _CANONICAL.get(name, name.split("_")[0])
    return ResolvedEncoder(name, codec, config.pix_fmt, options, config, depth, held)


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
        fragmented: Write a take: an MP4 in pieces of at most 0.2 s that can be read (`packets.take`) whenever the
            process is killed. Lost are at most the `delay_frames` last pictures, which the encoder held, and the
            `piece_frames` before them. `packets.join` makes an ordinary MP4 of it. Settings that the user left open
            are chosen as in `resolve(..., take=True)`.

    Attributes:
        frames: Pictures put so far.
        taken: Packets handed to the file so far.
        delay_frames: How many pictures the encoder holds at most; None when not `fragmented`.
        piece_frames: How many packets wait for the piece of the file to be written, at most; 0 when not `fragmented`.

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
        fragmented: bool = False,
    ) -> None:
        import av
        import av.error
        from av.video.reformatter import VideoReformatter

        if not isinstance(config, ResolvedEncoder) or (fragmented and config.delay_frames is None):
            settings = config.config if isinstance(config, ResolvedEncoder) else config
            config = resolve(settings, width=width, height=height, threads=threads, take=fragmented)
        self.path, self.encoder, self.rate = Path(path), config, rate
        self.width, self.height = width, height
        self.frames = 0
        self.taken = 0
        self.delay_frames = config.delay_frames if fragmented else None
        self.piece_frames = max(1, int(rate.fraction * _PIECE_S)) if fragmented else 0
        self._lags = fragmented and config.name in LAGGING
        self._lock = threading.Lock()
        self._reformatter = VideoReformatter()
        self._open = True
        try:
            open(path, "wb").close()  # PyAV opens the file with the first packet, which is late to learn that it cannot
            # Edit lists count in movie ticks: as fine as the track's, so that lengths are exact.
            options = {"movie_timescale": str(tick_grid(rate)[0]), **(self._pieces() if fragmented else {})}
            self._container = av.open(os.fspath(path), "w", format="mp4", container_options=options)
            stream = self._container.add_stream(config.name, rate.fraction, options=dict(config.options))
        except (av.error.FFmpegError, OSError) as error:
            raise EncodeError("The video file cannot be written.", where=self.path, found=str(error)) from error
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, config.pix_fmt
        stream.time_base = stream.codec_context.time_base = 1 / rate.fraction
        self._stream = stream
        self._encoder: Any = stream  # the stream's own encoder, or the one that took over from it

    @property
    def loss_seconds(self) -> float:
        """How much of a take a kill loses at most, in seconds of the recording; all of it when not `fragmented`."""
        if self.delay_frames is None:
            return float("inf")
        return float((self.delay_frames + self.piece_frames) / self.rate.fraction)

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
                self._mux(self._encoder.encode(frame))
                if self._lags:
                    self._keep_up()
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

    def _pieces(self) -> dict[str, str]:
        """Options of the muxer: the head first, then pieces that are in the file as soon as they are full."""
        # A piece ends when the packet after it comes: half a frame early, so that rounding cannot add one.
        length = (self.piece_frames - Fraction(1, 2)) / self.rate.fraction
        return {
            "movflags": "empty_moov+default_base_moof",
            "frag_duration": str(int(length * 1_000_000)),
            "flush_packets": "1",
        }

    def _keep_up(self) -> None:
        """Before an encoder that has fallen behind holds too much: drain it, and go on with a new one."""
        assert self.delay_frames is not None
        done, g = self.frames + 1, self.encoder.config.g or 0
        # Short groups of pictures stay in step: then drained a little early, where a keyframe is due anyway.
        early = g if 1 < g < LAG_FRAMES and done % g == 0 else 0
        if done - self.taken <= self.delay_frames - early:
            return
        self._mux(list(self._encoder.encode(None)))
        self._encoder = open_context(
            self.encoder.name,
            self.encoder.pix_fmt,
            self.width,
            self.height,
            dict(self.encoder.options),
            like=self._stream.codec_context,
        )

    def _last_packets(self) -> list[Any]:
        """What the encoder still holds. Where that is everything, decode times are made here.

        x265 leaves them undefined when it gets fewer pictures than its delay.
        """
        packets = list(self._encoder.encode(None))
        if self.taken == 0:
            delay = max((place - (packet.pts or 0) for place, packet in enumerate(packets)), default=0)
            for place, packet in enumerate(packets):
                packet.dts = place - delay
        return packets

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            packet.duration = 1  # in the encoder's time base, one frame: the last frame has a duration too
            if self._lags:  # of one encoder and the next: AV1 is shown in the order of its packets
                packet.stream, packet.dts = self._stream, packet.pts
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
