"""Cameras of an open take: a thread each, from the ring into an encoder of videos or of single pictures.

Both write into the take's folder in a form that survives a kill. When the take has ended, the video's packets are moved
into an ordinary MP4, which is what the dataset gets. What comes out is compared with what went in: an encoder that
loses a frame is an error here, never a video that is shorter than its rows.
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
from rolltape.write.picture_log import append_picture
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

    def delay_frames(self, feature: Feature) -> int:
        """Return how many frames a camera's encoder holds back; they are not in the file when the process is killed."""
        if not feature.is_video:
            return 0
        from rolltape.video.encode import resolve

        height, width, _ = feature.hwc
        found = resolve(self.of(feature), width=width, height=height, threads=self.threads, take=True)
        return found.delay_frames or 0


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
    """Return the encoder for one camera of an open take: of a video, or with a pool of pictures, both into `path`."""
    if pool is not None:
        return PictureEncoder(feature, pool, path)
    from rolltape.video.encode import VideoEncoder

    height, width, _ = feature.hwc
    return VideoEncoder(
        path,
        rate=settings.rate,
        width=width,
        height=height,
        config=settings.of(feature),
        threads=settings.threads,
        fragmented=True,
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
        path: A file to which each picture goes as soon as it and those before it are made, or None.
        ahead: How many frames may be in the pool before `put` waits.

    Attributes:
        taken: How many pictures are made, and in the file.
    """

    def __init__(self, feature: Feature, pool: ThreadPoolExecutor, path: Path | None = None, ahead: int = 8) -> None:
        self.feature = feature
        self.taken = 0
        self._pool = pool
        self._path = path
        self._ahead = ahead
        self._pictures: list[Future[bytes]] = []
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def put(self, picture: _Array) -> None:
        """Hand a frame to the pool. It must not change before it is taken.

        Raises:
            OSError: If an earlier picture could not be written.
        """
        future = self._pool.submit(encode_picture, picture, self.feature.is_depth)
        with self._lock:
            self._pictures.append(future)
        future.add_done_callback(self._drain)
        while len(self._pictures) - self.taken > self._ahead and self._error is None:
            self._pictures[self.taken].result()
            self._drain()
        if self._error is not None:
            raise self._error

    def _drain(self, future: Future[bytes] | None = None) -> None:
        """Write what is made, in order."""
        with self._lock:
            while self._error is None and self.taken < len(self._pictures) and self._pictures[self.taken].done():
                try:
                    picture = self._pictures[self.taken].result()
                    if self._path is not None:
                        append_picture(self._path, picture)
                except BaseException as error:
                    self._error = error
                    return
                self.taken += 1

    def close(self) -> Pictures:
        """Wait for all pictures and return them.

        Raises:
            OSError: If one could not be written.
        """
        done = Pictures(tuple(one.result() for one in self._pictures))
        self._drain()
        if self._error is not None:
            raise self._error
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
        path: Where its pictures go while the take is open: a video in pieces, or records of pictures.
        staged: Where the finished video goes.
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
        staged: Path,
        ring: Ring,
        settings: EncoderSettings,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self.feature = feature
        self.error: BaseException | None = None
        self._path = path
        self._staged = staged
        self._ring = ring
        self._settings = settings
        self._pool = pool
        self._stats = PictureStats(feature, spill=path.with_name(f"{feature.name}.pixels.tmp"))
        self._done: Finished | None = None
        self._clipped = 0
        self._abort = False
        self._is_staged = False
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

    def finish(self) -> int:
        """Wait for the encoder and return how many pictures it wrote.

        Raises:
            EncodeError: If the encoder failed.
        """
        self._ring.end()
        while self._thread.is_alive():
            self._thread.join(0.2)
        if self.error is not None or self._done is None:
            raise encode_error(self.feature, self.error)
        return self._done.frames

    def footage(self) -> Footage:
        """Return what came of the frames, the video as an ordinary MP4. Can be repeated when it failed.

        Raises:
            EncodeError: If the encoder failed, or the video cannot be written.
        """
        frames = self.finish()
        if self._pool is None and not self._is_staged:
            moved = stage_video(self._path, self._staged, self._settings.rate)
            if moved != frames:
                raise encode_error(self.feature, ValueError(f"{moved} pictures in the video, {frames} were encoded"))
            self._is_staged = True
        pictures = self._done.pictures if isinstance(self._done, Pictures) else ()
        return Footage(
            frames,
            self._stats,
            path=self._staged if self._pool is None else None,
            pictures=pictures,
            clipped=self._clipped,
        )

    def abort(self) -> None:
        """Stop the encoder and remove its files."""
        self._abort = True
        self._ring.end()
        self._thread.join()
        self._stats.discard()
        local.remove_file(self._path)
        local.remove_file(self._staged)

    def leave(self) -> None:
        """Encode what is there and leave the take's files for recovery."""
        self._ring.end()
        self._thread.join()
        self._stats.discard()

    def _run(self) -> None:
        encoder: Encoder | None = None
        try:
            encoder = open_encoder(self.feature, self._path, self._settings, self._pool)
            released = encoder.taken
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
            self._ring.fail()
            if encoder is not None:
                # What was written before stays, for recovery.
                with contextlib.suppress(Exception):
                    encoder.close()

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


def stage_video(path: Path, staged: Path, rate: Rate) -> int:
    """Move the packets of a take's video into an ordinary MP4 and return how many frames it has.

    Raises:
        EncodeError: If it cannot be written.
    """
    from rolltape.video.packets import join

    return join([path], staged, rate)
