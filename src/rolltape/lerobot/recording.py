"""The recording half of the drop-in `LeRobotDataset`: the reference's names and arguments, our writer underneath.

What differs from the reference: an episode is on the disk and visible when `save_episode` returns; `info.json` comes
with the first episode (or with `finalize`); the caller's frame keeps its `task`; more forms of values are accepted.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from rolltape.errors import ClosedError, UsageError
from rolltape.format import CODEBASE_VERSION, DEFAULT_FEATURES, DepthEncoderConfig, Feature, RGBEncoderConfig
from rolltape.read.places import hub_home
from rolltape.write import Writer

__all__ = ["RecordingMixin"]


class RecordingMixin:
    """The methods of `LeRobotDataset` that record.

    Attributes:
        repo_id: The dataset's id.
        root: Its folder.
    """

    repo_id: str
    root: Path
    _writer: Writer | None = None
    _is_finalized: bool

    @classmethod
    def create(
        cls,
        repo_id: str,
        fps: int,
        features: Mapping[str, Any],
        root: str | Path | None = None,
        robot_type: str | None = None,
        use_videos: bool = True,
        tolerance_s: float = 1e-4,
        image_writer_processes: int = 0,
        image_writer_threads: int = 0,
        video_backend: str | None = None,
        batch_encoding_size: int = 1,
        rgb_encoder: RGBEncoderConfig | None = None,
        depth_encoder: DepthEncoderConfig | None = None,
        metadata_buffer_size: int = 10,
        streaming_encoding: bool = False,
        encoder_queue_maxsize: int = 30,
        encoder_threads: int | None = None,
        video_files_size_in_mb: int | None = None,
        data_files_size_in_mb: int | None = None,
        episode_fields: Mapping[str, str] | None = None,
    ) -> Self:
        """Start a new dataset for recording.

        Args:
            repo_id: The dataset's id, such as `me/lift`.
            fps: Frames per second, a whole number.
            features: Feature name to `{"dtype", "shape", "names"}`.
            root: The folder; `$HF_LEROBOT_HOME/{repo_id}` if None. It must not hold anything.
            robot_type: What robot it is.
            use_videos: Whether the dataset may have video features.
            tolerance_s: For reading afterwards.
            image_writer_processes: Not needed: pictures are compressed in threads.
            image_writer_threads: Not needed, as above.
            video_backend: For reading afterwards.
            batch_encoding_size: Not needed: videos are encoded while recording, and every episode is saved at once.
            rgb_encoder: How colour cameras are encoded.
            depth_encoder: How depth cameras are quantised and encoded.
            metadata_buffer_size: Not needed: every commit writes its episode rows.
            streaming_encoding: Always so: videos are encoded while recording, and no frame is dropped.
            encoder_queue_maxsize: How many frames of a camera may wait for its encoder.
            encoder_threads: Threads of each encoder.
            video_files_size_in_mb: Size limit of a packed video, MiB; 200 if None.
            data_files_size_in_mb: Size limit of a data file, MiB; 100 if None.
            episode_fields: Your own columns of the episodes table, name to type.

        Raises:
            DatasetExistsError: The folder holds a dataset or other files (a `FileExistsError`).
            FormatError, UsageError, CodecError: An argument is wrong (`ValueError`s).
        """
        place = Path(root) if root is not None else hub_home() / repo_id
        sizes: dict[str, Any] = {
            "data_files_size_in_mb": data_files_size_in_mb,
            "video_files_size_in_mb": video_files_size_in_mb,
        }
        writer = Writer.create(
            place,
            fps,
            features,
            robot_type=robot_type,
            episode_fields=episode_fields,
            rgb_encoder=rgb_encoder,
            depth_encoder=depth_encoder,
            encoder_threads=encoder_threads,
            queue_frames=max(1, encoder_queue_maxsize),
            use_videos=use_videos,
            non_finite="keep",
            **{name: size for name, size in sizes.items() if size is not None},
        )
        made = cls.__new__(cls)
        made._start_recording(repo_id, place, writer, None, tolerance_s, video_backend)
        return made

    @classmethod
    def resume(
        cls,
        repo_id: str,
        root: str | Path | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,
        video_backend: str | None = None,
        batch_encoding_size: int = 1,
        rgb_encoder: RGBEncoderConfig | None = None,
        depth_encoder: DepthEncoderConfig | None = None,
        encoder_threads: int | None = None,
        image_writer_processes: int = 0,
        image_writer_threads: int = 0,
        streaming_encoding: bool = False,
        encoder_queue_maxsize: int = 30,
        *,
        token: str | bool | None = None,
    ) -> Self:
        """Go on with a dataset in a local folder.

        Args:
            repo_id: The dataset's id.
            root: The folder; it must be given.
            tolerance_s: For reading afterwards.
            revision: Kept as it is.
            force_cache_sync: Not possible for a local folder.
            video_backend: For reading afterwards.
            batch_encoding_size: See `create`.
            rgb_encoder: How colour cameras are encoded; as the dataset has it if None.
            depth_encoder: How depth cameras are encoded; as the dataset has it if None.
            encoder_threads: See `create`.
            image_writer_processes: See `create`.
            image_writer_threads: See `create`.
            streaming_encoding: See `create`.
            encoder_queue_maxsize: See `create`.
            token: Not needed for a local folder.

        Raises:
            UsageError: No root was given (a `ValueError`).
            DatasetNotFoundError: There is no dataset in the folder.
        """
        if not root:
            raise UsageError(
                "resume needs an explicit root: the folder to write into.",
                fix="Pass root=...; a folder of the Hub's cache is shared and must not be written to.",
            )
        writer = Writer.resume(
            root,
            rgb_encoder=rgb_encoder,
            depth_encoder=depth_encoder,
            encoder_threads=encoder_threads,
            queue_frames=max(1, encoder_queue_maxsize),
            non_finite="keep",
        )
        made = cls.__new__(cls)
        made._start_recording(repo_id, Path(root), writer, revision or CODEBASE_VERSION, tolerance_s, video_backend)
        return made

    @abstractmethod
    def _start_recording(
        self,
        repo_id: str,
        root: Path,
        writer: Writer,
        revision: str | None,
        tolerance_s: float,
        video_backend: str | None,
    ) -> None:
        """Become a dataset in write mode: the reading half sets all attributes, and keeps the writer."""

    @property
    def writer(self) -> Writer | None:
        """The writer, or None for a dataset that is only read."""
        return self._writer

    def add_frame(self, frame: Mapping[str, Any]) -> None:
        """Add one frame to the open episode; `frame` holds the task under `task` and is not changed.

        Raises:
            FrameError: The frame does not fit; all problems are in one message (a `ValueError`).
            ClosedError: The dataset is only read (a `RuntimeError`).
        """
        self._require_writer("add_frame").add_frame(frame)

    def save_episode(
        self,
        episode_data: Mapping[str, Any] | None = None,
        parallel_encoding: bool = True,
        *,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """End the open episode; when this returns it is on the disk.

        Args:
            episode_data: A whole episode to save instead of the open one: feature name to a sequence of values, and
                `task` with one text per frame. The open episode must be empty.
            parallel_encoding: Always so.
            fields: Your own per-episode fields.

        Raises:
            EpisodeError: There are no frames (a `ValueError`).
            ClosedError: The dataset is only read (a `RuntimeError`).
        """
        writer = self._require_writer("save_episode")
        if episode_data is not None:
            _add_all(writer, episode_data)
        writer.save_episode(fields)

    def clear_episode_buffer(self, delete_images: bool = True) -> None:
        """Throw the open episode away.

        Args:
            delete_images: Always so; nothing of a discarded episode stays on the disk.
        """
        self._require_writer("clear_episode_buffer").discard_episode()

    def has_pending_frames(self) -> bool:
        """Return whether there are frames that were not saved."""
        return self._writer is not None and not self._writer.closed and self._writer.has_pending_frames

    def start_image_writer(self, num_processes: int = 0, num_threads: int = 4) -> None:
        """Do nothing: pictures are compressed in threads of the writer."""
        self._require_writer("start_image_writer")

    def stop_image_writer(self) -> None:
        """Do nothing, see `start_image_writer`."""

    def finalize(self) -> None:
        """Commit what is saved, join the small videos and close the writer. Calling it again does nothing."""
        if self._is_finalized:
            return
        if self._writer is not None:
            self._writer.finalize()
        self._is_finalized = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: Any) -> None:
        if self._writer is not None and kind is not None:
            self._writer.__exit__(kind, error, at)
            self._is_finalized = True
        else:
            self.finalize()

    def _require_writer(self, method: str) -> Writer:
        if self._writer is None:
            raise ClosedError(
                f"{method} needs a dataset that is open for recording; this one is only read.",
                fix="Use LeRobotDataset.create for a new dataset, or LeRobotDataset.resume to go on with one.",
            )
        return self._writer


def _add_all(writer: Writer, data: Mapping[str, Any]) -> None:
    """Add the frames of a whole episode."""
    if writer.has_pending_frames:
        raise UsageError(
            "There is an open episode, so another one cannot be saved beside it.",
            found=f"{writer.episode_frames} frames",
            fix="Save it or clear it first.",
        )
    tasks = data.get("task")
    if tasks is None:
        raise UsageError("The episode has no tasks.", expected="a text for each frame under `task`")
    size = int(data["size"]) if "size" in data else len(tasks)
    names = [name for name in data if name in writer.features and name not in DEFAULT_FEATURES]
    unequal = [name for name in names if len(data[name]) != size]
    if len(tasks) != size or unequal:
        raise UsageError(
            "The episode's values have different lengths.", expected=size, found=", ".join(unequal) or "tasks"
        )
    try:
        for number in range(size):
            writer.add_frame(
                {name: _value(writer.features[name], data[name][number]) for name in names}, task=tasks[number]
            )
    except BaseException:
        writer.discard_episode()
        raise


def _value(feature: Feature, value: Any) -> Any:
    """Return a camera's staged file as its picture, anything else as it is."""
    if feature.is_camera and isinstance(value, (str, os.PathLike)):
        from rolltape.video.images import decode_image

        return np.asarray(decode_image(Path(value).read_bytes(), where=str(value)))
    return value
