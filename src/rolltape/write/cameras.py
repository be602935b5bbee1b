"""Cameras of an open take: a thread each, from the ring into an encoder of videos or of single pictures.

What comes out is compared with what went in: an encoder that loses a frame is an error here, never a video that is
shorter than its rows.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rolltape.errors import EncodeError, RolltapeError
from rolltape.format import DepthEncoderConfig, Feature, Rate, RGBEncoderConfig, VideoEncoderConfig
from rolltape.store import local
from rolltape.write.ring import Ring
from rolltape.write.statistics import PictureStats

__all__ = ["CameraTake", "Encoder", "EncoderSettings", "Finished", "Footage", "PictureEncoder", "open_encoder"]

_Array = np.ndarray[Any, Any]
_PNG_LEVEL = 1
"""Lossless at every level; this one is about four times as fast as the reference's 6, for a little more space."""


@dataclass(frozen=True)
class EncoderSettings:
    """How the cameras of a recording are encoded."""

    rate: Rate
    rgb: RGBEncoderConfig
    depth: DepthEncoderConfig
    threads: int | None = None

    def of(self, feature: Feature) -> VideoEncoderConfig:
        """Return the settings for one camera."""
        return self.depth if feature.is_depth else self.rgb


@dataclass(frozen=True)
class Footage:
    """What a camera has of a take that has ended.

    Attributes:
        frames: How many pictures there are.
        stats: The picture statistics gathered on the way.
        path: The staged video, or None for a camera whose pictures live in the table.
        pictures: The encoded pictures of such a camera.
        clipped: How many depth pixels a video's codes cannot hold.
    """

    frames: int
    stats: PictureStats
    path: Path | None = None
    pictures: tuple[bytes, ...] = ()
    clipped: int = 0


class Finished(Protocol):
    """What an encoder says when it is done."""

    @property
    def frames(self) -> int:
        """How many pictures it wrote."""


class Encoder(Protocol):
    """What is needed of an encoder; `rolltape.video.VideoEncoder` and `PictureEncoder` are two."""

    @property
    def taken(self) -> int:
        """How many frames, from the first on, it does not need any more."""

    def put(self, picture: _Array) -> None:
        """Take a frame: colour uint8 HWC, depth HW (for a video as uint16 codes)."""

    def close(self) -> Finished:
        """Finish."""

    def abort(self) -> None:
        """Give up and remove what there is."""


def open_encoder(feature: Feature, path: Path, settings: EncoderSettings, pool: ThreadPoolExecutor | None) -> Encoder:
    """Return the encoder for one camera: of a video at `path`, or of pictures in a pool."""
    if pool is not None:
        return PictureEncoder(feature, pool)
    from rolltape.video.encode import VideoEncoder

    height, width, _ = feature.hwc
    return VideoEncoder(
        path,
        rate=settings.rate,
        width=width,
        height=height,
        config=settings.of(feature),
        threads=settings.threads,
    )


@dataclass(frozen=True)
class Pictures:
    """Encoded pictures of one take, in order."""

    pictures: tuple[bytes, ...]

    @property
    def frames(self) -> int:
        """How many there are."""
        return len(self.pictures)


class PictureEncoder:
    """Makes PNG (for depth TIFF) bytes of frames in a pool of threads, in order and without loss.

    Args:
        feature: The camera.
        pool: Where pictures are compressed.
        ahead: How many frames may be in the pool before `put` waits.
    """

    def __init__(self, feature: Feature, pool: ThreadPoolExecutor, ahead: int = 8) -> None:
        self.feature = feature
        self.taken = 0
        self._pool = pool
        self._ahead = ahead
        self._pictures: list[Future[bytes]] = []

    def put(self, picture: _Array) -> None:
        """Hand a frame to the pool. It must not change before it is taken."""
        self._pictures.append(self._pool.submit(encode_picture, picture, self.feature.is_depth))
        while self.taken < len(self._pictures) and (
            self._pictures[self.taken].done() or len(self._pictures) - self.taken > self._ahead
        ):
            self._pictures[self.taken].result()
            self.taken += 1

    def close(self) -> Pictures:
        """Wait for all pictures and return them."""
        done = Pictures(tuple(one.result() for one in self._pictures))
        self.taken = done.frames
        return done

    def abort(self) -> None:
        """Forget the pictures, once the pool has let go of the frames."""
        for one in self._pictures:
            if not one.cancel():
                with contextlib.suppress(Exception):
                    one.result()


