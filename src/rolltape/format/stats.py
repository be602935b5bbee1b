"""Statistics as the format holds them: `{feature: {stat: array}}`, their shapes, their JSON, and how parts are merged.

Source of the layout: the LeRobotDataset v3.0 `meta/stats.json` and the `stats/*` columns of `meta/episodes`.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rolltape.errors import FormatError
from rolltape.format.features import Feature
from rolltape.format.json_text import json_text
from rolltape.format.schema import STAT_NAMES, has_stats

__all__ = [
    "QUANTILES",
    "FeatureStats",
    "StatisticsWarning",
    "Stats",
    "from_json",
    "mean_quantiles",
    "merge",
    "stats_shape",
    "to_json",
]

FeatureStats: TypeAlias = dict[str, npt.NDArray[Any]]
Stats: TypeAlias = dict[str, FeatureStats]

QUANTILES: dict[str, float] = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
"""The quantiles that are kept, by the name of their statistic."""

_MAX_DEPTH = 8


class StatisticsWarning(UserWarning):
    """The statistics are not what one would expect: constant values, values that are no numbers, quantiles left out."""


def stats_shape(feature: Feature) -> tuple[int, ...] | None:
    """Return the shape of a feature's `min`, `max`, `mean`, `std` and quantiles, or None where none are kept.

    A vector of n has (n,), a scalar (1,), a tensor the length of its last axis (the leading axes count as more rows),
    a camera (C, 1, 1). Texts and features of zero width have none. `count` always has the shape (1,).

    Example:
        >>> stats_shape(Feature("tactile", "float32", (2, 3))), stats_shape(Feature("note", "string", (1,)))
        ((3,), None)
    """
    if not has_stats(feature):
        return None
    if feature.is_camera:
        return (feature.hwc[2], 1, 1)
    return (feature.shape[-1],)


def merge(
    parts: Sequence[Mapping[str, Mapping[str, npt.NDArray[Any]]]],
    quantiles: Mapping[str, Mapping[str, npt.NDArray[Any]]] | None = None,
    *,
    weights: Sequence[Mapping[str, npt.NDArray[Any]]] | None = None,
) -> Stats:
    """Return the statistics of the whole from those of its parts.

    `min` and `max` are element by element, `mean` and `std` pooled by count (float64, from the differences to the
    mean, so large offsets cost no precision), `count` is the sum. A feature that some parts lack is merged over the
    others. Values that are not finite weigh nothing.

    Quantiles of the whole cannot be had from those of the parts. They are taken from `quantiles`; a feature that is
    not named there keeps them only if one part alone has the feature, and otherwise loses them, with a warning.

    Args:
        parts: Statistics of disjoint sets of frames.
        quantiles: `{feature: {"q01": array, ...}}` of the whole, as `QuantileState.quantiles` gives them.
        weights: For each part `{feature: how many values each element has}`, where that differs from `count`
            (some values were not finite).

    Warns:
        StatisticsWarning: If quantiles are left out.

    Example:
        >>> left = {"x": {"mean": np.array([0.0]), "std": np.array([1.0]), "count": np.array([3])}}
        >>> right = {"x": {"mean": np.array([4.0]), "std": np.array([1.0]), "count": np.array([1])}}
        >>> whole = merge([left, right])
        >>> whole["x"]["mean"].tolist(), whole["x"]["count"].tolist()
        ([1.0], [4])
    """
    known = quantiles or {}
    lost = []
    whole: Stats = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        having = [(at, part[name]) for at, part in enumerate(parts) if name in part]
        of_one = [None if weights is None else weights[at].get(name) for at, _ in having]
        merged = _merge_one(name, [one for _, one in having], of_one)
        if name in known:
            merged |= {key: np.asarray(value, np.float64) for key, value in known[name].items()}
        elif len(having) == 1:
            merged |= {key: np.asarray(value, np.float64) for key, value in having[0][1].items() if key in QUANTILES}
        elif any(key in QUANTILES for _, one in having for key in one):
            lost.append(name)
        whole[name] = {stat: merged[stat] for stat in STAT_NAMES if stat in merged}
    if lost:
        warnings.warn(
            f"The quantiles of {', '.join(lost)} are left out: those of the parts do not tell those of the whole.",
            StatisticsWarning,
            stacklevel=2,
        )
    return whole


def _merge_one(
    name: str, parts: Sequence[Mapping[str, npt.NDArray[Any]]], weights: Sequence[npt.NDArray[Any] | None]
) -> FeatureStats:
    merged: FeatureStats = {}
    try:
        for stat, pick in (("min", np.fmin), ("max", np.fmax)):
            if all(stat in part for part in parts):
                merged[stat] = pick.reduce(np.stack([np.asarray(part[stat], np.float64) for part in parts]))
        if all("count" in part for part in parts):
            merged["count"] = np.sum([np.asarray(part["count"], np.int64).reshape(1) for part in parts], axis=0)
            if all("mean" in part and "std" in part for part in parts):
                merged["mean"], merged["std"] = _pooled(parts, weights)
    except ValueError as error:
        shapes = sorted({f"{stat} {np.shape(value)}" for part in parts for stat, value in part.items()})
        raise FormatError(
            "The statistics of the parts have different shapes.", where=f"feature {name}", found=", ".join(shapes)
        ) from error
    return merged


def _pooled(
    parts: Sequence[Mapping[str, npt.NDArray[Any]]], weights: Sequence[npt.NDArray[Any] | None]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    means = np.stack([np.asarray(part["mean"], np.float64) for part in parts])
    stds = np.stack([np.asarray(part["std"], np.float64) for part in parts])
    share = np.empty_like(means)
    for row, (part, given) in enumerate(zip(parts, weights, strict=True)):
        value = np.asarray(part["count"] if given is None else given, np.float64)
        share[row] = value.reshape(share[row].shape) if value.size == share[row].size else value.reshape(-1)[0]
    share[~(np.isfinite(means) & np.isfinite(stds))] = 0.0
    means = np.where(share > 0, means, 0.0)
    stds = np.where(share > 0, stds, 0.0)
    total = share.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share /= total
        # From the largest part's mean on: differences stay small, and one part alone comes out as it went in.
        anchor = np.take_along_axis(means, share.argmax(axis=0)[None], axis=0)[0]
        mean = anchor + (share * (means - anchor)).sum(axis=0)
        variance = (share * stds**2).sum(axis=0) + (share * (means - mean) ** 2).sum(axis=0)
    mean = np.where(total > 0, mean, np.nan)
    return mean, np.where(total > 0, np.sqrt(variance), np.nan)


def mean_quantiles(
    parts: Sequence[Mapping[str, npt.NDArray[Any]]], counts: Sequence[float] | None = None
) -> FeatureStats:
    """Return the count-weighted mean of one feature's quantiles, which is what the reference stores for a whole.

    This is *not* a quantile of the whole. It is used only where nothing better is left, and marked there.
    A quantile that some part lacks is left out.

    Args:
        parts: The feature's statistics in each part.
        counts: Weights to use instead of the parts' own counts.
    """
    if not parts:
        return {}
    share = np.array([float(part["count"].reshape(-1)[0]) for part in parts] if counts is None else counts, np.float64)
    found: FeatureStats = {}
    for key in QUANTILES:
        if all(key in part for part in parts) and share.sum() > 0:
            values = np.stack([np.asarray(part[key], np.float64) for part in parts])
            found[key] = np.tensordot(share / share.sum(), values, axes=1)
    return found


def to_json(stats: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> bytes:
    """Return the content of `meta/stats.json`: four spaces of indent, floats written so that they read back equal.

    Example:
        >>> from_json(to_json({"x": {"min": np.array([0.1])}}), "stats.json")["x"]["min"].tolist()
        [0.1]
    """
    plain = {
        name: {
            stat: np.asarray(value, np.int64 if stat == "count" else np.float64).tolist() for stat, value in one.items()
        }
        for name, one in stats.items()
    }
    return json_text(plain).encode()


def from_json(data: bytes | str | Mapping[str, Any], where: str) -> Stats:
    """Return the statistics that a `meta/stats.json` holds.

    Scalars become arrays of one element, `count` int64, all else float64.

    Args:
        data: The file's bytes, or what its JSON says.
        where: The file, for messages.

    Raises:
        FormatError: If it is not JSON, or not two levels of mappings with numbers in them.
    """
    if isinstance(data, (bytes, str)):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise FormatError(
                "The statistics are not valid JSON.",
                where=where,
                found=str(error),
                fix="Remove the file; the next recording makes it anew from the tables.",
            ) from error
    if not isinstance(data, Mapping):
        raise FormatError("The statistics are not a mapping.", where=where, found=type(data).__name__)
    stats: Stats = {}
    for name, entry in data.items():
        if not isinstance(entry, Mapping):
            raise FormatError(
                "A feature's statistics are not a mapping.", where=f"{where}, {name}", found=type(entry).__name__
            )
        stats[name] = {stat: _array(value, stat, f"{where}, {name}/{stat}") for stat, value in entry.items()}
    return stats


def _array(value: Any, stat: str, where: str) -> npt.NDArray[Any]:
    numbers = list(_numbers(value, 0, where))
    try:
        array = np.array(value, np.float64)
        if stat == "count":
            if not all(math.isfinite(number) and number >= 0 for number in numbers):
                raise ValueError("a count is not a whole number")
            array = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError("A statistic is not an array of numbers.", where=where, found=str(error)) from error
    return np.atleast_1d(array)


def _numbers(value: Any, depth: int, where: str) -> Iterable[float]:
    if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        for one in value:
            yield from _numbers(one, depth + 1, where)
    elif value is None:
        yield math.nan
    elif isinstance(value, (int, float)):
        yield value
    else:
        raise FormatError("A statistic is not an array of numbers.", where=where, found=repr(value)[:80])
