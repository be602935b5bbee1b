"""`LeRobotDataset`: the reference's class, over `read` and `write`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rolltape.errors import ClosedError, DamagedFileError, SelectionError, UnsupportedFormatError, UsageError
from rolltape.format.encoders import DepthEncoderConfig, RGBEncoderConfig
from rolltape.format.paths import by_file, safe_join, video_file
from rolltape.lerobot.metadata import LeRobotDatasetMetadata
from rolltape.lerobot.recording import RecordingMixin
from rolltape.lerobot.rows import FrameRows, reference_item
from rolltape.read.dataset import Dataset, View, make_view
from rolltape.read.forms import PictureFormat
from rolltape.read.metadata import Metadata
from rolltape.read.opening import open_metadata, require_decoder
from rolltape.read.selection import choose_columns, choose_episodes
from rolltape.read.windows import parse_windows
from rolltape.torch import load_torch, tensors, unstacked
from rolltape.write import Writer

__all__ = ["LeRobotDataset"]

Int64s = npt.NDArray[np.int64]
Item = dict[str, Any]
Transform = Callable[[Any], Any]

_RUN = 16
_BACKENDS = (None, "torchcodec", "pyav", "video_reader")


class LeRobotDataset(RecordingMixin):
    """A dataset as lerobot 0.6.1 has it: the same arguments, items and attributes, value for value.

    Items are mappings of tensors: colour float32 [C, H, W] in [0, 1] (or uint8 with `return_uint8`, videos only), depth
    float32 [1, H, W], a feature of shape [1] without axes, texts as str, and the task's text in `task`. A key in
    `delta_timestamps` has an axis for time in front, and `<key>_is_pad` says which frames lie outside the episode.

    Args:
        repo_id: The dataset's name, such as `me/lift`.
        root: Its folder; by default the one of the repo id under `$HF_LEROBOT_HOME`.
        episodes: Episodes to read; frames come in the order of storage, whatever the order given.
        episode_filter: Called with each episode's row; chooses among `episodes`.
        image_transforms: Called with each camera's tensor, [C, H, W] or [T, C, H, W], but not with depth.
        delta_timestamps: Time offsets in seconds by key.
        tolerance_s: How far offsets may be from the frame grid, and pictures from their time.
        revision: Which downloaded snapshot, where the dataset is in no plain folder.
        force_cache_sync: Not possible in this version, which does not download.
        download_videos: False reads the tables of a dataset whose videos are not there.
        video_backend: Accepted; PyAV decodes in every case, with the same bytes.
        return_uint8: Hand out videos as uint8.
        depth_output_unit: "mm" or "m".
        token: No effect on local folders.

    The arguments for writing (`streaming_encoding` and the like) are accepted; use `create` and `resume` to record.

    Raises:
        DatasetNotFoundError: It is not on this machine.
        SelectionError: An episode is negative, out of range or given twice, or none is left.
        WindowError: A time offset is not on the frame grid.

    Example:
        >>> dataset = LeRobotDataset("me/lift", delta_timestamps={"action": [0.0, 0.1]})  # doctest: +SKIP
        >>> dataset[0]["action"].shape  # doctest: +SKIP
        torch.Size([2, 6])
    """

    reader: Dataset | None
    meta: LeRobotDatasetMetadata
    episodes: list[int] | None
    _rows: FrameRows | None
    _relative: dict[int, int] | None
    _is_exact: bool

    def __init__(
        self,
        repo_id: str,
        root: str | Path | None = None,
        episodes: list[int] | None = None,
        episode_filter: Callable[[dict[str, Any]], Any] | None = None,
        image_transforms: Transform | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,
        download_videos: bool = True,
        video_backend: str | None = None,
        return_uint8: bool = False,
        depth_output_unit: str = "mm",
        batch_encoding_size: int = 1,
        rgb_encoder: RGBEncoderConfig | None = None,
        depth_encoder: DepthEncoderConfig | None = None,
        encoder_threads: int | None = None,
        streaming_encoding: bool = False,
        encoder_queue_maxsize: int = 30,
        *,
        token: str | bool | None = None,
    ) -> None:
        meta = LeRobotDatasetMetadata(repo_id, root, revision, force_cache_sync, token=token)
        self._prepare(
            meta,
            tolerance_s=tolerance_s,
            video_backend=video_backend,
            delta_timestamps=delta_timestamps,
            image_transforms=image_transforms,
            return_uint8=return_uint8,
            depth_output_unit=depth_output_unit,
        )
        if streaming_encoding or batch_encoding_size != 1:
            warnings.warn(
                "Arguments for writing have no effect on a dataset that is opened for reading; "
                "use LeRobotDataset.resume() to record more episodes.",
                DeprecationWarning,
                stacklevel=2,
            )
        if episode_filter is not None:
            chosen = meta.filter_episodes(episode_filter, self._valid(episodes))
            if not chosen:
                raise SelectionError("The episode filter leaves no episode.", where="episode_filter=")
            episodes = chosen
        self.episodes = None if episodes is None else list(episodes)
        dataset = self._ensure_reader()
        if download_videos and meta.video_keys:
            require_decoder()
            _refuse_missing_videos(dataset)

    def _start_recording(
        self,
        repo_id: str,
        root: Path,
        writer: Writer,
        revision: str | None,
        tolerance_s: float,
        video_backend: str | None,
    ) -> None:
        meta = LeRobotDatasetMetadata.of_writer(repo_id, root, writer, revision)
        self._prepare(meta, tolerance_s=tolerance_s, video_backend=video_backend)
        self._writer = writer
        self._is_finalized = False

    def finalize(self) -> None:
        """Commit what is saved, join the small videos and close the writer; then items can be read."""
        was_open = not self._is_finalized
        super().finalize()
        if was_open:
            self.meta.end_recording()
            self.reader = self._rows = None

    def _prepare(
        self,
        meta: LeRobotDatasetMetadata,
        *,
        tolerance_s: float = 1e-4,
        video_backend: str | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        image_transforms: Transform | None = None,
        return_uint8: bool = False,
        depth_output_unit: str = "mm",
    ) -> None:
        """Set all attributes that reading needs; `create` and `resume` start from here too."""
        if video_backend not in _BACKENDS:
            raise UsageError(
                "video_backend is unknown.", expected=" or ".join(map(repr, _BACKENDS)), found=video_backend
            )
        if depth_output_unit not in ("m", "mm"):
            raise UsageError("depth_output_unit is unknown.", expected="'m' or 'mm'", found=repr(depth_output_unit))
        if not isinstance(tolerance_s, (int, float)) or not math.isfinite(tolerance_s) or tolerance_s < 0:
            raise UsageError("tolerance_s is not a time.", expected="seconds, 0 or more", found=repr(tolerance_s))
        _check_transforms(image_transforms)
        self.meta = meta
        self.repo_id = meta.repo_id
        self.root = meta.root
        self.revision = meta.revision
        self.tolerance_s = tolerance_s
        self.delta_timestamps = delta_timestamps
        self.image_transforms = image_transforms
        self.episodes = None
        self.reader = None
        self._writer = None
        self._is_finalized = True
        self._video_backend = video_backend or "pyav"
        self._return_uint8 = bool(return_uint8)
        self._depth_output_unit = depth_output_unit
        self._is_exact = False
        self._rows = None
        self._relative = None
        meta.rescale_depth_stats(depth_output_unit)

    def __getstate__(self) -> dict[str, Any]:
        self._require_finished()
        return {**self.__dict__, "_writer": None}

    def _valid(self, episodes: Iterable[int] | None) -> list[int] | None:
        """Return the episodes after each was held against the dataset."""
        if episodes is None:
            return None
        loaded = self.meta.loaded
        return [int(one) for one in loaded.episodes.index[choose_episodes(loaded, episodes)]]

    # Reading.

    def _ensure_reader(self) -> Dataset:
        loaded = self.meta.loaded
        if self.reader is None or self.reader.meta is not loaded:
            places = _in_storage_order(loaded, choose_episodes(loaded, self.episodes))
            self.reader = open_metadata(loaded, places).with_view(self._item_view(loaded))
            self._rows = self._relative = None
            self._is_exact = False
        return self.reader

    def _readable(self) -> Dataset:
        """Return the dataset for items, which has torch's arithmetic where numpy's differs."""
        self._require_finished()
        dataset = self._ensure_reader()
        if not self._is_exact:
            if self._depth_output_unit == "m":
                _set_depth_tables(dataset)
            self._is_exact = True
        return dataset

    def _item_view(self, loaded: Metadata) -> View:
        columns, task = choose_columns(loaded.features, None)
        cameras = (*loaded.info.video_features, *loaded.info.image_features)
        windows = parse_windows(loaded.info.rate, self.delta_timestamps, None, self.tolerance_s)
        form = PictureFormat(
            dtype="uint8" if self._return_uint8 else "float32",
            dtypes=dict.fromkeys(loaded.info.image_features, "float32"),
            depth_unit=cast("Any", self._depth_output_unit),
            tolerance_s=self.tolerance_s,
        )
        return make_view(loaded, columns, task, cameras, windows, form)

    def _require_finished(self) -> None:
        if self._writer is not None and not self._is_finalized:
            raise ClosedError(
                "The dataset is being recorded; its items cannot be read yet.", fix="Call finalize() first."
            )

    def __len__(self) -> int:
        return self.num_frames

    def __getitem__(self, idx: Any) -> Any:
        """Return one frame, or a list of frames for a slice.

        Raises:
            ClosedError: The dataset is being recorded, and `finalize` was not called yet.
            FrameIndexError: There is no such frame.
        """
        dataset = self._readable()
        if isinstance(idx, slice):
            wanted = range(*idx.indices(len(dataset)))
            runs = (wanted[at : at + _RUN] for at in range(0, len(wanted), _RUN))
            return [item for run in runs for item in self.__getitems__(run)]
        return self._finished(tensors(reference_item(dataset[idx], dataset.cameras)))

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """Return many frames, decoded together; a DataLoader calls this with the indices of a batch."""
        dataset = self._readable()
        batch = dataset.batch(indices)
        return [self._finished(item) for item in unstacked(reference_item(batch, dataset.cameras), batch.size)]

    def _finished(self, item: Item) -> Item:
        """Give an item the shapes of the reference, and the user's transforms."""
        for key in self.meta.video_keys:
            if key in (self.delta_timestamps or {}):
                item[key] = item[key].squeeze(0)
        if self.image_transforms is not None:
            depth = set(self.meta.depth_keys)
            for key in self.meta.camera_keys:
                if key not in depth:
                    item[key] = self.image_transforms(item[key])
        return item

    def get_raw_item(self, idx: Any) -> Item:
        """Return a row of the tables: no windows, no videos, no transforms."""
        found: Item = self.hf_dataset[idx]
        return found

    @property
    def hf_dataset(self) -> FrameRows:
        """The rows of the selected frames, with the manners of `datasets.Dataset`."""
        dataset = self._ensure_reader()
        if self._rows is None:
            view = dataset.view
            cameras = tuple(name for name in view.cameras if dataset.features[name].is_image)
            # Depth in the tables stays in its own unit here, as a raw row does.
            form = replace(view.form, dtype="float32", depth_unit="stored")
            self._rows = FrameRows(dataset.with_view(replace(view, cameras=cameras, windows={}, task=False, form=form)))
        return self._rows

    def select_columns(self, column_names: str | Iterable[str]) -> FrameRows:
        """Return the rows of the tables with some of the columns."""
        return self.hf_dataset.select_columns(column_names)

    @property
    def absolute_to_relative_idx(self) -> dict[int, int] | None:
        """From a frame's global index to its index here; None where all episodes are read."""
        if self.episodes is None:
            return None
        if self._relative is None:
            dataset = self._ensure_reader()
            absolute = dataset.column_values("index")
            self._relative = dict(zip(absolute.tolist(), range(len(absolute)), strict=True))
        return self._relative

    # What the dataset is.

    @property
    def fps(self) -> int | float:
        """Frames per second."""
        return self.meta.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """All features as plain mappings."""
        return self.meta.features

    @property
    def depth_output_unit(self) -> str:
        """The unit of depth, "m" or "mm"."""
        return self._depth_output_unit

    @property
    def num_frames(self) -> int:
        """How many frames are selected."""
        return self.reader.num_frames if self.reader is not None and self._is_finalized else self.meta.total_frames

    @property
    def num_episodes(self) -> int:
        """How many episodes are selected."""
        return self.reader.num_episodes if self.reader is not None and self._is_finalized else self.meta.total_episodes

    def set_image_transforms(self, image_transforms: Transform | None) -> None:
        """Use these transforms from now on.

        Raises:
            TypeError: They cannot be called.
        """
        _check_transforms(image_transforms)
        self.image_transforms = image_transforms

    def clear_image_transforms(self) -> None:
        """Use no transforms from now on."""
        self.image_transforms = None

    def push_to_hub(self, *arguments: Any, **options: Any) -> None:
        """Refuse: this version does not upload."""
        raise UnsupportedFormatError(
            "This version does not upload; it comes later.",
            where=self.repo_id,
            fix=f"Upload the folder: hf upload --repo-type dataset {self.repo_id} {self.root}",
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({{\n"
            f"    Repository ID: '{self.repo_id}',\n"
            f"    Number of selected episodes: '{self.num_episodes}',\n"
            f"    Number of selected samples: '{self.num_frames}',\n"
            f"    Features: '{list(self.features)}',\n"
            f"}})"
        )


def _check_transforms(transforms: object) -> None:
    if transforms is not None and not callable(transforms):
        raise TypeError("image_transforms must be callable or None.")


def _in_storage_order(loaded: Metadata, places: Int64s) -> Int64s:
    """Return the episodes in the order of their frames' global numbers."""
    return np.asarray(places[np.lexsort((places, loaded.episodes.from_index[places]))], np.int64)


def _refuse_missing_videos(dataset: Dataset) -> None:
    """Name the video files that are not there, all at once, before training starts."""
    missing: dict[str, list[int]] = {}
    episodes = dataset.meta.episodes
    places = episodes.places(dataset.episodes)
    for key in dataset.meta.info.video_features:
        columns = episodes.video(key)
        used = places[columns.valid[places]]
        for number, rows in by_file(columns.chunk[used], columns.file[used]):
            path = video_file(dataset.meta.info, key, *number)
            if not safe_join(dataset.root, path).is_file():
                missing[path] = episodes.index[used[rows]].tolist()
    if missing:
        paths = list(missing)
        raise DamagedFileError(
            f"{len(paths)} video files are missing.",
            path=paths[0],
            episodes=sorted({one for numbers in missing.values() for one in numbers}),
            where=", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else ""),
            fix="Fetch the whole dataset, choose other episodes, or read the tables alone with download_videos=False.",
        )


def _set_depth_tables(dataset: Dataset) -> None:
    """Compute depth in metres as the reference does: torch's exponential differs from numpy's in the last bit."""
    videos = {name: one for name, one in dataset.meta.info.video_features.items() if one.is_depth}
    for name, feature in videos.items():
        torch = load_torch()
        config = DepthEncoderConfig.from_info(feature.video_info)
        low, high, shift = float(config.depth_min), float(config.depth_max), float(config.shift)
        bottom = math.log(low + shift) if config.use_log else low
        top = math.log(high + shift) if config.use_log else high
        table = torch.arange(4096, dtype=torch.float32).mul_((top - bottom) / 4095).add_(bottom)
        if config.use_log:
            table.exp_().sub_(shift)
        dataset.set_depth_table(name, "m", table.clamp_(low, high).numpy())
