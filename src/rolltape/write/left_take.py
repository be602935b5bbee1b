"""What a killed recording left on the disk of one take, and the episode that can be made of it.

All streams get the same number of frames: the smallest that each of them has. A camera has the frames of its video that
are whole and without a gap, and behind them those that still waited in its spool; they are encoded now and joined on.
Nothing in the take's folder is changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolltape.errors import DamagedFileError, DecodeError, EpisodeError, VideoError
from rolltape.format import DepthEncoderConfig, Feature, Rate, RGBEncoderConfig, data_schema
from rolltape.store import local
from rolltape.write.cameras import EncoderSettings, Footage, encode_picture
from rolltape.write.frames import FrameForm
from rolltape.write.picture_log import read_pictures
from rolltape.write.row_log import ROWS_FILE, read_rows
from rolltape.write.spool import read_spool
from rolltape.write.statistics import PictureStats
from rolltape.write.take import Recorded
from rolltape.write.take_note import CameraNote, TakeNote

if TYPE_CHECKING:
    from rolltape.video.index import MediaIndex

__all__ = ["LeftTake"]

_Array = np.ndarray[Any, Any]
_Stage = Callable[[str], Path]
_BLOCK = 32
"""Pictures that are decoded at a time."""


class LeftTake:
    """A take that was left on the disk. To be closed after use.

    Args:
        folder: Its folder.
        note: Its note.

    Attributes:
        streams: How many frames the rows have (`rows`), and each camera.
    """

    def __init__(self, folder: Path, note: TakeNote) -> None:
        self.folder = folder
        self.note = note
        form = FrameForm(note.info.features)
        self._rows = read_rows(folder / ROWS_FILE, form.columns, form.texts, data_schema(note.info.features))
        self._open = contextlib.ExitStack()
        self._cameras: dict[str, _LeftPictures | _LeftVideo] = {}
        for feature in form.cameras:
            self._cameras[feature.name] = self._camera(feature)

    @property
    def streams(self) -> dict[str, int]:
        """How many frames each stream has."""
        return {"rows": self._rows.frames, **{name: one.frames for name, one in self._cameras.items()}}

    @property
    def frames(self) -> int:
        """How many frames the episode would have."""
        return min(self.streams.values())

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of these frames, in the order in which they first come."""
        return tuple(dict.fromkeys(self._rows.tasks[: self.frames]))

    @property
    def settings(self) -> EncoderSettings:
        """How the take was encoded."""
        rgb: Any = RGBEncoderConfig()
        depth: Any = DepthEncoderConfig()
        for camera in self.note.cameras.values():
            if isinstance(camera.encoder, DepthEncoderConfig):
                depth = camera.encoder
            elif camera.encoder is not None:
                rgb = camera.encoder
        return EncoderSettings(self.note.info.rate, rgb, depth)

    @property
    def depth_units(self) -> dict[str, str]:
        """The unit of each depth camera."""
        return {key: one.depth_unit for key, one in self.note.cameras.items() if one.depth_unit is not None}

    def recorded(self, stage: _Stage) -> Recorded:
        """Return the take as a recording that has ended.

        Args:
            stage: Gives a fresh name in the work folder; the videos are left at some of them.

        Raises:
            EpisodeError: If there is no frame.
            EncodeError: If a video cannot be written.
        """
        while True:
            frames = self.frames
            if not frames:
                raise EpisodeError("Nothing of the take can be brought back.", where=self.folder, found=self.shortage)
            try:
                footage = {name: one.footage(frames, stage) for name, one in self._cameras.items()}
            except _Damaged:
                continue  # that camera has fewer frames now
            columns: dict[str, Any] = {name: values[:frames] for name, values in self._rows.columns.items()}
            columns |= {name: texts[:frames] for name, texts in self._rows.texts.items()}
            return Recorded(frames, columns, self._rows.tasks[:frames], footage)

    @property
    def shortage(self) -> str:
        """Which streams have no frame."""
        return ", ".join(f"{name}: no frame" for name, frames in self.streams.items() if not frames)

    def close(self) -> None:
        """Let go of the files."""
        self._open.close()

    def __enter__(self) -> LeftTake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _camera(self, feature: Feature) -> _LeftPictures | _LeftVideo:
        note = self.note.cameras.get(feature.name)
        if note is None:
            note = CameraNote("", "pictures" if feature.is_image else "video")
        waiting: dict[int, Callable[[], _Array]] = {}
        if feature.name in self.note.spool:
            space, waiting = read_spool(self.folder, self.note.spool[feature.name])
            if space is not None:
                self._open.callback(space.close)
                self._open.callback(waiting.clear)
        if feature.is_image:
            return _LeftPictures(feature, self.folder / note.file, waiting)
        return _LeftVideo(feature, note, self.folder / note.file, self.note.info.rate, waiting)


class _Damaged(Exception):
    """A picture could not be decoded, and the camera has fewer frames than it seemed."""


class _LeftPictures:
    """A camera whose pictures live in the table."""

    def __init__(self, feature: Feature, path: Path, waiting: dict[int, Callable[[], _Array]]) -> None:
        self.feature = feature
        self._pictures = read_pictures(path) if path.is_file() else []
        self._waiting = waiting
        self.frames = _reach(len(self._pictures), waiting)

    def footage(self, frames: int, stage: _Stage) -> Footage:
        """Return so many frames."""
        from rolltape.video import images

        stats = PictureStats(self.feature, spill=stage(f"{self.feature.name}.pixels"))
        made = self._pictures[:frames]
        made += [encode_picture(self._waiting[number](), self.feature.is_depth) for number in range(len(made), frames)]
        for number, picture in enumerate(made):
            try:
                stats.add(images.decode_image(picture))
            except DecodeError:
                self.frames = number
                raise _Damaged from None
        return Footage(frames, stats, pictures=tuple(made))


