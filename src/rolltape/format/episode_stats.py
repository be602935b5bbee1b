"""Statistics of one episode, by the reference's definition, computed without its loss of precision.

Numbers: every frame, each element by itself (of a tensor each place of its last axis, the leading axes are more rows);
population standard deviation; quantiles are order statistics, which lie within one of the reference's 5,000 bins.
Pictures: some frames of the episode, each thinned to about 150 pixels on its longer side.
Source of the definition: LeRobotDataset v3.0 as release 0.6.1 of its library writes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rolltape.errors import EpisodeError
from rolltape.format.features import Feature
from rolltape.format.stats import QUANTILES, FeatureStats, Stats

__all__ = [
    "NumberStats",
    "episode_stats",
    "feature_rows",
    "number_stats",
    "sample_count",
    "sample_indices",
    "stride",
    "subsample",
    "value_stats",
]

_SAMPLES = (100, 10_000)
_SAMPLE_POWER = 0.75
_THIN_TO, _THIN_FROM = 150, 300
_BLOCK = 1 << 20
_SMALL = {"bool": 0, "uint8": 0, "int8": -128}


class NumberStats(NamedTuple):
    """Statistics of an episode's numbers.

    Attributes:
        stats: `{feature: {stat: array}}`.
        finite: How many values of each element are finite; the others are left out of everything but `count`.
        rows: How many values each element has.
    """

    stats: Stats
    finite: dict[str, npt.NDArray[np.int64]]
    rows: dict[str, int]

    @property
    def problems(self) -> list[str]:
        """One line for each feature with values that are not finite."""
        lines = []
        for name, finite in self.finite.items():
            missing = self.rows[name] - finite
            if missing.any():
                at = np.flatnonzero(missing)
                places = ", ".join(map(str, at[:8].tolist())) + (", ..." if len(at) > 8 else "")
                lines.append(
                    f"{name}: {int(missing.sum())} of {self.rows[name] * len(finite)} values are not finite"
                    f" (element {places}); they are left out of its statistics"
                )
        return lines


def sample_count(length: int) -> int:
    """Return how many pictures of an episode the statistics look at.

    Example:
        >>> [sample_count(n) for n in (10, 300, 1000, 10_000)]
        [10, 100, 177, 1000]
    """
    least, most = _SAMPLES
    return max(min(least, length), min(int(length**_SAMPLE_POWER), most))


def sample_indices(length: int) -> npt.NDArray[np.int64]:
    """Return which pictures of an episode the statistics look at: int64, ascending, first and last included.

    Example:
        >>> sample_indices(4).tolist(), len(sample_indices(500))
        ([0, 1, 2, 3], 105)
    """
    if length <= 0:
        return np.zeros(0, np.int64)
    return np.round(np.linspace(0, length - 1, sample_count(length))).astype(np.int64)


def stride(height: int, width: int) -> int:
    """Return the step at which rows and columns of a picture are taken.

    Example:
        >>> stride(480, 640), stride(299, 299)
        (4, 1)
    """
    longer = max(height, width)
    return 1 if longer < _THIN_FROM else int(longer / _THIN_TO)


def subsample(picture: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the thinned picture, a view.

    Args:
        picture: [H, W, C] or [H, W].
    """
    step = stride(picture.shape[0], picture.shape[1])
    return picture[::step, ::step]


def feature_rows(column: npt.NDArray[Any], feature: Feature) -> npt.NDArray[Any]:
    """Return a feature's values as [rows, elements], a view where possible.

    Args:
        column: The values of some frames: [n], [n, *shape], or anything of the same size.
        feature: The feature.

    Raises:
        EpisodeError: If the values do not fit the feature's shape.
    """
    array = np.asarray(column)
    frames = array.shape[0] if array.ndim else 0
    if array.dtype.kind not in "biuf" or array.size != frames * feature.size:
        raise EpisodeError(
            "The values do not fit the feature.",
            where=f"feature {feature.name}",
            expected=f"numbers of shape (frames, {', '.join(map(str, feature.shape))})",
            found=f"{array.dtype} of shape {array.shape}",
        )
    return array.reshape(-1, feature.shape[-1])


