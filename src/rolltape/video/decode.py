"""Pictures out of a mapped MP4: the bytes of a GOP go straight to a decoder, no demuxer and no seek."""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import ClosedError, ContainerError, DamagedFileError, DecodeError
from rolltape.video.convert import Converter, Layout, UInt8Array, gray_plane
from rolltape.video.decoder import Decoder
from rolltape.video.index import MediaIndex, build_index

if TYPE_CHECKING:
    import av

__all__ = ["VideoFile"]

_INHERITED: list[Any] = []  # decoders that a forked child must neither use nor free


class VideoFile:
    """One MP4 file, mapped, indexed and ready to give pictures.

    Safe for several threads (they take turns), and for a forked child, which gets its own decoder at its first read.

    Args:
        path: The file.

    Raises:
        DamagedFileError: The file is missing or cannot be read.
        ContainerError: The file is not a readable MP4.

    Example:
        >>> with VideoFile("clip.mp4") as video:                                    # doctest: +SKIP
        ...     pictures = video.read([0, 10, 11])
        >>> pictures.shape, pictures.dtype                                          # doctest: +SKIP
        ((3, 3, 480, 640), dtype('uint8'))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._decoder: Decoder | None = None
        self._converters: dict[str, Converter] = {}
        self._closed = False
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    raise ContainerError("The video file is empty.", where=self.path)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise DamagedFileError("The video cannot be read.", path=self.path, found=error.strerror) from error
        self._view = memoryview(self._map)
        try:
            self.index: MediaIndex = build_index(self._view, self.path)
        except BaseException:
            self.close()
            raise

    def read(
        self, ranks: Sequence[int] | npt.NDArray[Any], out: UInt8Array | None = None, layout: Layout | None = None
    ) -> UInt8Array:
        """Return RGB pictures by frame number.

        Args:
            ranks: Frame numbers in presentation order, in any order, repeats allowed.
            out: uint8 array [k, 3, H, W] or [k, H, W, 3] to fill; None: a new one. May be a strided view.
            layout: `"CHW"` or `"HWC"`; None: as `out` has it, else CHW.

        Returns:
            `out`, with the pictures in the order of `ranks`; bytes equal to lerobot's (see `convert`).

        Raises:
            DecodeError: A frame cannot be decoded, or has another size than `out`.
            FrameIndexError: A number is not in the video.
            ClosedError: The file was closed.
        """
        height, width = self.index.picture_size
        if layout is None:
            layout = "HWC" if out is not None and out.shape[1:] == (height, width, 3) and height != 3 else "CHW"
        if out is None:
            out = np.empty((len(ranks), *((3, height, width) if layout == "CHW" else (height, width, 3))), np.uint8)
        target = out
        if out.dtype != np.uint8 or len(out) != len(ranks):
            raise DecodeError(
                "The array does not fit.", expected=f"uint8, {len(ranks)} pictures", found=f"{out.dtype}, {len(out)}"
            )
        rows = _rows(ranks)
        with self._lock_here():
            decoder = self._ready()
            converter = self._converters.get(layout)
            if converter is None:
                converter = self._converters[layout] = Converter(layout)

            def emit(rank: int, frame: av.VideoFrame) -> None:
                first, *others = rows[rank]
                self._into(converter, rank, frame, target[first])
                for row in others:
                    np.copyto(target[row], target[first])

            decoder.decode(rows, emit)
        return out

    def read_raw(
        self, ranks: Sequence[int] | npt.NDArray[Any], out: npt.NDArray[np.uint16] | None = None
    ) -> npt.NDArray[np.uint16]:
        """Return the 12-bit codes of depth pictures, uint16 [k, H, W], by frame number (see `depth`)."""
        if out is None:
            out = np.empty((len(ranks), self.index.height, self.index.width), np.uint16)
        target, rows = out, _rows(ranks)

        def emit(rank: int, frame: av.VideoFrame) -> None:
            first, *others = rows[rank]
            gray_plane(frame, target[first])
            for row in others:
                np.copyto(target[row], target[first])

        with self._lock_here():
            self._ready().decode(rows, emit)
        return out

    def frames(self, ranks: Sequence[int] | npt.NDArray[Any]) -> dict[int, av.VideoFrame]:
        """Return the decoder's own frames (YUV, no copy) by frame number."""
        found: dict[int, av.VideoFrame] = {}
        with self._lock_here():
            self._ready().decode(ranks, found.__setitem__)
        return found

    def close(self) -> None:
        """Give decoder and map back; waits for a read that is under way."""
        with self._lock_here():
            if self._closed:
                return
            self._closed = True
            if self._decoder is not None:
                self._decoder.close()
                self._decoder = None
            self._converters = {}
            # An error under way may still hold slices of the view; the map then goes with the last of them.
            with contextlib.suppress(BufferError):
                self._view.release()
                self._map.close()

    def __enter__(self) -> VideoFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        index = self.index
        return f"VideoFile({self.path!r}, {index.codec} {index.width}x{index.height}, {index.n} frames)"

    def _into(self, converter: Converter, rank: int, frame: av.VideoFrame, out: UInt8Array) -> None:
        try:
            if not self.index.rotation:
                converter.into(frame, out)
                return
            upright = converter.layout == "HWC"
            stored = (frame.height, frame.width)
            picture = np.empty((*stored, 3) if upright else (3, *stored), np.uint8)
            converter.into(frame, picture)
            turned = np.rot90(picture, 4 - self.index.rotation // 90, (0, 1) if upright else (1, 2))
            if turned.shape != out.shape:
                raise DecodeError("The picture does not fit the array.", expected=out.shape, found=turned.shape)
            np.copyto(out, turned)
        except DecodeError as error:
            raise DecodeError(
                error.what, where=f"{self.path}, frame {rank}", expected=error.expected, found=error.found
            ) from None

    def _lock_here(self) -> threading.Lock:
        """The lock of this process: after a fork, another thread of the parent may have held the old one for ever."""
        if self._pid != os.getpid():
            _INHERITED.append((self._decoder, self._converters, self._lock))
            self._pid, self._lock = os.getpid(), threading.Lock()
            self._decoder, self._converters = None, {}
        return self._lock

    def _ready(self) -> Decoder:
        if self._closed:
            raise ClosedError("The video file is closed.", where=self.path)
        if self._decoder is None:
            self._decoder = Decoder(self.index, self._view)
        return self._decoder


def _rows(ranks: Sequence[int] | npt.NDArray[Any]) -> dict[int, list[int]]:
    """Rows of the output by frame number."""
    rows: dict[int, list[int]] = {}
    for row, rank in enumerate(ranks):
        rows.setdefault(int(rank), []).append(row)
    return rows
