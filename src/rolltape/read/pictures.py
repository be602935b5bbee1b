"""Pictures of a batch: decoded by file and GOP on persistent threads, straight into the arrays that are handed out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from rolltape.errors import (
    ContainerError,
    DamagedFileError,
    FormatError,
    FrameTimestampError,
    VideoError,
)
from rolltape.format.encoders import DepthEncoderConfig
from rolltape.format.features import Feature
from rolltape.format.paths import safe_join
from rolltape.read.buffers import Buffers
from rolltape.read.forms import PictureFormat, in_unit, place, to_float
from rolltape.read.images import ImageColumn
from rolltape.read.plan import FileFrames, no_footage, plan_video
from rolltape.read.tables import FrameTable
from rolltape.read.threads import run_all, thread_count
from rolltape.store.local import is_lfs_pointer

if TYPE_CHECKING:
    from rolltape.video import DecoderPool
    from rolltape.video.decode import VideoFile

__all__ = ["Pictures", "Request"]

Int64s = npt.NDArray[np.int64]
Job = Callable[[], None]

_SCRATCH = 16


@dataclass(frozen=True)
class Request:
    """Pictures of one camera.

    Attributes:
        key: The camera.
        places: The episode of each picture, as a position in the episodes table, int64 [k].
        frames: The frame in the episode, int64 [k].
    """

    key: str
    places: Int64s
    frames: Int64s


class _Scatter:
    """Looks like an array of pictures to a decoder; its rows are rows of a larger array."""

    def __init__(self, array: npt.NDArray[Any], targets: Int64s) -> None:
        self._array = array
        self._targets = targets.tolist()
        self.dtype = array.dtype
        self.shape = (len(self._targets), *array.shape[1:])

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._array[self._targets[row]]
        return found


class Pictures:
    """Reads pictures of one dataset; decoders and memory are shared by all that read from it.

    Args:
        table: The rows of the frames.
        open_files: How many video files to keep open.
        image_memory: Bytes of encoded pictures from data tables to keep.
    """

    def __init__(self, table: FrameTable, open_files: int = 64, image_memory: int = 1 << 30) -> None:
        self.table = table
        self.meta = table.meta
        self.open_files = open_files
        self.image_memory = image_memory
        self.buffers = Buffers()
        self._decoders: DecoderPool | None = None
        self._images: dict[str, ImageColumn] = {}
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._on_grid: weakref.WeakKeyDictionary[VideoFile, bool] = weakref.WeakKeyDictionary()
        self._depth_tables: dict[tuple[str, str], npt.NDArray[np.float32]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"_depth_tables": self._depth_tables, "_sizes": self._sizes}
        return (Pictures, (self.table, self.open_files, self.image_memory), state)

    def set_depth_table(self, key: str, unit: str, table: npt.NDArray[np.float32]) -> None:
        """Set the distances that a depth camera's 4,096 codes stand for, float32 in `unit`."""
        self._depth_tables[key, unit] = table

    def read(self, requests: list[Request], form: PictureFormat) -> list[npt.NDArray[Any]]:
        """Return for each request an array of [k, *picture].

        Raises:
            NoFootageError: An episode has no footage of a camera, or its file is missing.
            FrameTimestampError: A video is too short, or has no picture at the wanted time.
            DamagedFileError: A file cannot be read.
            VideoError: A picture cannot be decoded, or has another size than the others.
        """
        arrays: list[npt.NDArray[Any]] = []
        jobs: list[Job] = []
        wrong: dict[str, tuple[int, int, int]] = {}
        for request in requests:
            camera = self.meta.features[request.key]
            array = self.buffers.take((len(request.places), *form.shape(*self._size(camera))), form.of(camera))
            arrays.append(array)
            jobs += self._jobs(camera, request, array, form, wrong)
        run_all(jobs)
        if wrong:
            return self._again(requests, form, wrong)
        return arrays

    def _again(
        self, requests: list[Request], form: PictureFormat, wrong: dict[str, tuple[int, int, int]]
    ) -> list[npt.NDArray[Any]]:
        """Read once more after a camera's pictures turned out to have another size than declared."""
        for key, size in wrong.items():
            if key in self._sizes:
                raise VideoError(
                    "The pictures of a camera have different sizes.",
                    where=f"camera {key}",
                    expected=_size_text(self._sizes[key]),
                    found=_size_text(size),
                    fix="Open with resize=(height, width), or choose episodes of one size.",
                )
            self._sizes[key] = size
        return self.read(requests, form)

    def _size(self, camera: Feature) -> tuple[int, int, int]:
        height, width, channels = self._sizes.get(camera.name, camera.hwc)
        if camera.is_video:
            channels = 1 if camera.is_depth else 3
        return height, width, channels

    def _jobs(
        self,
        camera: Feature,
        request: Request,
        array: npt.NDArray[Any],
        form: PictureFormat,
        wrong: dict[str, tuple[int, int, int]],
    ) -> list[Job]:
        if camera.is_image:
            return self._image_jobs(camera, request, array, form, wrong)
        if not len(request.places):
            return []
        plans = plan_video(self.meta, camera.name, request.places, request.frames)
        return [partial(self._video_job, camera, plan, array, form, wrong) for plan in plans]

    # Video files.

    def _video_job(
        self,
        camera: Feature,
        plan: FileFrames,
        array: npt.NDArray[Any],
        form: PictureFormat,
        wrong: dict[str, tuple[int, int, int]],
    ) -> None:
        with self._open(plan) as video:
            height, width, channels = self._size(camera)
            index = video.index
            shown = (index.height, index.width) if camera.is_depth else index.picture_size
            found = (*shown, channels)
            if found != (height, width, channels) and form.resize is None:
                wrong[camera.name] = found
                return
            ranks = self._ranks(plan, video, form.tolerance_s)
            if camera.is_depth:
                self._depth(camera, plan, video, ranks, array, form)
            elif form.resize is None and array.dtype == np.uint8:
                video.read(ranks, cast("Any", _Scatter(array, plan.targets)), form.layout)
            elif form.resize is None:
                self._as_float(video, ranks, array, plan.targets, form)
            else:
                self._resized(video, ranks, array, plan.targets, form)

    @contextmanager
    def _open(self, plan: FileFrames) -> Iterator[VideoFile]:
        if self._decoders is None:
            from rolltape.video import DecoderPool

            self._decoders = DecoderPool(self.open_files)
        path = safe_join(self.meta.root, plan.path)
        try:
            lease = self._decoders.get(path)
            video = lease.__enter__()
        except (ContainerError, OSError) as error:
            raise self._cannot_open(plan, error) from error
        try:
            yield video
        finally:
            lease.__exit__(None, None, None)

    def _cannot_open(self, plan: FileFrames, error: Exception) -> Exception:
        path = safe_join(self.meta.root, plan.path)
        if not path.is_file():
            return no_footage(self.meta, plan.key, int(plan.places[0]), plan.path)
        columns = self.meta.episodes.video(plan.key)
        place = plan.places[0]
        same = (columns.chunk == columns.chunk[place]) & (columns.file == columns.file[place]) & columns.valid
        episodes = self.meta.episodes.index[same].tolist()
        try:
            with open(path, "rb") as file:
                pointer = is_lfs_pointer(file.read(64))
        except OSError:  # no permission, a disk that fails: `error` says it
            pointer = False
        if pointer:
            what, fix = "The video is a Git LFS pointer, not the content.", "Fetch the content: git lfs pull"
        else:
            what = "The video cannot be read."
            fix = f"Restore the file from its source. `rolltape check {self.meta.root}` lists what is affected."
        text = getattr(error, "what", None) or getattr(error, "strerror", None) or str(error)
        return DamagedFileError(what, path=plan.path, episodes=episodes, found=text, fix=fix)

    def _ranks(self, plan: FileFrames, video: VideoFile, tolerance_s: float) -> Int64s:
        """Return the frame numbers in the file, by count where the file is on the grid, else by time."""
        on_grid = self._on_grid.get(video)
        if on_grid is None:
            on_grid = self._on_grid[video] = bool(video.index.is_grid(self.meta.info.rate))
        if not on_grid:
            return self._ranks_by_time(plan, video, tolerance_s)
        low, high = int(plan.ranks.min()), int(plan.ranks.max())
        if low < 0 or high >= video.index.n:
            bad = int(np.argmin(plan.ranks) if low < 0 else np.argmax(plan.ranks))
            raise FrameTimestampError(
                "The video is shorter than the table says.",
                where=self._where(plan, bad),
                expected=f"picture {int(plan.ranks[bad])} of the file",
                found=f"{video.index.n} pictures",
                fix=f"Restore the video; `rolltape check {self.meta.root}` lists the episodes that lack pictures.",
            )
        return plan.ranks

    def _ranks_by_time(self, plan: FileFrames, video: VideoFile, tolerance_s: float) -> Int64s:
        times = self.table.values("timestamp")[self.table.starts[plan.places] + plan.frames]
        wanted = self.meta.episodes.video(plan.key).from_timestamp[plan.places] + times.astype(np.float64)
        seconds = np.asarray(video.index.seconds)
        right = np.clip(np.searchsorted(seconds, wanted), 1, max(1, len(seconds) - 1))
        left = right - 1
        right = np.minimum(right, len(seconds) - 1)
        ranks = np.where(wanted - seconds[left] <= seconds[right] - wanted, left, right)
        off = np.abs(seconds[ranks] - wanted)
        # A tick of the file and the rounding of float32 timestamps are no fault of the recording.
        allowed = tolerance_s + 0.5 / video.index.timescale + np.spacing(np.abs(times).astype(np.float32))
        bad = np.flatnonzero(off > allowed)
        if len(bad):
            at = int(bad[0])
            raise FrameTimestampError(
                "The video has no picture at the wanted time.",
                where=self._where(plan, at),
                expected=f"{wanted[at]:.6f} s, within {tolerance_s} s",
                found=f"the nearest picture is at {seconds[ranks[at]]:.6f} s",
                fix="Correct the timestamps, or allow more with tolerance_s=.",
            )
        return np.asarray(ranks, np.int64)

    def _where(self, plan: FileFrames, row: int) -> str:
        episode = int(self.meta.episodes.index[plan.places[row]])
        return f"{plan.path}, camera {plan.key}, episode {episode}, frame {int(plan.frames[row])}"

    def _as_float(
        self, video: VideoFile, ranks: Int64s, array: npt.NDArray[Any], targets: Int64s, form: PictureFormat
    ) -> None:
        for rows in _slices(ranks):
            scratch = self.buffers.take((len(rows), *array.shape[1:]), np.uint8)
            video.read(ranks[rows], scratch, form.layout)
            for picture, target in zip(scratch, targets[rows].tolist(), strict=True):
                to_float(picture, array[target])

    def _resized(
        self, video: VideoFile, ranks: Int64s, array: npt.NDArray[Any], targets: Int64s, form: PictureFormat
    ) -> None:
        for rows in _slices(ranks):
            scratch = self.buffers.take((len(rows), *video.index.picture_size, 3), np.uint8)
            video.read(ranks[rows], scratch, "HWC")
            for picture, target in zip(scratch, targets[rows].tolist(), strict=True):
                place(picture, array[target], form)

    def _depth(
        self,
        camera: Feature,
        plan: FileFrames,
        video: VideoFile,
        ranks: Int64s,
        array: npt.NDArray[Any],
        form: PictureFormat,
    ) -> None:
        table = self._depth_table(camera, form.depth_unit)
        for rows in _slices(ranks):
            codes = video.read_raw(ranks[rows])
            for one, target in zip(codes, plan.targets[rows].tolist(), strict=True):
                place(table.take(one, mode="clip")[..., None], array[target], form)

    def _depth_table(self, camera: Feature, unit: str) -> npt.NDArray[np.float32]:
        """Return the distance that each of the 4,096 codes stands for: there is no need to compute it per pixel."""
        key = (camera.name, unit)
        if key not in self._depth_tables:
            from rolltape.video import depth

            config = DepthEncoderConfig.from_info(camera.video_info)
            codes = np.arange(depth.MAX_CODE + 1, dtype=np.uint16)
            self._depth_tables[key] = depth.dequantize(codes, config, cast("Any", unit))
        return self._depth_tables[key]

    # Pictures in the data tables.

    def _image_jobs(
        self,
        camera: Feature,
        request: Request,
        array: npt.NDArray[Any],
        form: PictureFormat,
        wrong: dict[str, tuple[int, int, int]],
    ) -> list[Job]:
        column = self._images.get(camera.name)
        if column is None:
            column = self._images[camera.name] = ImageColumn(self.table, camera.name, self.image_memory)
        positions = self.table.starts[request.places] + request.frames
        unique, inverse = np.unique(positions, return_inverse=True)
        encoded = column.read(unique)
        rows_of = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
        share = max(1, -(-len(unique) // thread_count()))
        job = partial(self._image_job, camera, encoded, rows_of, array, form, wrong)
        return [partial(job, range(at, min(at + share, len(unique)))) for at in range(0, len(unique), share)]

    def _image_job(
        self,
        camera: Feature,
        encoded: list[bytes],
        rows_of: list[npt.NDArray[Any]],
        array: npt.NDArray[Any],
        form: PictureFormat,
        wrong: dict[str, tuple[int, int, int]],
        which: range,
    ) -> None:
        from rolltape.video import images

        size = self._size(camera)
        for at in which:
            picture = images.decode_image(encoded[at], where=f"camera {camera.name}")
            picture = picture[..., None] if picture.ndim == 2 else picture
            if size[2] == 1:
                picture = picture[..., :1]  # a grey picture comes with three equal channels
            found = cast("tuple[int, int, int]", picture.shape)
            if found[2] != size[2] or (found != size and form.resize is None):
                wrong[camera.name] = found
                return
            if camera.is_depth:
                picture = in_unit(picture.astype(np.float32), camera.depth_unit, form.depth_unit)
            elif picture.dtype != np.uint8:
                raise FormatError(
                    "A picture does not hold 8-bit colours.", where=f"camera {camera.name}", found=str(picture.dtype)
                )
            first, *others = rows_of[at].tolist()
            place(picture, array[first], form)
            for row in others:
                np.copyto(array[row], array[first])


def _slices(ranks: Int64s) -> list[Int64s]:
    """Return row numbers in pieces of bounded size, in the order of the file."""
    order = np.argsort(ranks, kind="stable")
    return [order[at : at + _SCRATCH] for at in range(0, len(order), _SCRATCH)]


def _size_text(size: tuple[int, int, int]) -> str:
    return f"{size[0]}x{size[1]}, {size[2]} channels (height x width)"