def episode_stats(column: npt.NDArray[Any], feature: Feature) -> FeatureStats:
    """Return the statistics of one episode's column: float64 arrays of `stats_shape(feature)`, and `count` int64 [1].

    With one row all quantiles equal the mean. Values that are not finite are left out; an element with none that is
    finite has NaN. `number_stats` says how many there are.

    Args:
        column: The values of all frames, [n] or [n, *shape]; numbers or bools (taken as 0 and 1).
        feature: The feature. Zero width and texts give an empty mapping.

    Raises:
        EpisodeError: If there are no frames, or the values do not fit the feature.

    Example:
        >>> one = episode_stats(np.array([0.0, 1.0, 2.0, 3.0]), Feature("x", "float64", (1,)))
        >>> one["mean"].tolist(), one["q50"].tolist(), one["count"].tolist()
        ([1.5], [1.0], [4])
    """
    return number_stats({feature.name: column}, {feature.name: feature}).stats.get(feature.name, {})


def number_stats(columns: Mapping[str, npt.NDArray[Any]], features: Mapping[str, Feature]) -> NumberStats:
    """Return the statistics of all number columns of one episode, computed together.

    Args:
        columns: The values of all frames by feature; columns of other features than numbers are passed over.
        features: The dataset's features.

    Raises:
        EpisodeError: If a column has no frames or does not fit its feature.
    """
    stats: Stats = {}
    finite: dict[str, npt.NDArray[np.int64]] = {}
    rows: dict[str, int] = {}
    together: dict[int, list[tuple[str, npt.NDArray[Any]]]] = {}
    for name, column in columns.items():
        feature = features.get(name)
        if feature is None or not feature.is_numeric or feature.size == 0:
            continue
        frames = len(column)
        if frames == 0:
            raise EpisodeError("An episode without frames has no statistics.", where=f"feature {name}")
        values = feature_rows(column, feature)
        stats[name] = {"count": np.array([frames], np.int64)}
        rows[name] = len(values)
        if len(values) * values.shape[1] > _BLOCK and values.dtype.name in _SMALL:
            stats[name] = _small_stats(values) | stats[name]
            finite[name] = np.full(values.shape[1], len(values), np.int64)
        else:
            together.setdefault(len(values), []).append((name, values))
    for length, group in together.items():
        for block in _blocks(group):
            found, valid = _matrix_stats(block, length)
            start = 0
            for name, values in block:
                stop = start + values.shape[1]
                of_one = {stat: array[start:stop] for stat, array in found.items()}
                _append(stats[name], of_one)
                finite[name] = (
                    np.concatenate([finite[name], valid[start:stop]]) if name in finite else valid[start:stop]
                )
                start = stop
    ordered = {name: _in_order(one) for name, one in stats.items()}
    return NumberStats(ordered, finite, rows)


_ORDER = ("min", "max", "mean", "std", "count", *QUANTILES)


def _in_order(one: FeatureStats) -> FeatureStats:
    return {stat: one[stat] for stat in _ORDER}


def _append(known: FeatureStats, more: FeatureStats) -> None:
    for stat, array in more.items():
        known[stat] = np.concatenate([known[stat], array]) if stat in known else array