def encode_picture(frame: _Array, is_depth: bool) -> bytes:
    """Return a frame as PNG bytes, a depth frame as uncompressed TIFF."""
    from rolltape.video import images

    return images.encode_tiff(frame) if is_depth else images.encode_png(frame, _PNG_LEVEL)


class CameraTake:
    """One camera of an open take: its frames go through a ring to an encoder in a thread of their own.

    Args:
        feature: The camera.
        path: Where a video is staged.
        ring: The camera's ring, free for this take.
        settings: The encoder settings.
        pool: For a camera whose pictures live in the table, where they are compressed.

    Attributes:
        error: What went wrong in the thread, if anything.
    """

    def __init__(
        self,
        feature: Feature,
        path: Path,
        ring: Ring,
        settings: EncoderSettings,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self.feature = feature
        self.error: BaseException | None = None
        self._path = path
        self._ring = ring
        self._settings = settings
        self._pool = pool
        self._stats = PictureStats(feature, spill=path.with_name(path.name.replace(".tmp", ".pixels.tmp")))
        self._done: Finished | None = None
        self._clipped = 0
        self._abort = False
        self._thread = threading.Thread(target=self._run, name=f"encoder {feature.name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many frames the encoder has not looked at yet."""
        return self._ring.waiting

    def put(self, frame: _Array) -> None:
        """Copy the next frame into the ring, after waiting for room. It counts once the take's count has moved on."""
        self._ring.put(frame)

    def wake(self) -> None:
        """Say that the count has moved on."""
        self._ring.wake()

    def end(self) -> None:
        """Say that no frame follows."""
        self._ring.end()

    def finish(self) -> Footage:
        """Wait for the encoder and return what came of the frames.

        Raises:
            EncodeError: If the encoder failed.
        """
        self._ring.end()
        while self._thread.is_alive():
            self._thread.join(0.2)
        if self.error is not None or self._done is None:
            raise encode_error(self.feature, self.error)
        pictures = self._done.pictures if isinstance(self._done, Pictures) else ()
        return Footage(
            self._done.frames,
            self._stats,
            path=self._path if self._pool is None else None,
            pictures=pictures,
            clipped=self._clipped,
        )

    def abort(self) -> None:
        """Stop the encoder and remove its file."""
        self._abort = True
        self._ring.end()
        self._thread.join()
        self._stats.discard()
        local.remove_file(self._path)

    def _run(self) -> None:
        encoder: Encoder | None = None
        try:
            encoder = open_encoder(self.feature, self._path, self._settings, self._pool)
            released = 0
            while (frame := self._ring.peek()) is not None and not self._abort:
                self._stats.add(frame)
                encoder.put(self._prepared(frame))
                taken = encoder.taken
                self._ring.release(taken - released)
                released = taken
            if self._abort:
                encoder.abort()
            else:
                self._done = encoder.close()
        except BaseException as error:
            self.error = error
            if encoder is not None:
                with contextlib.suppress(Exception):
                    encoder.abort()
            self._ring.fail()

    def _prepared(self, frame: _Array) -> _Array:
        if not self.feature.is_depth or self._pool is not None:
            return frame
        from rolltape.video import depth

        unit = depth.unit_of(frame.dtype)
        self._clipped += depth.count_outside(frame, unit, self._settings.depth)
        return depth.quantize(frame, unit, self._settings.depth)


def encode_error(feature: Feature, error: BaseException | None) -> EncodeError:
    """Return the error that tells the caller which camera failed, and what can be done."""
    what = error.what if isinstance(error, RolltapeError) else f"{type(error).__name__}: {error}"
    made = EncodeError(
        "A camera's pictures could not be encoded.",
        where=feature.name,
        found=what,
        fix="Discard the episode (discard_episode); the episodes saved before are whole, and another can be recorded.",
    )
    made.__cause__ = error
    return made
