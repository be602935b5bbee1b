"""A dataset that is open for reading: items, batches and episodes as numpy arrays."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rolltape.errors import FrameIndexError, SelectionError, UsageError
from rolltape.format.features import Feature
from rolltape.format.info import Info
from rolltape.format.tasks import Tasks
from rolltape.read.batch import Batch, row_of
from rolltape.read.episode import EpisodeView
from rolltape.read.episodes import listed
from rolltape.read.forms import PictureFormat
from rolltape.read.metadata import Metadata
from rolltape.read.pictures import Pictures, Request
from rolltape.read.selection import Where, choose_columns, choose_episodes, unknown_feature
from rolltape.read.tables import FrameTable
from rolltape.read.windows import Window

__all__ = ["Dataset", "View", "make_view"]

Int64s = npt.NDArray[np.int64]
Item = dict[str, Any]

_RUN = 16
_WINDOWS = "delta_timestamps= or delta_steps="


@dataclass(frozen=True)
class View:
    """What items hold, and in which form.

    Attributes:
        columns: The columns of the tables.
        cameras: The cameras.
        task: Whether items have the task's text.
        windows: The windows by key.
        form: What pictures look like.
    """

    columns: tuple[str, ...]
    cameras: tuple[str, ...]
    task: bool = True
    windows: Mapping[str, Window] = field(default_factory=dict)
    form: PictureFormat = field(default_factory=PictureFormat)


class Dataset:
    """Frames of a dataset, in the order of the chosen episodes. `rolltape.open` makes one.

    An item is `{feature: ndarray | str, "task": str, "<key>_is_pad": bool [T]}`. A feature of shape [1] is an array
    without axes; pictures are as `dtype`, `layout` and `resize` say; a key with a window has the window's axis in
    front, also when it has one step. Datasets can be pickled, and used from several threads and in forked processes.

    Attributes:
        meta: The dataset's description.
        view: What items hold.

    Example:
        >>> ds = rolltape.open("datasets/lift")  # doctest: +SKIP
        >>> ds[0]["observation.images.front"].shape  # doctest: +SKIP
        (3, 480, 640)
        >>> ds.batch([0, 100, 7])["action"].shape  # doctest: +SKIP
        (3, 6)
    """

    def __init__(self, meta: Metadata, places: Int64s, view: View, table: FrameTable, pictures: Pictures) -> None:
        self.meta = meta
        self.view = view
        self._places = places
        self._table = table
        self._pictures = pictures
        self._lengths = meta.episodes.length[places]
        self._ends: Int64s = np.cumsum(self._lengths)
        self._begins: Int64s = self._ends - self._lengths
        # In the usual case the frames of the selection lie in the table as they are counted here.
        self._straight = bool(np.array_equal(table.starts[places], self._begins))
        self._columns: list[tuple[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            "meta": self.meta,
            "places": self._places,
            "view": self.view,
            "table": self._table,
            "pictures": self._pictures,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # tables and decoders are opened again where they are needed

    # What the dataset is.

    @property
    def root(self) -> Path:
        """The dataset's folder."""
        return self.meta.root

    @property
    def info(self) -> Info:
        """What `meta/info.json` says."""
        return self.meta.info

    @property
    def features(self) -> dict[str, Feature]:
        """All features by name, those left out of the items too."""
        return self.meta.features

    @property
    def fps(self) -> int | float:
        """Frames per second."""
        return self.meta.info.fps

    @property
    def tasks(self) -> Tasks:
        """Task numbers and texts."""
        return self.meta.tasks

    @property
    def stats(self) -> dict[str, dict[str, npt.NDArray[Any]]] | None:
        """The statistics of the whole dataset, or None where it has none."""
        return self.meta.stats

    @property
    def cameras(self) -> tuple[str, ...]:
        """The cameras whose pictures are in the items."""
        return self.view.cameras

    @property
    def num_frames(self) -> int:
        """How many frames are selected."""
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def num_episodes(self) -> int:
        """How many episodes are selected."""
        return len(self._places)

    @property
    def episodes(self) -> list[int]:
        """The numbers of the selected episodes, in their order."""
        return [int(one) for one in self.meta.episodes.index[self._places]]

    def __len__(self) -> int:
        return self.num_frames

    # Items.

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Item | list[Item]:
        """Return one frame, or a list of them for a slice.

        Raises:
            FrameIndexError: There is no such frame.
        """
        if isinstance(index, slice):
            return list(self._run(range(*index.indices(len(self)))))
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"an index is a whole number or a slice, not {type(index).__name__}; ds.batch(indices) takes many"
            ) from None
        return self._item(self._checked(number))

    def __iter__(self) -> Iterator[Item]:
        return self._run(range(len(self)))

    def _run(self, indices: range) -> Iterator[Item]:
        """Yield items in a row; their pictures are decoded a few at a time."""
        if not self.view.cameras:
            for index in indices:
                yield self._item(index)
            return
        for at in range(0, len(indices), _RUN):
            batch = self.batch(indices[at : at + _RUN])
            for row in range(batch.size):
                yield {key: _own(value) for key, value in batch.item(row).items()}

    def batch(self, indices: Iterable[int] | npt.ArrayLike) -> Batch:
        """Return many frames, stacked. Each picture group of a video is decoded once for the whole batch.

        Args:
            indices: Frame indices in any order, negative ones counted from the end, repeats allowed.

        Returns:
            `{feature: ndarray [B, ...], "task": list[str], "<key>_is_pad": bool [B, T]}`.

        Raises:
            FrameIndexError: There is no such frame.
        """
        wanted = self._checked_many(indices)
        ordinals = np.searchsorted(self._ends, wanted, "right")
        places, frames = self._places[ordinals], wanted - self._begins[ordinals]
        return Batch(wanted, self._gather(wanted, places, frames))

    def _gather(self, wanted: Int64s, places: Int64s, frames: Int64s) -> Item:
        starts = self._table.starts[places]
        positions = starts + frames
        values: Item = {}
        pads: Item = {}
        around: dict[str, Int64s] = {}
        for key, window in self.view.windows.items():
            around[key], pads[f"{key}_is_pad"] = window.frames(frames, self.meta.episodes.length[places])
        requests = []
        for key in self.view.cameras:
            if key in around:
                inside = around[key]
                requests.append(Request(key, np.repeat(places, inside.shape[1]), inside.reshape(-1)))
            else:
                requests.append(Request(key, places, frames))
        for key, array in zip(self.view.cameras, self._pictures.read(requests, self.view.form), strict=True):
            shape = around[key].shape if key in around else (len(wanted),)
            values[key] = array.reshape((*shape, *array.shape[1:]))
        for key, column in self._loaded():
            values[key] = column.many(starts[:, None] + around[key] if key in around else positions)
        values.update(pads)
        if self.view.task:
            values["task"] = self._texts(self._table.values("task_index").take(positions), wanted)
        return values

    def _item(self, index: int) -> Item:
        ordinal = bisect_right(self._end_list, index)
        frame = index - (self._end_list[ordinal - 1] if ordinal else 0)
        if self.view.cameras:
            place = self._places[ordinal : ordinal + 1]
            values = self._gather(np.array([index]), place, np.array([frame]))
            return {key: row_of(value, 0) for key, value in values.items()}
        position = index if self._straight else int(self._table.starts[self._places[ordinal]]) + frame
        item: Item = {}
        pads: Item = {}
        for key, column in self._loaded():
            window = self.view.windows.get(key)
            if window is None:
                item[key] = column.one(position)
            else:
                inside, pads[f"{key}_is_pad"] = window.around(frame, int(self._lengths[ordinal]))
                item[key] = column.many(inside + (position - frame))
        item.update(pads)
        if self.view.task:
            number = int(self._table.values("task_index")[position])
            text = self.meta.tasks.texts.get(number)
            item["task"] = self._texts(np.array([number]), np.array([index]))[0] if text is None else text
        return item

    @cached_property
    def _end_list(self) -> list[int]:
        ends: list[int] = self._ends.tolist()
        return ends

    def _loaded(self) -> list[tuple[str, Any]]:
        if self._columns is None:
            names = list(self.view.columns)
            self._table.load([*names, *(["task_index"] if self.view.task else [])])
            self._columns = [(name, self._table.column(name)) for name in names]
        return self._columns

    def _texts(self, numbers: npt.NDArray[Any], indices: Int64s) -> list[str]:
        texts = self.meta.tasks.texts
        try:
            return [texts[number] for number in numbers.tolist()]
        except KeyError:
            row = next(row for row, number in enumerate(numbers.tolist()) if number not in texts)
            ordinal = int(np.searchsorted(self._ends, indices[row], "right"))
            episode = int(self.meta.episodes.index[self._places[ordinal]])
            where = f"frame {int(indices[row] - self._begins[ordinal])} of episode {episode}"
            self.meta.tasks.text(int(numbers[row]), where=where)
            raise

    def _checked(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise FrameIndexError(
                f"There is no frame {index}.", expected=f"{-count} to {count - 1}" if count else "none", found=index
            )
        return index + count if index < 0 else index

    def _checked_many(self, indices: Iterable[int] | npt.ArrayLike) -> Int64s:
        array = indices if isinstance(indices, np.ndarray) else np.asarray(_listed(indices))
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise FrameIndexError("The indices are not a list of whole numbers.", found=f"{array.dtype} {array.shape}")
        array = array.astype(np.int64)
        count = len(self)
        bad = array[(array < -count) | (array >= count)]
        if len(bad):
            self._checked(int(bad[0]))
        return np.where(array < 0, array + count, array)

    # Parts of the dataset.

    def episode(self, episode: int) -> EpisodeView:
        """Return one episode by its number.

        Raises:
            SelectionError: It is not among the selected ones.
        """
        place = int(self.meta.episodes.places(np.array([operator.index(episode)]))[0])
        found = np.flatnonzero(self._places == place) if place >= 0 else self._places[:0]
        if not len(found):
            chosen = listed(self.episodes)
            raise SelectionError(f"Episode {episode} is not in the selection.", expected=f"one of {chosen or 'none'}")
        return EpisodeView(self, int(found[0]))

    def select(self, episodes: Iterable[int] | None = None, *, where: Where | None = None) -> Dataset:
        """Return the same dataset with fewer episodes; what is loaded and open is shared.

        Args:
            episodes: Episode numbers, in the order wanted; each must be in this selection.
            where: A condition on episode fields, such as `"success and length > 100"`, or a function of a row.

        Raises:
            SelectionError: An episode is not in this selection, or the condition cannot be understood.
        """
        places = choose_episodes(self.meta, episodes, where, among=self._places)
        return Dataset(self.meta, places, self.view, self._table, self._pictures)

    def table(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return the rows of the selected frames as an Arrow table, for DuckDB, Polars or pandas.

        Args:
            columns: Columns to have; by default all but pictures, and `task`, the task's text.
        """
        names, task = choose_columns(self.meta.features, columns)
        self._table.load([*names, *(["task_index"] if task else [])])
        positions = self.positions()
        arrays = {name: self._table.column(name).arrow(positions) for name in names}
        if task:
            numbers = self._table.values("task_index").take(positions)
            unique, codes = np.unique(numbers, return_inverse=True)
            texts = [self.meta.tasks.texts.get(number) for number in unique.tolist()]
            arrays["task"] = pa.array(texts, pa.string()).take(pa.array(codes))
        return pa.table(arrays)

    def positions(self) -> Int64s:
        """Return where the frames of the selection are in the frame table."""
        if self._straight:
            return np.arange(len(self))
        return np.repeat(self._table.starts[self._places] - self._begins, self._lengths) + np.arange(len(self))

    def column_values(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers of the selected frames, [n, ...]."""
        return self._table.values(name).take(self.positions(), axis=0)

    def set_depth_table(self, key: str, unit: str, table: npt.NDArray[np.float32]) -> None:
        """Set the distances that the 4,096 codes of a depth camera stand for."""
        self._pictures.set_depth_table(key, unit, table)

    def with_view(self, view: View) -> Dataset:
        """Return the same frames in another form; what is loaded and open is shared."""
        return Dataset(self.meta, self._places, view, self._table, self._pictures)

    def __repr__(self) -> str:
        chosen, total = self.num_episodes, len(self.meta.episodes)
        episodes = f"{chosen} episodes" if chosen == total else f"{chosen} of {total} episodes"
        lines = [f"Dataset({str(self.root)!r}: {episodes}, {len(self)} frames at {self.fps} fps)"]
        for name in (*self.view.cameras, *self.view.columns):
            feature = self.meta.features[name]
            window = self.view.windows.get(name)
            suffix = f", window of {len(window)}" if window else ""
            kind = f"{feature.dtype} {list(feature.shape)}"
            lines.append(f"  {name}: {kind}{' depth' if feature.is_depth else ''}{suffix}")
        return "\n".join(lines)


def _listed(indices: Any) -> Any:
    return list(indices) if isinstance(indices, Iterable) else indices


def _own(value: Any) -> Any:
    """Return a value that does not keep a whole batch in memory."""
    return value.copy() if isinstance(value, np.ndarray) and value.nbytes < 4096 else value


def make_view(
    meta: Metadata,
    columns: tuple[str, ...],
    task: bool,
    cameras: tuple[str, ...],
    windows: Mapping[str, Window],
    form: PictureFormat,
) -> View:
    """Return a view after its parts were held against the dataset.

    Raises:
        UnknownFeatureError: A window is for a key that does not exist.
        UsageError: A window is for a key that was left out.
    """
    for key in windows:
        if key not in meta.features:
            raise unknown_feature(key, list(meta.features), _WINDOWS)
        if key not in columns and key not in cameras:
            raise UsageError(
                f"{key} has a window but is left out of the items.",
                where=_WINDOWS,
                fix="Add it to columns= or cameras=, or drop its window.",
            )
    return View(columns, cameras, task, dict(windows), form)
