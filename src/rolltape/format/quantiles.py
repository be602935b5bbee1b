"""The state that knows the true quantiles of a whole dataset, and grows with every episode.

It lives in `meta/quantiles.npz` (`quantile_file` has the layout). A number feature has a sketch for each element, or
exact bins where it is bool or 8 bits wide; a colour camera 256 exact bins for each channel; a depth camera of whole
millimetres exact bins, one of float metres a sketch. Cameras count the pixels of the frames that the statistics look
at (`episode_stats.sample_indices`), before encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rolltape.errors import FormatError, UnknownFeatureError
from rolltape.format.episode_stats import feature_rows, sample_count, stride
from rolltape.format.features import DEFAULT_FEATURES, Feature
from rolltape.format.schema import has_stats
from rolltape.format.sketch import Bins, Sketch
from rolltape.format.stats import QUANTILES, FeatureStats, Stats, mean_quantiles, stats_shape

__all__ = ["Averaged", "Entry", "PictureHistogram", "QuantileState", "rebuild", "with_frame_counts"]

_SHARES = tuple(QUANTILES.values())
_EIGHT_BITS = ("bool", "uint8", "int8")
_FITS_FLOAT32 = ("float16", "float32", "int16", "uint16")


@dataclass(frozen=True, eq=False)
class Averaged:
    """What is left where only the episodes' quantiles are known: their mean, which is no quantile of the whole.

    Attributes:
        count: How many frames it stands for.
        values: float64 [5, elements] in the order of `QUANTILES`, or None where some episode has none.
    """

    count: int
    values: npt.NDArray[np.float64] | None

    def merge(self, other: Averaged) -> Averaged:
        """Return the mean of both, weighted by their frames."""
        if not self.count or not other.count:
            return other if not self.count else self
        total = self.count + other.count
        if self.values is None or other.values is None:
            return Averaged(total, None)
        return Averaged(total, self.values + (other.values - self.values) * (other.count / total))


Entry: TypeAlias = Sketch | Bins | Averaged


@dataclass(frozen=True, eq=False)
class PictureHistogram:
    """The pixels of some frames of one camera.

    Attributes:
        pixels: How often each value occurs, as recorded (0 to 255, millimetres), or a sketch of float metres.
        frames: How many frames they are of.
    """

    pixels: Sketch | Bins
    frames: int


@dataclass(frozen=True, eq=False)
class QuantileState:
    """The quantiles of a dataset, as a value: every change gives a new state and leaves the old one whole.

    Attributes:
        features: The dataset's features.
        entries: For each feature with frames its summary.
        mark: A checksum of the statistics that the file was written beside; tells whether both are of one commit.

    Example:
        >>> state = QuantileState.empty({"x": Feature("x", "float32", (1,))})
        >>> state.with_rows({"x": np.arange(101, dtype=np.float32)}).quantiles()["x"]["q90"].tolist()
        [90.0]
    """

    features: Mapping[str, Feature]
    entries: Mapping[str, Entry] = field(default_factory=dict)
    mark: int = 0

    @classmethod
    def empty(cls, features: Mapping[str, Feature]) -> QuantileState:
        """Return the state of a dataset without frames."""
        return cls({name: one for name, one in features.items() if has_stats(one)})

    @property
    def frames(self) -> int:
        """How many frames of the data tables it has seen."""
        counts = [0]
        for name, entry in self.entries.items():
            feature = self.features[name]
            if feature.is_numeric and not isinstance(entry, Averaged):
                counts.append(entry.rows * feature.shape[-1] // feature.size)
        return max(counts)

    @property
    def approximate(self) -> tuple[str, ...]:
        """The features whose quantiles are only means of the episodes' quantiles."""
        return tuple(name for name, entry in self.entries.items() if isinstance(entry, Averaged))

    @property
    def nbytes(self) -> int:
        """Size of all summaries."""
        return sum(entry.nbytes for entry in self.entries.values() if not isinstance(entry, Averaged))

    def finite(self, name: str) -> npt.NDArray[np.int64] | None:
        """Return how many values of each element of a number feature are finite, or None where all are."""
        entry = self.entries.get(name)
        return entry.finite if isinstance(entry, Sketch) else None

    def with_rows(
        self, columns: Mapping[str, npt.NDArray[Any]], pictures: Mapping[str, PictureHistogram] | None = None
    ) -> QuantileState:
        """Return the state with the rows and pictures of an episode, or of a piece of one.

        Args:
            columns: Values of number features, [n] or [n, *shape].
            pictures: Pixels of cameras.

        Raises:
            EpisodeError: If values do not fit their feature.
            UnknownFeatureError: If no statistics are kept of a feature of this name.
            FormatError: If pictures are of another kind than those before (millimetres after metres).
        """
        entries = dict(self.entries)
        for name, column in columns.items():
            feature = self._known(name)
            if feature.is_camera:
                continue
            rows = feature_rows(column, feature)
            entry = entries.get(name)
            if entry is None:
                entry = _fresh(feature)
            if isinstance(entry, Averaged):  # only in a state that a caller built so
                raise FormatError("Only means of quantiles are known of this feature.", where=f"feature {name}")
            entries[name] = entry.insert(rows)
        for name, histogram in (pictures or {}).items():
            entries[name] = _with_pictures(self._known(name), entries.get(name), histogram)
        return replace(self, entries=entries)

    def merge(self, other: QuantileState) -> QuantileState:
        """Return the state of both datasets' frames together.

        Raises:
            FormatError: If a feature has another width, or another kind of pictures, in the other state.
        """
        entries = dict(self.entries)
        for name, entry in other.entries.items():
            mine = entries.get(name)
            entries[name] = entry if mine is None else _merged(name, mine, entry, self.features.get(name))
        return replace(self, features={**other.features, **self.features}, entries=entries)

    def quantiles(self) -> dict[str, FeatureStats]:
        """Return `{feature: {"q01": array, ...}}`, float64 of `stats_shape`; colour cameras from 0 to 1.

        A feature without frames, or whose quantiles cannot be known, is not there.
        """
        found: dict[str, FeatureStats] = {}
        for name, entry in self.entries.items():
            feature = self.features[name]
            values = _values(feature, entry)
            shape = stats_shape(feature)
            if values is not None and shape is not None:
                found[name] = {key: row.reshape(shape).copy() for key, row in zip(QUANTILES, values, strict=True)}
        return found

    def to_bytes(self) -> bytes:
        """Return the content of `meta/quantiles.npz`; the same state gives the same bytes."""
        from rolltape.format.quantile_file import write_state

        return write_state(self)

    @classmethod
    def from_bytes(
        cls, data: bytes, features: Mapping[str, Feature], where: str = "meta/quantiles.npz"
    ) -> QuantileState:
        """Return the state that a file holds.

        Args:
            data: The file's bytes. They are checked; nothing in them is run or trusted.
            features: The dataset's features.
            where: The file, for messages.

        Raises:
            FormatError: If the file is damaged or is not of these features.
        """
        from rolltape.format.quantile_file import read_state

        return read_state(data, features, where)

    def _known(self, name: str) -> Feature:
        feature = self.features.get(name)
        if feature is None:
            raise UnknownFeatureError(
                f"No statistics are kept of a feature named {name!r}.", expected=", ".join(self.features)
            )
        return feature


