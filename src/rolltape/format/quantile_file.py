"""The layout of `meta/quantiles.npz`: one header in JSON and a few flat arrays, all uncompressed.

| array | what |
|---|---|
| `header` | uint8: JSON with `version` and, in order, each feature's kind and sizes |
| `float32`, `float64` | the items of all sketches: level by level, within a level element by element |
| `whole` | int64: how many values of each element are finite, and where narrower integers do not suffice, bins |
| `bins` | uint32: all counts of all bins, element by element |

`numpy.load(path, allow_pickle=False)` opens it. Reading takes views of the bytes at hand: no size in the file can make
it allocate more than the file has.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import FormatError
from rolltape.format.features import Feature
from rolltape.format.quantiles import Averaged, Entry, QuantileState
from rolltape.format.sketch import BUDGET, Bins, Sketch
from rolltape.format.stats import QUANTILES, stats_shape

__all__ = ["read_state", "write_state"]

_VERSION = 1
_ARRAYS: dict[str, npt.DTypeLike] = {
    "header": np.uint8,
    "float32": np.float32,
    "float64": np.float64,
    "whole": np.int64,
    "bins": np.uint32,
}
_MAX_LEVELS = 48
_MAX_ITEMS = 4 * BUDGET
_FIX = "Remove the file; the next recording makes it anew from the tables."


def write_state(state: QuantileState) -> bytes:
    """Return the bytes of a state."""
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _ARRAYS}
    described = [_describe(name, entry, parts) for name, entry in state.entries.items()]
    header = json.dumps(
        {"version": _VERSION, "mark": state.mark, "features": described}, separators=(",", ":")
    ).encode()
    parts["header"] = [np.frombuffer(header, np.uint8)]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, dtype in _ARRAYS.items():
            flat = np.concatenate([part.reshape(-1) for part in parts[name]] or [np.empty(0)]).astype(dtype, copy=False)
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, flat, allow_pickle=False)
    return target.getvalue()


def _describe(name: str, entry: Entry, parts: dict[str, list[npt.NDArray[Any]]]) -> dict[str, Any]:
    if isinstance(entry, Sketch):
        items = np.concatenate([level.reshape(-1) for level in entry.levels])
        narrow = items.astype(np.float32)
        # Counters and other whole numbers are exact in half the space.
        dtype = "float32" if np.array_equal(narrow, items, equal_nan=True) else "float64"
        parts[dtype].append(narrow if dtype == "float32" else items)
        parts["whole"].append(entry.finite)
        return {
            "name": name,
            "kind": "sketch",
            "elements": entry.elements,
            "dtype": dtype,
            "held": entry.levels[0].dtype.name,
            "rows": entry.rows,
            "levels": [level.shape[1] for level in entry.levels],
            "turns": list(entry.turns),
        }
    if isinstance(entry, Bins):
        place = "bins" if not entry.counts.size or int(entry.counts.max()) < 1 << 32 else "whole"
        parts[place].append(entry.counts)
        sizes = {"low": entry.low, "bins": entry.counts.shape[1], "in": place}
        return {"name": name, "kind": "bins", "elements": entry.elements, **sizes}
    known = entry.values is not None
    if entry.values is not None:
        parts["float64"].append(entry.values)
    elements = 0 if entry.values is None else entry.values.shape[1]
    return {"name": name, "kind": "averaged", "elements": elements, "count": entry.count, "known": known}


class _Cursor:
    """Hands out the flat arrays piece by piece, never more than there is."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], where: str) -> None:
        self._arrays = arrays
        self._at = dict.fromkeys(arrays, 0)
        self._where = where

    def take(self, name: str, count: int) -> npt.NDArray[Any]:
        start = self._at[name]
        if count < 0 or start + count > len(self._arrays[name]):
            raise _damaged(self._where, f"array {name} is shorter than the header says")
        self._at[name] = start + count
        return self._arrays[name][start : start + count]

    def end(self) -> None:
        for name, at in self._at.items():
            if at != len(self._arrays[name]):
                raise _damaged(self._where, f"array {name} is longer than the header says")


def _damaged(where: str, found: object) -> FormatError:
    return FormatError("The quantile file is damaged.", where=where, found=found, fix=_FIX)


