"""Which episodes, columns and cameras: every refusal names the value and what would have been right."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rolltape.errors import SelectionError, UnknownFeatureError
from rolltape.format.features import Feature
from rolltape.read.episodes import Episodes, listed
from rolltape.read.expression import evaluate
from rolltape.read.metadata import Metadata

__all__ = ["Where", "choose_cameras", "choose_columns", "choose_episodes", "unknown_feature"]

Int64s = npt.NDArray[np.int64]
Where = str | Callable[[dict[str, Any]], Any]


def choose_episodes(
    meta: Metadata,
    episodes: Iterable[int] | None = None,
    where: Where | None = None,
    split: str | None = None,
    among: Int64s | None = None,
) -> Int64s:
    """Return the positions in `meta.episodes` of the chosen episodes, in the order given.

    Args:
        meta: The dataset's description.
        episodes: Episode numbers; all by default.
        where: A condition on episode fields, or a function that is called with an episode's row.
        split: A name in the `splits` of info.json.
        among: Positions to choose from; all by default.

    Raises:
        SelectionError: A number is negative, too large, given twice or not a number; a condition or split is unknown.
    """
    table = meta.episodes
    places = np.arange(len(table)) if among is None else among
    if split is not None:
        places = places[np.isin(table.index[places], _split(meta, split))]
    if episodes is not None:
        places = _listed(table, episodes, places, narrowed=among is not None or split is not None)
    if where is not None:
        places = places[_matches(table, places, where)]
    return np.asarray(places, np.int64)


def _listed(table: Episodes, episodes: Iterable[int], among: Int64s, *, narrowed: bool) -> Int64s:
    numbers = _whole_numbers(episodes)
    last = int(table.index[-1]) if len(table) else -1
    valid = f"episodes 0 to {last}" if last >= 0 else "no episodes: the dataset is empty"
    bad = [one for one in numbers if not 0 <= one <= last]
    if bad:
        kind = "negative" if bad[0] < 0 else "out of range"
        raise SelectionError(f"Episode {bad[0]} is {kind}.", where="episodes=", expected=valid, found=listed(bad))
    wanted = np.array(numbers, np.int64)
    unique, counts = np.unique(wanted, return_counts=True)
    if len(unique) < len(wanted):
        twice = unique[counts > 1]
        raise SelectionError(
            f"Episode {twice[0]} is given more than once.",
            where="episodes=",
            expected=f"each once, {valid}",
            found=f"more than once: {listed(twice)}",
        )
    places = table.places(wanted)
    lost = wanted[(places < 0) | ~np.isin(places, among)]
    if len(lost):
        what = "is not in the selection" if narrowed else "cannot be read"
        raise SelectionError(
            f"Episode {lost[0]} {what}.",
            where="episodes=",
            expected=f"one of {listed(table.index[np.sort(among)])}",
            found=listed(lost),
        )
    return places


def _whole_numbers(episodes: Iterable[int]) -> list[int]:
    if isinstance(episodes, (str, bytes, Mapping)) or not isinstance(episodes, Iterable):
        raise SelectionError(
            "episodes= is not a list of episode numbers.", where="episodes=", expected="[0, 3, 7]", found=repr(episodes)
        )
    numbers = []
    for one in episodes:
        try:
            if isinstance(one, (bool, np.bool_)):
                raise TypeError
            numbers.append(operator.index(one))
        except TypeError:
            raise SelectionError(
                "An episode is not a whole number.", where="episodes=", found=f"{one!r} ({type(one).__name__})"
            ) from None
    return numbers


def _split(meta: Metadata, name: str) -> Int64s:
    splits = meta.info.splits
    if name not in splits:
        raise SelectionError(
            f"There is no split {name!r}.", where="split=", expected=", ".join(sorted(splits)) or "none are declared"
        )
    numbers: list[Int64s] = []
    for part in str(splits[name]).split(","):
        low, _, high = part.strip().partition(":")
        try:
            begin = int(low) if low else 0
            end = (int(high) if high else int(meta.info.total_episodes)) if ":" in part else begin + 1
        except ValueError:
            raise SelectionError(
                f"The split {name!r} is not a range.", where="meta/info.json, splits", found=repr(splits[name])
            ) from None
        numbers.append(np.arange(begin, min(end, meta.info.total_episodes)))
    return np.concatenate(numbers)


def _matches(table: Episodes, places: Int64s, where: Where) -> npt.NDArray[np.bool_]:
    if isinstance(where, str):
        names = [name for name in table.table.column_names if name.isidentifier()]
        return np.asarray(evaluate(where, table.field, names, len(table))[places], np.bool_)
    if not callable(where):
        raise SelectionError("where= is neither a text nor a function.", where="where=", found=repr(where))
    rows = table.table.take(places).to_pylist()
    return np.array([bool(where(row)) for row in rows], np.bool_)


def unknown_feature(name: object, known: Sequence[str], argument: str) -> UnknownFeatureError:
    """Return the error for a feature that does not exist, with the nearest that do."""
    near = difflib.get_close_matches(str(name), known, 3, 0.5)
    return UnknownFeatureError(
        f"There is no feature {name!r}.",
        where=argument,
        expected=", ".join(known) or "none",
        fix=f"Did you mean {' or '.join(near)}?" if near else None,
    )


def choose_cameras(features: Mapping[str, Feature], cameras: Iterable[str] | None) -> tuple[str, ...]:
    """Return the cameras to read. The last part of a name is enough where it is unique.

    Raises:
        UnknownFeatureError: There is no such camera.
    """
    known = [name for name, feature in features.items() if feature.is_camera]
    if cameras is None:
        return tuple(known)
    if isinstance(cameras, str):
        cameras = [cameras]
    chosen = []
    for name in cameras:
        matches = [name] if name in known else [one for one in known if one.rsplit(".", 1)[-1] == name]
        if len(matches) != 1:
            raise unknown_feature(name, known, "cameras=")
        chosen.append(matches[0])
    return tuple(dict.fromkeys(chosen))


def choose_columns(features: Mapping[str, Feature], columns: Iterable[str] | None) -> tuple[tuple[str, ...], bool]:
    """Return the columns to read, and whether items have the task's text.

    Raises:
        UnknownFeatureError: There is no such column; cameras are chosen with `cameras=`.
    """
    known = [name for name, feature in features.items() if not feature.is_camera]
    if columns is None:
        return tuple(known), "task_index" in known
    if isinstance(columns, str):
        columns = [columns]
    chosen = list(dict.fromkeys(columns))
    for name in chosen:
        if name not in known and name != "task":
            raise unknown_feature(name, [*known, "task"], "columns=")
    return tuple(name for name in known if name in chosen), "task" in chosen