def _fresh(feature: Feature) -> Sketch | Bins:
    elements = feature.shape[-1]
    if feature.dtype in _EIGHT_BITS:
        return Bins.empty(elements)
    return Sketch.empty(elements, np.float32 if feature.dtype in _FITS_FLOAT32 else np.float64)


def _values(feature: Feature, entry: Entry) -> npt.NDArray[np.float64] | None:
    if isinstance(entry, Averaged):
        return entry.values
    values = entry.quantiles(_SHARES)
    return values / 255.0 if feature.is_camera and not feature.is_depth else values


def _with_pictures(feature: Feature, entry: Entry | None, histogram: PictureHistogram) -> Entry:
    channels = feature.hwc[2] if feature.is_camera else 0
    if histogram.pixels.elements != channels:
        raise FormatError(
            "The pictures do not fit the feature.",
            where=f"feature {feature.name}",
            expected=f"{channels} channels",
            found=f"{histogram.pixels.elements} channels",
        )
    if entry is None:
        return histogram.pixels
    if isinstance(entry, Averaged):
        return entry.merge(Averaged(histogram.frames, _values(feature, histogram.pixels)))
    return _merged(feature.name, entry, histogram.pixels, feature)


def _merged(name: str, left: Entry, right: Entry, feature: Feature | None) -> Entry:
    if isinstance(left, Averaged) and isinstance(right, Averaged):
        return left.merge(right)
    if isinstance(left, Sketch) and isinstance(right, Sketch) and left.elements == right.elements:
        return left.merge(right)
    if isinstance(left, Bins) and isinstance(right, Bins) and left.elements == right.elements:
        return left.merge(right)
    if feature is not None and feature.is_camera:
        if isinstance(left, Averaged) and not isinstance(right, Averaged):
            return left.merge(_averaged(feature, right))
        if isinstance(right, Averaged) and not isinstance(left, Averaged):
            return _averaged(feature, left).merge(right)
    raise FormatError(
        "Quantiles of different kinds cannot be merged.",
        where=f"feature {name}",
        expected=_named(left),
        found=_named(right),
    )


