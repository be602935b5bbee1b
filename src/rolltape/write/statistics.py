"""What the writer needs of statistics: those of the episode being saved, and those of the whole dataset.

`EpisodeStatistics` gives what an episode's row holds. `DatasetStatistics` gives the content of `meta/stats.json` and of
`meta/quantiles.npz`; it is a value, so a commit that fails leaves the one before it untouched.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import EpisodeError, FormatError
from rolltape.format import DEFAULT_FEATURES, Feature
from rolltape.format.episode_stats import number_stats
from rolltape.format.paths import QUANTILES_PATH, STATS_PATH
from rolltape.format.quantiles import PictureHistogram, QuantileState, rebuild, with_frame_counts
from rolltape.format.schema import has_stats
from rolltape.format.stats import QUANTILES, StatisticsWarning, Stats, from_json, merge, stats_shape, to_json
from rolltape.write.picture_stats import PictureStats

__all__ = ["DatasetStatistics", "EpisodeStatistics", "PictureStats"]

_Columns = Mapping[str, npt.NDArray[Any]]
_AnyStats = Mapping[str, Mapping[str, npt.NDArray[Any]]]


class EpisodeStatistics:
    """The statistics of one episode.

    Args:
        features: The dataset's features, the five defaults among them.

    Attributes:
        stats: After `finish`, what the episode's row holds.
        histograms: After `finish`, the pixels of each camera, for the dataset's quantiles.
        problems: After `finish`, one line for each feature with values that are not finite.

    Example:
        >>> one = EpisodeStatistics({"x": Feature("x", "float32", (2,))})
        >>> one.add_rows({"x": np.zeros((3, 2), np.float32)})
        >>> one.finish({"x": np.ones((1, 2), np.float32)})["x"]["mean"].tolist()
        [0.25, 0.25]
    """

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self.features = dict(features)
        self.stats: Stats = {}
        self.histograms: dict[str, PictureHistogram] = {}
        self.problems: tuple[str, ...] = ()
        self._pieces: list[_Columns] = []

    @classmethod
    def of(
        cls, columns: _Columns, pictures: Mapping[str, PictureStats], features: Mapping[str, Feature], rows: int
    ) -> EpisodeStatistics:
        """Return the finished statistics of an episode whose rows are all at hand.

        Args:
            columns: All rows, by feature.
            pictures: The cameras that have footage.
            features: The dataset's features.
            rows: How many frames the episode has.

        Raises:
            EpisodeError: If a column or a camera has another number of frames.
        """
        for name, column in columns.items():
            if len(column) != rows:
                raise EpisodeError(
                    "A column has another number of rows than the episode.",
                    where=f"feature {name}",
                    expected=rows,
                    found=len(column),
                )
        one = cls(features)
        one.finish(columns, pictures)
        return one

    def add_rows(self, columns: _Columns) -> None:
        """Take some rows; the arrays are kept until `finish` and must not change before."""
        self._pieces.append(dict(columns))

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """All rows added, by feature; what `DatasetStatistics.with_episode` takes."""
        if len(self._pieces) > 1:
            names = self._pieces[0]
            self._pieces = [{name: np.concatenate([one[name] for one in self._pieces]) for name in names}]
        return dict(self._pieces[0]) if self._pieces else {}

    def finish(self, columns: _Columns | None = None, pictures: Mapping[str, PictureStats] | None = None) -> Stats:
        """Return the statistics of the episode, in the order of the features.

        Args:
            columns: The last rows, or all of them where none were added before.
            pictures: The cameras that have footage.

        Raises:
            EpisodeError: If there are no rows, columns have different lengths, or a camera has fewer pictures.

        Warns:
            StatisticsWarning: If values are not finite; they are counted and left out.
        """
        if columns:
            self.add_rows(columns)
        known = {name: column for name, column in self.columns.items() if name in self.features}
        lengths = {len(column) for column in known.values()}
        if len(lengths) > 1 or lengths == {0} or not (lengths or pictures):
            raise EpisodeError(
                "The columns of an episode have one length, and at least one row.",
                found=", ".join(f"{name} {len(column)}" for name, column in known.items()) or "no columns",
            )
        numbers = number_stats(known, self.features)
        self.problems = tuple(numbers.problems)
        length = lengths.pop() if lengths else None
        cameras = {name: one.finish(length) for name, one in (pictures or {}).items()}
        found = {**numbers.stats, **cameras}
        for problem in self.problems:
            warnings.warn(problem, StatisticsWarning, stacklevel=2)
        self.histograms = {name: one.histogram for name, one in (pictures or {}).items()}
        self.stats = {name: found[name] for name in self.features if name in found}
        return self.stats


@dataclass(frozen=True, eq=False)
class DatasetStatistics:
    """The statistics of a whole dataset.

    Attributes:
        features: The dataset's features.
        pooled: `min`, `max`, `mean`, `std` and `count` over all episodes.
        state: What the quantiles are made from.
        stale: Why the statistics on disk cannot be gone on with, or None. Then `rebuild` makes them anew.

    Example:
        >>> columns = {"x": np.arange(5, dtype=np.float32)}
        >>> features = {"x": Feature("x", "float32", (1,))}
        >>> whole = DatasetStatistics.empty(features)
        >>> whole = whole.with_episode(EpisodeStatistics(features).finish(columns), columns)
        >>> whole.stats["x"]["q50"].tolist(), whole.stats["x"]["count"].tolist()
        ([2.0], [5])
    """

    features: Mapping[str, Feature]
    pooled: Stats = field(default_factory=dict)
    state: QuantileState = field(default_factory=lambda: QuantileState({}))
    stale: str | None = None

    @classmethod
    def empty(cls, features: Mapping[str, Feature]) -> DatasetStatistics:
        """Return the statistics of a dataset without episodes."""
        return cls(dict(features), {}, QuantileState.empty(features))

    @classmethod
    def load(cls, root: Path, features: Mapping[str, Feature], total_frames: int) -> DatasetStatistics:
        """Return the statistics of a dataset on disk.

        Both files are taken only as a pair of one commit that covers all frames. Where they are missing, damaged or
        of another writer, `stale` says so and the result is empty: the caller goes on with `rebuild`.

        Args:
            root: The dataset's folder.
            features: Its features.
            total_frames: How many frames it has.
        """
        if total_frames == 0:
            return cls.empty(features)
        try:
            pooled = from_json((root / STATS_PATH).read_bytes(), STATS_PATH)
            state = QuantileState.from_bytes((root / QUANTILES_PATH).read_bytes(), features, QUANTILES_PATH)
            _check_pair(pooled, state, features, total_frames)
        except FileNotFoundError as error:
            return replace(cls.empty(features), stale=f"{Path(str(error.filename)).name} is missing")
        except FormatError as error:
            return replace(cls.empty(features), stale=error.message)
        return cls(dict(features), _without_quantiles(pooled, features), state)

    @classmethod
    def rebuild(
        cls,
        features: Mapping[str, Feature],
        columns: Iterable[_Columns],
        episodes: Iterable[_AnyStats],
        known: _AnyStats | None = None,
    ) -> DatasetStatistics:
        """Return the statistics of a dataset from its tables, and of its cameras from its episodes' statistics.

        Args:
            features: The dataset's features.
            columns: Pieces of the data tables, each row once.
            episodes: The statistics in each episode's row.
            known: What `meta/stats.json` holds, used for cameras of which the episodes have nothing.
        """
        cameras = {name for name, feature in features.items() if feature.is_camera and has_stats(feature)}
        of_cameras: list[Stats] = []
        for one in episodes:
            fixed = with_frame_counts(one)
            part = {name: fixed[name] for name in cameras if name in fixed and _fits(fixed[name], features[name])}
            if part:
                of_cameras.append(part)
        whole = cls.empty(features)
        parts: list[tuple[Stats, Stats]] = []
        state = whole.state
        for piece in columns:
            numbers = number_stats(piece, features)
            parts.append((numbers.stats, {name: {"count": count} for name, count in numbers.finite.items()}))
            state = state.with_rows({name: piece[name] for name in numbers.stats})
            if len(parts) >= 256:
                parts = [_pool(parts)]
        pooled = _pool(parts)[0] if parts else {}
        if of_cameras:
            pooled |= _without_quantiles(merge([_without_quantiles(one, features) for one in of_cameras]), features)
        lacking = cameras - set(pooled)
        if known and lacking:
            fixed = with_frame_counts(known)
            extra = {name: fixed[name] for name in lacking if name in fixed and _fits(fixed[name], features[name])}
            of_cameras.append(extra)
            pooled |= _without_quantiles(extra, features)
        averaged = rebuild({name: features[name] for name in cameras}, [], of_cameras)
        return replace(whole, pooled=_ordered(pooled, features), state=state.merge(averaged))

    @property
    def approximate(self) -> tuple[str, ...]:
        """Cameras whose quantiles are only the mean of the episodes' quantiles, as the reference stores them."""
        return self.state.approximate

    def with_episode(
        self, stats: _AnyStats, columns: _Columns, pictures: Mapping[str, PictureHistogram] | None = None
    ) -> DatasetStatistics:
        """Return the statistics with one more episode; this one stays as it is.

        Args:
            stats: What `EpisodeStatistics.finish` gave.
            columns: The episode's rows.
            pictures: For each camera with footage its `PictureStats.histogram`.
        """
        rows = {name: column for name, column in columns.items() if name in stats and self.features[name].is_numeric}
        state = self.state.with_rows(rows, pictures)
        before, added = {}, {}
        for name in rows:
            after, old = state.finite(name), self.state.finite(name)
            if after is not None:
                before[name] = np.zeros_like(after) if old is None else old
                added[name] = after - before[name]
        parts = [self.pooled, _without_quantiles(stats, self.features)]
        pooled = merge(parts, weights=[before, added])
        return replace(self, pooled=_ordered(pooled, self.features), state=state)

    @cached_property
    def stats(self) -> Stats:
        """All statistics of the dataset, quantiles included where they are known."""
        known = self.state.quantiles()
        whole: Stats = {}
        for name, one in self.pooled.items():
            whole[name] = {**one, **known.get(name, {})}
        return whole

    def with_episodes(self, episodes: Iterable[EpisodeStatistics]) -> DatasetStatistics:
        """Return the statistics with some more finished episodes; this one stays as it is."""
        whole = self
        for one in episodes:
            whole = whole.with_episode(one.stats, one.columns, one.histograms)
        return whole

    def stats_json(self) -> bytes:
        """Return the content of `meta/stats.json`."""
        return to_json(self.stats)

    def quantiles_npz(self) -> bytes:
        """Return the content of `meta/quantiles.npz`."""
        return replace(self.state, mark=_mark(self.pooled)).to_bytes()

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each thing about the statistics that a user should know; the five default columns are silent."""
        lines = []
        for name, one in self.pooled.items():
            flat = np.flatnonzero(one["std"].reshape(-1) == 0)
            if len(flat) and name not in DEFAULT_FEATURES:
                places = "" if one["std"].size == 1 else f" (element {', '.join(map(str, flat[:8].tolist()))}"
                places += ", ...)" if len(flat) > 8 else ")" if places else ""
                lines.append(f"{name}{places} is constant: its std is stored as 0, and scaling by it would divide by 0")
        for name in self.pooled:
            feature = self.features[name]
            entry = self.state.finite(name) if feature.is_numeric else None
            if entry is not None:
                total = int(self.pooled[name]["count"][0]) * feature.size
                missing = total - int(entry.sum())
                if missing:
                    lines.append(f"{name}: {missing} of {total} values are not finite and left out of the statistics")
        for name in self.approximate:
            what = "the mean of the episodes' quantiles" if name in self.state.quantiles() else "left out"
            lines.append(f"{name}: the quantiles of the whole are not known; {what}")
        return tuple(lines)

    def warn(self) -> None:
        """Give all notes as one `StatisticsWarning`; the writer does so when it is closed."""
        if self.notes:
            warnings.warn("; ".join(self.notes), StatisticsWarning, stacklevel=3)


def _fits(one: Mapping[str, npt.NDArray[Any]], feature: Feature) -> bool:
    """Whether all pooled statistics are there, in the shapes of the feature."""
    shape = stats_shape(feature)
    return all(key in one and one[key].shape == shape for key in ("min", "max", "mean", "std")) and (
        "count" in one and one["count"].shape == (1,)
    )


def _pool(parts: list[tuple[Stats, Stats]]) -> tuple[Stats, Stats]:
    weights = [{name: one["count"] for name, one in finite.items()} for _, finite in parts]
    bare = [{name: _bare(one) for name, one in stats.items()} for stats, _ in parts]
    pooled = merge(bare, weights=weights)
    total = {name: {"count": np.sum([one[name] for one in weights if name in one], axis=0)} for name in pooled}
    return pooled, total


def _bare(one: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {stat: array for stat, array in one.items() if stat not in QUANTILES}


def _without_quantiles(stats: _AnyStats, features: Mapping[str, Feature]) -> Stats:
    return {name: _bare(one) for name, one in stats.items() if name in features and has_stats(features[name])}


def _ordered(stats: Stats, features: Mapping[str, Feature]) -> Stats:
    return {name: stats[name] for name in features if name in stats}


def _mark(pooled: _AnyStats) -> int:
    """A checksum of the numbers, whatever their order or spelling in the file."""
    mark = 0
    for name in sorted(pooled):
        for stat, array in sorted(pooled[name].items()):
            values = np.asarray(array, np.float64) + 0.0  # one zero
            values[np.isnan(values)] = np.nan  # one NaN
            mark = zlib.crc32(values.tobytes(), zlib.crc32(f"{name}/{stat}{values.shape}".encode(), mark))
    return mark


def _check_pair(pooled: Stats, state: QuantileState, features: Mapping[str, Feature], total_frames: int) -> None:
    bare = _without_quantiles(pooled, features)
    for name, one in bare.items():
        if not _fits(one, features[name]):
            raise FormatError("The statistics do not fit the features.", where=f"{STATS_PATH}, {name}")
        count = int(one["count"][0])
        if count > total_frames or (features[name].is_numeric and count != total_frames):
            raise FormatError(
                "The statistics do not cover the dataset.",
                where=f"{STATS_PATH}, {name}",
                expected=f"count {total_frames}",
                found=count,
            )
    if state.frames != total_frames and any(feature.is_numeric for feature in state.features.values()):
        raise FormatError(
            "The quantile file does not cover the dataset.",
            where=QUANTILES_PATH,
            expected=f"{total_frames} frames",
            found=state.frames,
        )
    if set(state.entries) != set(bare) or state.mark != _mark(bare):
        raise FormatError("The quantile file is not of the same commit as the statistics.", where=QUANTILES_PATH)
