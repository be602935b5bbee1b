"""`LeRobotDatasetMetadata`: the reference's attributes over the description of a dataset."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from rolltape.errors import DatasetExistsError, FrameIndexError, UnsupportedFormatError, UsageError
from rolltape.format.features import parse_features, with_defaults
from rolltape.format.info import CODEBASE_VERSION, Info, parse_info
from rolltape.format.paths import INFO_PATH
from rolltape.format.tasks import Tasks
from rolltape.lerobot.attributes import InfoAttributes
from rolltape.lerobot.described import SAY_TOOL, DatasetInfo, task_table
from rolltape.lerobot.rows import TableRows
from rolltape.read.metadata import Metadata
from rolltape.read.places import hub_home, repo_root
from rolltape.store import local

if TYPE_CHECKING:
    from rolltape.write import Writer

__all__ = ["LeRobotDatasetMetadata"]

_MM_PER_METRE = 1000.0

Stats = dict[str, dict[str, npt.NDArray[Any]]]


class LeRobotDatasetMetadata(InfoAttributes):
    """The description of a dataset, with the attributes and methods of lerobot 0.6.1.

    Args:
        repo_id: The dataset's name, such as `me/lift`.
        root: Its folder; by default the one of the repo id under `$HF_LEROBOT_HOME`.
        revision: Which downloaded snapshot, where the dataset is in no plain folder.
        force_cache_sync: Not possible in this version, which does not download.
        metadata_buffer_size: No effect: every episode is on disk when it is saved.
        repo_type: Only "dataset" in this version.
        token: No effect on local folders.

    Raises:
        DatasetNotFoundError: It is not on this machine.

    Example:
        >>> meta = LeRobotDatasetMetadata("me/lift")  # doctest: +SKIP
        >>> meta.total_episodes, meta.camera_keys  # doctest: +SKIP
        (50, ['observation.images.front'])
    """

    repo_id: str
    root: Path
    revision: str | None
    _loaded: Metadata | None

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        revision: str | None = None,
        force_cache_sync: bool = False,
        metadata_buffer_size: int = 10,
        *,
        repo_type: Literal["dataset", "bucket"] = "dataset",
        token: str | bool | None = None,
    ) -> None:
        if repo_type not in ("dataset", "bucket"):
            raise UsageError("repo_type is unknown.", expected="dataset or bucket", found=repr(repo_type))
        if repo_type == "bucket" or force_cache_sync:
            what = "read buckets" if repo_type == "bucket" else "download, so force_cache_sync cannot be honoured"
            raise UnsupportedFormatError(f"This version does not {what}; it comes later.", where=repo_id)
        place = Path(root) if root else repo_root(repo_id, revision)
        self._set_up(repo_id, place, revision or CODEBASE_VERSION)
        self._loaded = Metadata.load(place)

    def _set_up(self, repo_id: str, root: Path, revision: str | None) -> None:
        self.repo_id = repo_id
        self.root = root
        self.revision = revision
        self.repo_type = "dataset"
        self.latest_episode: dict[str, Any] | None = None
        self._loaded = None
        self._recording: Writer | None = None
        self._unit: str | None = None
        self._view: tuple[Info, DatasetInfo] | None = None
        self._episode_rows: tuple[Metadata, TableRows] | None = None
        self._task_view: tuple[Tasks, Any] | None = None
        self._stats: tuple[Metadata, Stats | None] | None = None

    @classmethod
    def of_writer(cls, repo_id: str, root: Path, writer: Writer, revision: str | None = None) -> LeRobotDatasetMetadata:
        """Return the description of a dataset that is being recorded: counters and tasks are the writer's, always."""
        meta = cls.__new__(cls)
        meta._set_up(repo_id, Path(root), revision)
        meta._recording = writer
        return meta

    @classmethod
    def create(
        cls,
        repo_id: str,
        fps: int,
        features: dict[str, Any],
        robot_type: str | None = None,
        root: str | Path | None = None,
        use_videos: bool = True,
        metadata_buffer_size: int = 10,
        chunks_size: int | None = None,
        data_files_size_in_mb: int | None = None,
        video_files_size_in_mb: int | None = None,
    ) -> LeRobotDatasetMetadata:
        """Write the description of a new, empty dataset.

        Raises:
            DatasetExistsError: The folder is there already.
            UsageError: There are video features, but `use_videos` is False.
        """
        place = Path(root) if root else hub_home() / repo_id
        described = with_defaults(parse_features(features))
        videos = [name for name, feature in described.items() if feature.is_video]
        if videos and not use_videos:
            raise UsageError(
                "use_videos is False, but there are video features.", found=", ".join(videos), fix="Use dtype image."
            )
        if place.exists():
            raise DatasetExistsError("The folder is there already.", where=place)
        sizes: dict[str, Any] = {
            "chunks_size": chunks_size,
            "data_files_size_in_mb": data_files_size_in_mb,
            "video_files_size_in_mb": video_files_size_in_mb,
        }
        info = Info(
            fps=fps,
            features=described,
            robot_type=robot_type,
            **{key: value for key, value in sizes.items() if value is not None},
        )
        info = info if use_videos else info.replace(video_path=None)
        content = parse_info(info.to_json()).to_json_bytes()  # the same checks as on reading
        local.make_folder(place / "meta")
        local.write_atomic(place / INFO_PATH, content)
        return cls(repo_id, place)

    def end_recording(self) -> None:
        """Read what the recording left on disk from now on: packing has moved videos, and the writer is closed."""
        self._loaded = Metadata.load(self.root)
        self._recording = None

    # What is loaded.

    def ensure_readable(self) -> None:
        """Load the description where it is not in memory, and after a recording has gone on."""
        self._metadata()

    def _metadata(self) -> Metadata:
        if self._loaded is None or len(self._loaded.episodes) != self._info.total_episodes:
            self._loaded = Metadata.load(self.root)
        return self._loaded

    @property
    def loaded(self) -> Metadata:
        """The description as `rolltape.open` has it."""
        return self._metadata()

    @property
    def _info(self) -> Info:
        if self._recording is not None:
            return self._recording.info
        assert self._loaded is not None
        return self._loaded.info

    @property
    def info(self) -> DatasetInfo:
        """What `meta/info.json` says."""
        now = self._info
        if self._view is None or self._view[0] is not now:
            self._view = (now, DatasetInfo(now))
        return self._view[1]

    @property
    def tasks(self) -> Any:
        """The tasks: a DataFrame (index task, column task_index) where pandas is installed, else rows of the same.

        None before the first task.
        """
        now = self._recording.tasks if self._recording is not None else self._metadata().tasks
        if not len(now):
            return None
        if self._task_view is None or self._task_view[0] is not now:
            self._task_view = (now, task_table(now))
        return self._task_view[1]

    @property
    def episodes(self) -> TableRows | None:
        """The episodes' rows without statistics, or None while there are none."""
        if not self.total_episodes:
            return None
        loaded = self._metadata()
        if self._episode_rows is None or self._episode_rows[0] is not loaded:
            self._episode_rows = (loaded, TableRows(loaded.episodes.table))
        return self._episode_rows[1]

    @property
    def stats(self) -> Stats | None:
        """The statistics as numpy arrays, depth in the unit of `rescale_depth_stats`; None where there are none."""
        if self._recording is not None and not self.total_episodes:
            return None
        loaded = self._metadata()
        if self._stats is None or self._stats[0] is not loaded:
            self._stats = (loaded, self._rescaled(copy.deepcopy(loaded.stats)))
        return self._stats[1]

    @stats.setter
    def stats(self, value: Stats | None) -> None:
        self._stats = (self._metadata(), value)

    def rescale_depth_stats(self, output_unit: str) -> None:
        """Have the statistics of depth cameras in this unit, "m" or "mm", in memory."""
        unknown = [key for key in self.depth_keys if self._info.features[key].depth_unit is None]
        if unknown:
            logging.getLogger(__name__).warning(
                "Depth cameras %s do not say in which unit they were recorded (info.depth_unit): their values and "
                "statistics are returned as they are, not in %r.",
                unknown,
                output_unit,
            )
        self._unit = output_unit
        self._stats = None

    def _rescaled(self, stats: Stats | None) -> Stats | None:
        if stats is None or self._unit is None:
            return stats
        for key, feature in self._info.depth_features.items():
            stored = feature.depth_unit
            if stored is None or stored == self._unit or key not in stats:
                continue
            factor = _MM_PER_METRE if stored == "m" else 1 / _MM_PER_METRE
            stats[key] = {name: one if name == "count" else one * factor for name, one in stats[key].items()}
        return stats

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The function schemas of the dataset, or the one of `say` where it has none."""
        return copy.deepcopy(self._info.tools or [SAY_TOOL])

    @tools.setter
    def tools(self, value: list[dict[str, Any]] | None) -> None:
        self._write_info(tools=[dict(one) for one in value] if value else None)

    @property
    def url_root(self) -> str:
        """The dataset's address on the Hub."""
        return f"hf://datasets/{self.repo_id}"

    @property
    def _version(self) -> Any:
        from packaging.version import parse

        return parse(self._info.codebase_version)

    # Paths and look-ups.

    def get_data_file_path(self, ep_index: int) -> Path:
        """Return the relative path of the file with an episode's rows.

        Raises:
            FrameIndexError: There is no such episode.
        """
        return Path(self._metadata().data_path(self._place(ep_index)))

    def get_video_file_path(self, ep_index: int, vid_key: str) -> Path:
        """Return the relative path of the file with an episode's pictures of a camera.

        Raises:
            FrameIndexError: There is no such episode.
        """
        return Path(self._metadata().video_path(vid_key, self._place(ep_index)))

    def _place(self, ep_index: int) -> int:
        count = len(self._metadata().episodes)
        if not -count <= ep_index < count:
            raise FrameIndexError(f"There is no episode {ep_index}.", expected=f"0 to {count - 1}", found=ep_index)
        return ep_index % count

    def get_task_index(self, task: str) -> int | None:
        """Return the number of a task, or None where the dataset does not have it."""
        tasks = self._recording.tasks if self._recording is not None else self._metadata().tasks
        return tasks.index_of(task)

    def filter_episodes(
        self, predicate: Callable[[dict[str, Any]], Any], candidates: list[int] | None = None
    ) -> list[int]:
        """Return the numbers of the episodes whose row the predicate accepts, ascending.

        Args:
            predicate: Called with an episode's row, statistics left out.
            candidates: Episodes to choose from; all by default.
        """
        chosen = None if candidates is None else set(candidates)
        rows = self._metadata().episodes.table.to_pylist()
        return sorted(
            int(row["episode_index"])
            for row in rows
            if (chosen is None or row["episode_index"] in chosen) and predicate(row)
        )

    # Settings.

    def update_chunk_settings(
        self,
        chunks_size: int | None = None,
        data_files_size_in_mb: int | None = None,
        video_files_size_in_mb: int | None = None,
    ) -> None:
        """Change the limits of files and folders, in memory and in `info.json`.

        Raises:
            UsageError: A limit is not above zero.
        """
        limits = {
            "chunks_size": chunks_size,
            "data_files_size_in_mb": data_files_size_in_mb,
            "video_files_size_in_mb": video_files_size_in_mb,
        }
        changes = {key: value for key, value in limits.items() if value is not None}
        for key, value in changes.items():
            if value <= 0:
                raise UsageError(f"{key} must be positive.", found=repr(value))
        self._write_info(**changes)

    def _write_info(self, **changes: Any) -> None:
        if self._recording is not None:
            if "tools" in changes:
                raise UsageError(
                    "The tools cannot be changed while a recording is open.", where=self.root, fix="finalize() first."
                )
            self._recording.change_info(**changes)
            return
        loaded = self._metadata()
        info = loaded.info.replace(**changes)
        local.write_atomic(self.root / INFO_PATH, info.to_json_bytes())
        self._loaded = replace(loaded, info=info)

    def finalize(self) -> None:
        """Do nothing: every saved episode is on disk already."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({{\n"
            f"    Repository ID: '{self.repo_id}',\n"
            f"    Total episodes: '{self.total_episodes}',\n"
            f"    Total frames: '{self.total_frames}',\n"
            f"    Features: '{list(self.features)}',\n"
            f"}})"
        )