def _averaged(feature: Feature, entry: Sketch | Bins) -> Averaged:
    height, width, _ = feature.hwc
    step = stride(height, width)
    frames = entry.rows // max(1, -(-height // step) * -(-width // step))
    return Averaged(max(1, frames), _values(feature, entry))


def _named(entry: Entry) -> str:
    if isinstance(entry, Averaged):
        return "means of quantiles"
    return f"{'float values' if isinstance(entry, Sketch) else 'whole numbers'} of {entry.elements} elements"


def rebuild(
    features: Mapping[str, Feature],
    columns: Iterable[Mapping[str, npt.NDArray[Any]]],
    episodes: Iterable[Mapping[str, Mapping[str, npt.NDArray[Any]]]],
) -> QuantileState:
    """Return the state of a dataset that has no quantile file, from its tables and the statistics of its episodes.

    Numbers come from the rows and are as good as recorded ones. Pictures would have to be decoded, so of cameras only
    the mean of the episodes' quantiles is kept, as the reference stores it; they are named in `approximate`.

    Args:
        features: The dataset's features.
        columns: Pieces of the data tables, each row once, in any order.
        episodes: The statistics of each episode.
    """
    state = QuantileState.empty(features)
    for piece in columns:
        state = state.with_rows({name: column for name, column in piece.items() if name in state.features})
    cameras = [name for name, feature in state.features.items() if feature.is_camera]
    known: dict[str, list[Mapping[str, npt.NDArray[Any]]]] = {name: [] for name in cameras}
    for one in map(with_frame_counts, episodes) if cameras else ():
        for name in cameras:
            if "count" in one.get(name, {}):
                known[name].append(one[name])
    entries = dict(state.entries)
    for name, parts in known.items():
        if parts:
            count = int(sum(int(part["count"].reshape(-1)[0]) for part in parts))
            shape = stats_shape(state.features[name])
            fits = all(part[key].shape == shape for part in parts for key in QUANTILES if key in part)
            means = mean_quantiles(parts) if fits else {}
            whole = np.stack([means[key].reshape(-1) for key in QUANTILES]) if len(means) == len(QUANTILES) else None
            entries[name] = Averaged(count, whole)
    return replace(state, entries=entries)


def with_frame_counts(stats: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Stats:
    """Return an episode's statistics with every camera's `count` in frames.

    The reference counts sampled frames in one way of recording and pixels in the other, which would weigh an episode
    ten thousand times too much. A count above the episode's length is taken for pixels and replaced by the number of
    frames that are sampled from an episode of that length. Statistics that are None are left out.
    """
    fixed: Stats = {
        name: {stat: np.asarray(array) for stat, array in one.items() if array is not None}
        for name, one in stats.items()
    }
    counts = [int(one["count"].flat[0]) for name, one in fixed.items() if name in DEFAULT_FEATURES and "count" in one]
    length = max(counts, default=0)
    for one in fixed.values():
        if length and "count" in one and int(one["count"].flat[0]) > length:
            one["count"] = np.array([sample_count(length)], np.int64)
    return fixed
