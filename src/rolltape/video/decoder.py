"""The decoder of one video: GOPs in, chosen frames out, each GOP once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from rolltape.errors import CodecError, DecodeError, FrameIndexError
from rolltape.video.index import MediaIndex

if TYPE_CHECKING:
    import av

__all__ = ["Decoder", "create_decoder"]

_DECODERS = {"av1": ("libdav1d", "libaom-av1", "av1")}
_KEYFRAMES_BACK = 2


def create_decoder(codec: str, extradata: bytes = b"") -> av.VideoCodecContext:
    """Return an open decoder with one thread and no delay of its own.

    Raises:
        CodecError: This build has no decoder for the codec.
    """
    import av
    import av.error

    for name in _DECODERS.get(codec, (codec,)):
        try:
            context = av.CodecContext.create(name, "r")
        except ValueError:  # av.codec.codec.UnknownCodecError
            continue
        assert isinstance(context, av.VideoCodecContext)
        if extradata:
            context.extradata = extradata
        context.thread_count = 1
        context.thread_type = "NONE"
        if name == "libdav1d":
            context.options = {"max_frame_delay": "1"}
        try:
            context.open()
        except av.error.FFmpegError as error:
            raise CodecError(f"The decoder {name} refuses this stream's configuration.", found=str(error)) from error
        return context
    raise CodecError(f"This build of FFmpeg has no decoder for {codec}.", fix="pip install --upgrade av")


class _Request:
    """What one call still wants: frames by mark (their place among all samples in presentation order)."""

    __slots__ = ("damaged", "emit", "ranks", "top")

    def __init__(self, ranks: dict[int, int], emit: Callable[[int, av.VideoFrame], None]) -> None:
        self.ranks, self.emit, self.top = ranks, emit, max(ranks)
        self.damaged: set[int] = set()

    def give(self, mark: int, frame: av.VideoFrame) -> None:
        self.emit(self.ranks.pop(mark), frame)


class Decoder:
    """Decodes chosen frames of one indexed video; each GOP once, no further than the last frame wanted.

    Args:
        index: The video's index.
        view: The bytes of the whole file, or a function that returns the bytes of a sample, `(offset, size) -> bytes`.

    Not safe for several threads at once.
    """

    def __init__(self, index: MediaIndex, view: memoryview | Callable[[int, int], bytes]) -> None:
        self.index = index
        self._fetch = view if callable(view) else lambda offset, size: view[offset : offset + size]
        self._context = create_decoder(index.codec, index.extradata)
        self._skips = index.codec in ("h264", "hevc")  # these can leave out frames that no other frame needs
        self._skipping = False
        self._keys = np.flatnonzero(index.key)
        self._marks = np.empty(len(index.pts), np.int64)  # of every sample, hidden ones too; its pts for the decoder
        self._marks[np.argsort(index.pts, kind="stable")] = np.arange(len(index.pts))
        self._shown = self._marks[index.order]  # by rank
        self._start = 0  # where the present run began
        self._next: int | None = None  # position that may be fed next without a restart
        self._inside: set[int] = set()  # marks that were fed and have not come out
        self._kept: dict[int, av.VideoFrame] = {}  # frames that came out after the last one wanted
        self._last = -2  # last rank of the call before

    def decode(self, ranks: Iterable[int], emit: Callable[[int, av.VideoFrame], None]) -> None:
        """Call `emit(rank, frame)` once for each of the distinct ranks, in no promised order.

        Raises:
            DecodeError: A frame did not come out of the decoder; names file and frame.
            FrameIndexError: A rank is not in the video.
        """
        wanted = self._check(ranks)
        if not wanted:
            return
        request = _Request({int(self._shown[rank]): rank for rank in wanted}, emit)
        steady, self._last = wanted[0] == self._last + 1, wanted[-1]
        try:
            self._give_kept(request)
            # A frame that leans on what comes before its keyframe does not come out when decoding starts there:
            # then again from the keyframe before, and from the one before that.
            for back in range(_KEYFRAMES_BACK + 1):
                if not request.ranks:
                    return
                self._run(request, back, steady and back == 0)
            if request.ranks:
                mark, rank = next(iter(request.ranks.items()))
                found = "its data is damaged" if mark in request.damaged else "the decoder did not give it"
                raise self._missing(rank, found)
        except BaseException:
            self._next, self._kept = None, {}
            raise

    def close(self) -> None:
        """Let go of decoder and frames."""
        self._kept = {}
        self._context = None  # type: ignore[assignment]  # nothing may be decoded any more

    def _check(self, ranks: Iterable[int]) -> list[int]:
        wanted = sorted({int(rank) for rank in ranks})
        if wanted and not 0 <= wanted[0] <= wanted[-1] < self.index.n:
            bad = wanted[0] if wanted[0] < 0 else wanted[-1]
            raise FrameIndexError(
                "The video has no such frame.", where=self.index.where, expected=f"0 to {self.index.n - 1}", found=bad
            )
        return wanted

    def _missing(self, rank: int, found: str) -> DecodeError:
        return DecodeError(
            "A frame of the video cannot be decoded.",
            where=f"{self.index.where}, frame {rank}",
            found=found,
            fix="Check the file (rolltape check); it may be cut off or damaged.",
        )

    def _give_kept(self, request: _Request) -> None:
        for mark in [mark for mark in request.ranks if mark in self._kept]:
            request.give(mark, self._kept[mark])
        self._kept = {mark: frame for mark, frame in self._kept.items() if mark > request.top}

    def _run(self, request: _Request, back: int, steady: bool) -> None:
        """Feed what the frames still wanted need, GOP by GOP."""
        order, starts = self.index.order, self.index.gop_start
        for rank in sorted(request.ranks.values(), key=lambda rank: (starts[rank], order[rank])):
            mark, position, start = int(self._shown[rank]), int(order[rank]), int(starts[rank])
            if start < 0:
                raise self._missing(rank, "no keyframe before it")
            if back:
                start = int(self._keys[max(0, int(np.searchsorted(self._keys, start)) - back)])
            if not self._reaches(mark, start, position):
                self._drain(request)
                self._restart(start)
            while self._next is not None and self._next <= position and mark in request.ranks:
                self._feed(request, steady)
        if steady:  # read in order: feed on rather than drain, which would cost a restart at the next frame
            more = self.index.reorder_delay + 2
            while request.ranks and more and self._next is not None and self._next < len(self._marks):
                self._feed(request, steady)
                more -= 1
        self._drain(request)

    def _reaches(self, mark: int, start: int, position: int) -> bool:
        """Whether the present run of the decoder will give this frame, or can go on to it without a restart."""
        if self._next is None:
            return False
        return mark in self._inside or (self._start <= start <= self._next <= position)

    def _restart(self, start: int) -> None:
        self._context.flush_buffers()
        self._kept = {}
        self._inside.clear()
        self._next = self._start = start

    def _feed(self, request: _Request, steady: bool) -> None:
        import av
        import av.error

        assert self._next is not None
        position, self._next = self._next, self._next + 1
        mark = int(self._marks[position])
        packet = av.Packet(bytes(self._fetch(int(self.index.offset[position]), int(self.index.size[position]))))
        packet.pts, packet.dts = mark, position
        skip = self._skips and not steady and mark not in request.ranks
        if skip != self._skipping:
            self._context.skip_frame = "NONREF" if skip else "DEFAULT"
            self._skipping = skip
        if not skip:
            self._inside.add(mark)
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            raise DecodeError(
                "A sample of the video cannot be decoded.",
                where=f"{self.index.where}, sample {position}",
                found=str(error),
                fix="Check the file (rolltape check); it may be cut off or damaged.",
            ) from error
        self._take(request, frames)

    def _take(self, request: _Request, frames: Iterable[av.VideoFrame]) -> None:
        for frame in frames:
            mark = frame.pts
            if mark is None:
                continue
            self._inside.discard(mark)
            if mark in request.ranks:
                if frame.is_corrupt:  # parts of it were made up: not the picture that was recorded
                    request.damaged.add(mark)
                else:
                    request.give(mark, frame)
            elif mark > request.top:
                self._kept[mark] = frame

    def _drain(self, request: _Request) -> None:
        """Get out what the decoder still holds of the frames wanted."""
        import av.error

        if self._next is None or self._inside.isdisjoint(request.ranks):
            return
        try:
            frames = self._context.decode(None)
        except av.error.FFmpegError as error:
            raise DecodeError("The decoder failed at the end.", where=self.index.where, found=str(error)) from error
        self._next = None
        self._take(request, frames)
