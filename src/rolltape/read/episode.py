"""One episode of an open dataset."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from rolltape.errors import FrameIndexError
from rolltape.read.batch import Batch

if TYPE_CHECKING:
    from rolltape.read.dataset import Dataset

__all__ = ["EpisodeView"]

Item = dict[str, Any]


class EpisodeView:
    """One episode of a dataset: its frames in order, and what is known of it.

    Attributes:
        dataset: The dataset it belongs to.
        index: The episode's number.
        frames: The indices of its frames in the dataset, so that `dataset.batch(episode.frames)` is the whole episode.
    """

    def __init__(self, dataset: Dataset, ordinal: int) -> None:
        self.dataset = dataset
        self._place = int(dataset._places[ordinal])
        self.index = int(dataset.meta.episodes.index[self._place])
        self.frames = range(int(dataset._begins[ordinal]), int(dataset._ends[ordinal]))

    def __len__(self) -> int:
        return len(self.frames)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return list(self.dataset._run(self.frames[index]))
        number = operator.index(index)
        try:
            return self.dataset[self.frames[number]]
        except IndexError:
            raise FrameIndexError(
                f"Episode {self.index} has no frame {number}.", expected=f"0 to {len(self) - 1}", found=number
            ) from None

    def __iter__(self) -> Iterator[Item]:
        return self.dataset._run(self.frames)

    def batch(self) -> Batch:
        """Return all frames of the episode, stacked."""
        return self.dataset.batch(self.frames)

    @property
    def tasks(self) -> list[str]:
        """The texts of the episode's tasks."""
        column = self.dataset.meta.episodes.table.column("tasks")
        return list(column[self._place].as_py() or [])

    @property
    def fields(self) -> dict[str, Any]:
        """The user's per-episode fields."""
        episodes = self.dataset.meta.episodes
        return {name: episodes.field(name)[self._place].as_py() for name in episodes.field_names}

    @property
    def row(self) -> dict[str, Any]:
        """The episode's row in `meta/episodes`, statistics left out."""
        return self.dataset.meta.episodes.row(self._place)

    @property
    def seconds(self) -> float:
        """How long the episode is."""
        return self.dataset.meta.info.rate.seconds(len(self))

    def __repr__(self) -> str:
        return f"EpisodeView({self.index}: {len(self)} frames, {self.seconds:.1f} s, tasks {self.tasks})"