def read_state(data: bytes, features: Mapping[str, Feature], where: str) -> QuantileState:
    """Return the state in some bytes, checked.

    Raises:
        FormatError: If the bytes are not a quantile file of these features.
    """
    arrays = _read_arrays(data, where)
    try:
        header = json.loads(arrays.pop("header").tobytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(where, f"the header is not JSON: {error}") from error
    if not isinstance(header, dict) or not isinstance(header.get("features"), list):
        raise _damaged(where, "the header has no list of features")
    if header.get("version") != _VERSION:
        raise FormatError(
            "The quantile file is of another version.",
            where=where,
            expected=_VERSION,
            found=repr(header.get("version"))[:40],
            fix=_FIX,
        )
    empty = QuantileState.empty(features)
    cursor = _Cursor(arrays, where)
    entries: dict[str, Entry] = {}
    for described in header["features"]:
        if not isinstance(described, dict) or not isinstance(described.get("name"), str):
            raise _damaged(where, "a feature without a name")
        name = described["name"]
        feature = empty.features.get(name)
        if feature is None or name in entries:
            raise FormatError(
                "The quantile file does not belong to these features.", where=where, found=repr(name)[:80], fix=_FIX
            )
        entries[name] = _entry(described, feature, cursor, f"{where}, {name}")
    cursor.end()
    state = QuantileState(empty.features, entries, _whole(header, "mark", (1 << 64) - 1, where))
    _check_even(state, where)
    return state


def _check_even(state: QuantileState, where: str) -> None:
    numbers = [name for name, feature in state.features.items() if feature.is_numeric]
    counts = {
        name: QuantileState(state.features, {name: e}).frames for name, e in state.entries.items() if name in numbers
    }
    if state.frames and (len(set(counts.values())) > 1 or set(counts) != set(numbers)):
        raise FormatError(
            "The quantile file does not cover all features alike.",
            where=where,
            expected=f"{state.frames} frames of {', '.join(numbers)}",
            found=", ".join(f"{name} {count}" for name, count in counts.items())[:400],
            fix=_FIX,
        )


def _whole(described: Mapping[str, Any], key: str, most: int, where: str, *, least: int = 0) -> int:
    value = described.get(key)
    if type(value) is not int or not least <= value <= most:
        raise _damaged(where, f"{key} is {value!r}"[:80])
    return value


def _wholes(described: Mapping[str, Any], key: str, most: int, where: str) -> list[int]:
    values = described.get(key)
    if not isinstance(values, list) or not 1 <= len(values) <= _MAX_LEVELS:
        raise _damaged(where, f"{key} is not a list of levels")
    return [_whole({key: value}, key, most, where) for value in values]


def _entry(described: Mapping[str, Any], feature: Feature, cursor: _Cursor, where: str) -> Entry:
    shape = stats_shape(feature)
    elements = shape[0] if shape else 0
    kind = described.get("kind")
    known = kind != "averaged" or described.get("known") is True
    if described.get("elements") != (elements if known else 0):
        raise FormatError(
            "The quantile file does not belong to these features.",
            where=where,
            expected=f"{elements} elements",
            found=repr(described.get("elements"))[:40],
            fix=_FIX,
        )
    if kind == "sketch":
        return _sketch(described, elements, cursor, where)
    if kind == "bins":
        place = described.get("in")
        if place not in ("bins", "whole"):
            raise _damaged(where, "bins without a place")
        width = _whole(described, "bins", 1 << 20, where)
        low = _whole(described, "low", 1 << 20, where, least=-(1 << 20))
        counts = cursor.take(place, elements * width).reshape(elements, width).astype(np.int64)
        if (counts < 0).any() or (counts.astype(np.float64).sum(axis=1) >= 2.0**62).any():
            raise _damaged(where, "a count that cannot be")
        if len(np.unique(counts.sum(axis=1))) > 1:
            raise _damaged(where, "elements with different numbers of rows")
        return Bins(low, counts)
    if kind == "averaged" and feature.is_camera:
        count = _whole(described, "count", 1 << 62, where)
        if not known:
            return Averaged(count, None)
        return Averaged(count, cursor.take("float64", len(QUANTILES) * elements).reshape(-1, elements).copy())
    raise _damaged(where, f"kind {kind!r}"[:80])


def _sketch(described: Mapping[str, Any], elements: int, cursor: _Cursor, where: str) -> Sketch:
    sizes = _wholes(described, "levels", _MAX_ITEMS, where)
    turns = _wholes(described, "turns", 1 << 62, where)
    rows = _whole(described, "rows", 1 << 62, where)
    dtype, held = described.get("dtype"), described.get("held")
    if dtype not in ("float32", "float64") or held not in ("float32", "float64"):
        raise _damaged(where, "items of an unknown type")
    if len(turns) != len(sizes) or sum(size << at for at, size in enumerate(sizes)) != rows or sum(sizes) > _MAX_ITEMS:
        raise _damaged(where, "levels that do not add up")
    finite = cursor.take("whole", elements).astype(np.int64)
    if ((finite < 0) | (finite > rows)).any():
        raise _damaged(where, "more finite values than rows")
    levels = []
    for at, size in enumerate(sizes):
        level = cursor.take(dtype, elements * size).reshape(elements, size).astype(held)
        if np.isinf(level).any():
            raise _damaged(where, "items that are infinite")
        levels.append(np.sort(level, axis=1) if at else level)
    return Sketch(tuple(levels), tuple(turns), rows, finite)


def _read_arrays(data: bytes, where: str) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name, dtype in _ARRAYS.items():
                member = archive.getinfo(f"{name}.npy")
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(data):
                    raise _damaged(where, f"{name} is compressed")
                arrays[name] = _flat(archive.read(member), np.dtype(dtype), where)
    except FormatError:
        raise
    except Exception as error:  # zipfile raises half a dozen kinds on bytes that are no archive
        raise _damaged(where, f"{type(error).__name__}: {error}"[:200]) from error
    return arrays


def _flat(raw: bytes, dtype: np.dtype[Any], where: str) -> npt.NDArray[Any]:
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise _damaged(where, f"array version {version}")
    shape, _, found = np.lib.format.read_array_header_1_0(stream, max_header_size=1_000)
    start = stream.tell()
    if found != dtype or len(shape) != 1 or shape[0] * dtype.itemsize != len(raw) - start:
        raise _damaged(where, f"an array of {found} with shape {shape}")
    return np.frombuffer(raw, dtype, offset=start)