def _blocks(group: list[tuple[str, npt.NDArray[Any]]]) -> list[list[tuple[str, npt.NDArray[Any]]]]:
    """Cut wide columns so that no matrix to sort gets larger than a few megabytes, or one element's values."""
    blocks: list[list[tuple[str, npt.NDArray[Any]]]] = [[]]
    taken = 0
    for name, values in group:
        step = max(1, _BLOCK // len(values))
        for start in range(0, values.shape[1], step):
            part = values[:, start : start + step]
            if taken and taken + part.size > _BLOCK:
                blocks.append([])
                taken = 0
            blocks[-1].append((name, part))
            taken += part.size
    return blocks


def _matrix_stats(block: list[tuple[str, npt.NDArray[Any]]], length: int) -> tuple[FeatureStats, npt.NDArray[np.int64]]:
    matrix = np.empty((sum(values.shape[1] for _, values in block), length), np.float64)
    start = 0
    for _, values in block:
        stop = start + values.shape[1]
        matrix[start:stop] = values.T
        start = stop
    matrix.sort(axis=1)
    low, high = matrix[:, 0], matrix[:, -1]
    whole = np.isfinite(low) & np.isfinite(high)
    valid = np.full(len(matrix), length, np.int64)
    if whole.all():
        return _sorted_stats(matrix), valid
    parts = []
    for at, row in enumerate(matrix):
        kept = row if whole[at] else row[np.isfinite(row)]
        valid[at] = len(kept)
        parts.append(_sorted_stats(kept[None]) if len(kept) else dict.fromkeys(_ORDER, np.array([np.nan])))
    return {stat: np.concatenate([part[stat] for part in parts]) for stat in _ORDER if stat != "count"}, valid


def _sorted_stats(matrix: npt.NDArray[np.float64]) -> FeatureStats:
    length = matrix.shape[1]
    low, high = matrix[:, 0], matrix[:, -1]
    # In two passes, from a first mean: no large squares are subtracted from each other.
    first = matrix.mean(axis=1)
    rest = matrix - first[:, None]
    shift = rest.mean(axis=1)
    with np.errstate(over="ignore"):
        variance = np.einsum("ij,ij->i", rest, rest) / length - shift**2
    mean = np.clip(first + shift, low, high)
    std = np.sqrt(np.maximum(variance, 0.0))
    std[low == high] = 0.0
    found: FeatureStats = {"min": low.copy(), "max": high.copy(), "mean": mean, "std": std}
    for key, q in QUANTILES.items():
        found[key] = mean.copy() if length < 2 else matrix[:, _place(q, length)].copy()
    return found


def _place(q: float, count: int) -> int:
    """The position of the smallest value whose share of values at or below it reaches q."""
    return min(max(math.ceil(q * count), 1), count) - 1


def _small_stats(values: npt.NDArray[Any]) -> FeatureStats:
    """Statistics of many values of at most 256 kinds, by counting them."""
    low = _SMALL[values.dtype.name]
    counts = np.stack(
        [np.bincount(values[:, at].astype(np.int64) - low, minlength=256) for at in range(values.shape[1])]
    )
    return value_stats(np.arange(low, low + 256, dtype=np.float64), counts)


def value_stats(values: npt.NDArray[Any], counts: npt.NDArray[Any]) -> FeatureStats:
    """Return exact statistics of numbers given as how often each value occurs.

    Args:
        values: The values, ascending, [V].
        counts: How often, [elements, V] or [V] for one element.

    Returns:
        `min`, `max`, `mean`, `std` and the quantiles, each float64 [elements]; NaN for an element without values.

    Example:
        >>> one = value_stats(np.array([0, 10]), np.array([3, 1]))
        >>> one["mean"].tolist(), one["max"].tolist(), one["q90"].tolist()
        ([2.5], [10.0], [10.0])
    """
    at = np.asarray(values, np.float64)
    many = np.atleast_2d(np.asarray(counts))
    # Whole numbers here: running totals stay exact however many pixels there are.
    running = np.cumsum(many, axis=1, dtype=np.int64)
    total = running[:, -1]
    share = many / np.maximum(total, 1)[:, None]
    occurs = many > 0
    low = at[occurs.argmax(axis=1)]
    high = at[many.shape[1] - 1 - occurs[:, ::-1].argmax(axis=1)]
    first = share @ at
    rest = at[None, :] - first[:, None]
    shift = (share * rest).sum(axis=1)
    mean = np.clip(first + shift, low, high)
    std = np.sqrt(np.maximum((share * rest**2).sum(axis=1) - shift**2, 0.0))
    std[low == high] = 0.0
    found: FeatureStats = {"min": low, "max": high, "mean": mean, "std": std}
    for key, q in QUANTILES.items():
        places = [_place(q, int(one)) + 1 if one else 1 for one in total]
        spots = [int(np.searchsorted(row, place)) for row, place in zip(running, places, strict=True)]
        found[key] = np.where(total < 2, mean, at[np.minimum(spots, len(at) - 1)])
    empty = total == 0
    if empty.any():
        for array in found.values():
            array[empty] = np.nan
    return found
