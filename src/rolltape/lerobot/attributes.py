"""The attributes of the reference's metadata that only say what `info.json` says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from rolltape.format.features import Feature
from rolltape.format.info import Info
from rolltape.lerobot.described import DatasetInfo

__all__ = ["InfoAttributes"]

_LANGUAGE_COLUMNS = ("language_persistent", "language_events")


class InfoAttributes:
    """What a dataset says of itself, one attribute for each thing."""

    @property
    @abstractmethod
    def _info(self) -> Info: ...

    @property
    @abstractmethod
    def info(self) -> DatasetInfo:
        """What `meta/info.json` says."""

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """All features as plain mappings, shapes as tuples."""
        found: dict[str, dict[str, Any]] = self.info["features"]
        return found

    @property
    def fps(self) -> int | float:
        """Frames per second."""
        return self._info.fps

    @property
    def robot_type(self) -> str | None:
        """The kind of robot."""
        return self._info.robot_type

    @property
    def data_path(self) -> str:
        """The template of data files."""
        return self._info.data_path

    @property
    def video_path(self) -> str | None:
        """The template of video files."""
        return self._info.video_path

    @property
    def total_episodes(self) -> int:
        """How many episodes there are."""
        return self._info.total_episodes

    @property
    def total_frames(self) -> int:
        """How many frames there are."""
        return self._info.total_frames

    @property
    def total_tasks(self) -> int:
        """How many tasks there are."""
        return self._info.total_tasks

    @property
    def chunks_size(self) -> int:
        """Files in one chunk folder."""
        return self._info.chunks_size

    @property
    def data_files_size_in_mb(self) -> int | float:
        """The size limit of data files, MiB."""
        return self._info.data_files_size_in_mb

    @property
    def video_files_size_in_mb(self) -> int | float:
        """The size limit of video files, MiB."""
        return self._info.video_files_size_in_mb

    @property
    def names(self) -> dict[str, Any]:
        """The element names of each feature."""
        return {key: feature["names"] for key, feature in self.features.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each feature."""
        return {key: tuple(feature["shape"]) for key, feature in self.features.items()}

    def _keys(self, chosen: Callable[[Feature], bool]) -> list[str]:
        return [name for name, feature in self._info.features.items() if chosen(feature)]

    @property
    def camera_keys(self) -> list[str]:
        """All cameras."""
        return self._keys(lambda feature: feature.is_camera)

    @property
    def video_keys(self) -> list[str]:
        """The cameras in videos."""
        return self._keys(lambda feature: feature.is_video)

    @property
    def image_keys(self) -> list[str]:
        """The cameras in the tables."""
        return self._keys(lambda feature: feature.is_image)

    @property
    def depth_keys(self) -> list[str]:
        """The cameras that hold distances."""
        return self._keys(lambda feature: feature.is_depth)

    @property
    def has_language_columns(self) -> bool:
        """Whether there are language columns."""
        return any(name in self._info.features for name in _LANGUAGE_COLUMNS)

    def get_chunk_settings(self) -> dict[str, int | float]:
        """Return the limits of files and folders."""
        return {
            "chunks_size": self.chunks_size,
            "data_files_size_in_mb": self.data_files_size_in_mb,
            "video_files_size_in_mb": self.video_files_size_in_mb,
        }