class _LeftVideo:
    """A camera with a video."""

    def __init__(
        self, feature: Feature, note: CameraNote, path: Path, rate: Rate, waiting: dict[int, Callable[[], _Array]]
    ) -> None:
        from rolltape.video import packets

        self.feature = feature
        self._note = note
        self._path = path
        self._rate = rate
        self._waiting = waiting
        self._config = note.encoder or (DepthEncoderConfig() if feature.is_depth else RGBEncoderConfig())
        self._index: MediaIndex | None = None
        with contextlib.suppress(VideoError, DamagedFileError):  # then there is no frame
            self._index = packets.take(path, rate)
        self._filmed = 0 if self._index is None else self._index.n
        self.frames = _reach(self._filmed, waiting)

    def footage(self, frames: int, stage: _Stage) -> Footage:
        """Return so many frames as an ordinary MP4."""
        from rolltape.video.packets import Source, join

        filmed = stage(f"{self.feature.name}.mp4")
        if self._filmed:
            assert self._index is not None
            join([Source(self._path, index=self._index)], filmed, self._rate)
        path = filmed if frames == self._filmed else self._with_tail(filmed, frames, stage)
        if path != filmed:
            local.remove_file(filmed)
        stats = PictureStats(self.feature, spill=stage(f"{self.feature.name}.pixels"))
        for number, picture in enumerate(self._pictures(path, range(frames))):
            stats.add(self._distances(picture) if self.feature.is_depth else picture)
            assert number < frames
        return Footage(frames, stats, path=path)

    def _with_tail(self, filmed: Path, frames: int, stage: _Stage) -> Path:
        """Return a video of so many frames: what can be copied, and the rest encoded again or for the first time."""
        from rolltape.video.index import index_file
        from rolltape.video.packets import Source, join, whole_prefixes

        kept = 0
        if self._filmed:
            index = index_file(filmed)
            counts = whole_prefixes(index, self._rate)
            kept = int(counts[counts <= frames][-1])
        target = stage(f"{self.feature.name}.mp4")
        tail = self._encoded(filmed, range(kept, frames), stage)
        try:
            sources = [Source(filmed, index=index.prefix(kept))] if kept else []
            join([*sources, *([Source(tail)] if tail is not None else [])], target, self._rate)
        except VideoError:
            if not kept or tail is None:
                raise
            # Another encoder than the take's: its pictures cannot share a file with the take's.
            whole = self._encoded(filmed, range(frames), stage)
            assert whole is not None
            join([whole], target, self._rate)
            local.remove_file(whole)
        if tail is not None:
            local.remove_file(tail)
        return target

    def _encoded(self, filmed: Path, numbers: range, stage: _Stage) -> Path | None:
        """Encode frames as the take's were: from the spool as they were recorded, else as they were filmed."""
        from rolltape.video.encode import VideoEncoder

        if not numbers:
            return None
        height, width, _ = self.feature.hwc
        path = stage(f"{self.feature.name}.tail.mp4")
        encoder = VideoEncoder(path, rate=self._rate, width=width, height=height, config=self._config, fragmented=True)
        with encoder:
            decoded = [number for number in numbers if number not in self._waiting]
            pictures = self._pictures(filmed, decoded) if decoded else iter(())
            for number in numbers:
                if number not in self._waiting:
                    encoder.put(next(pictures))
                    continue
                frame = self._waiting[number]()
                encoder.put(self._codes(frame) if self.feature.is_depth else frame)
        return path

    def _pictures(self, path: Path, numbers: Sequence[int]) -> Iterator[_Array]:
        """Yield pictures of a video: uint8 HWC, or codes of depth."""
        from rolltape.video.decode import VideoFile

        with VideoFile(path) as video:
            for start in range(0, len(numbers), _BLOCK):
                block = list(numbers[start : start + _BLOCK])
                try:
                    yield from self._read(video, block)
                except DecodeError:
                    self.frames = self._first_damaged(video, block)
                    raise _Damaged from None

    def _read(self, video: Any, numbers: Sequence[int]) -> _Array:
        found: _Array = video.read_raw(numbers) if self.feature.is_depth else video.read(numbers, layout="HWC")
        return found

    def _first_damaged(self, video: Any, numbers: Sequence[int]) -> int:
        for number in numbers:
            try:
                self._read(video, [number])
            except DecodeError:
                return number
        return numbers[0]

    def _codes(self, frame: _Array) -> _Array:
        from rolltape.video import depth

        assert isinstance(self._config, DepthEncoderConfig)
        return depth.quantize(frame, depth.unit_of(frame.dtype), self._config)

    def _distances(self, codes: _Array) -> _Array:
        from rolltape.video import depth

        assert isinstance(self._config, DepthEncoderConfig)
        if self._note.depth_unit == "mm":
            return depth.dequantize(codes, self._config, "mm").astype(np.uint16)
        return depth.dequantize(codes, self._config, "m")


def _reach(frames: int, waiting: dict[int, Callable[[], _Array]]) -> int:
    """Return how many frames there are without a gap, those that waited included."""
    while frames in waiting:
        frames += 1
    return frames
