"""What drives a scene: any callable, or a table of actions."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rolltape.errors import FormatError, UsageError

__all__ = ["Hold", "Observation", "Policy", "Trajectory", "load_policy"]

Observation = Mapping[str, np.ndarray]
"""What a robot observes in one tick: `observation.state` float32 [n], `observation.images.NAME` uint8 [h, w, 3]."""

Policy = Callable[[Observation], "np.ndarray | Sequence[float] | None"]
"""Takes an observation and gives the action from this tick on, or None when it is done.

A policy that also has `reset(episode: int)` has it called at the start of every episode, after the scene's own reset.
"""


class Hold:
    """A policy that keeps the controls that the scene starts with.

    Args:
        scene: The scene.
    """

    def __init__(self, scene: Any) -> None:
        self._scene = scene
        self._action: np.ndarray = scene.data.ctrl.astype(np.float32)

    def reset(self, episode: int) -> None:
        """Take the controls that the scene has after its reset."""
        self._action = self._scene.data.ctrl.astype(np.float32)

    def __call__(self, observation: Observation) -> np.ndarray:
        """Return the same action every time."""
        return self._action


class Trajectory:
    """A policy that plays actions from a table, one row a tick, and is done at its end.

    Args:
        actions: float [ticks, actuators], or [episodes, ticks, actuators]: then episode k plays table k modulo their
            number.

    Raises:
        FormatError: The array has another shape, no rows, or numbers that are none.

    Example:
        >>> policy = Trajectory([[0.1, 0.2], [0.3, 0.4]])
        >>> policy({}).tolist(), policy({}).tolist(), policy({})
        ([0.10000000149011612, 0.20000000298023224], [0.30000001192092896, 0.4000000059604645], None)
    """

    def __init__(self, actions: Any) -> None:
        try:
            table = np.asarray(actions, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise FormatError("A trajectory is not a table of numbers.", found=str(error)) from error
        if table.ndim == 2:
            table = table[None]
        if table.ndim != 3 or 0 in table.shape:
            raise FormatError(
                "A trajectory has the wrong shape.",
                expected="[ticks, actuators] or [episodes, ticks, actuators], none of them 0",
                found=list(np.shape(actions)),
            )
        if not np.isfinite(table).all():
            episode, tick, entry = (int(place[0]) for place in np.nonzero(~np.isfinite(table)))
            raise FormatError(
                "A trajectory holds a number that is none.", where=f"episode {episode}, tick {tick}, actuator {entry}"
            )
        self.actions = table
        self._episode, self._tick = 0, 0

    @classmethod
    def load(cls, path: str | Path, names: Sequence[str] | None = None) -> Trajectory:
        """Return the trajectory in a file.

        Args:
            path: `.npy`; `.npz` with one array, or one called `action` or `actions`; or `.csv`.
            names: The action's names. A CSV file whose first row holds names is put in this order (`shoulder_pan` and
                `shoulder_pan.pos` mean the same; other columns are left out).

        Raises:
            UsageError: There is no such file.
            FormatError: It cannot be read, or misses a column.
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise UsageError("There is no trajectory file here.", where=path)
        readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv}
        if path.suffix.lower() not in readers:
            raise FormatError(
                "A trajectory file of an unknown kind.",
                where=path,
                expected=", ".join(readers),
                found=path.suffix or "no suffix",
            )
        try:
            table = readers[path.suffix.lower()](path, names)
        except (OSError, ValueError, EOFError, KeyError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                "The trajectory file cannot be read.", where=path, found=" ".join(str(error).split())
            ) from error
        return cls(table)

    def reset(self, episode: int) -> None:
        """Begin at the first row of this episode's table."""
        self._episode, self._tick = episode % len(self.actions), 0

    def __call__(self, observation: Observation) -> np.ndarray | None:
        """Return the next row, or None after the last one."""
        if self._tick >= self.actions.shape[1]:
            return None
        self._tick += 1
        row: np.ndarray = self.actions[self._episode, self._tick - 1]
        return row


def _read_npy(path: Path, names: Sequence[str] | None) -> Any:
    return np.load(path, allow_pickle=False)


def _read_npz(path: Path, names: Sequence[str] | None) -> Any:
    with np.load(path, allow_pickle=False) as arrays:
        for name in ("action", "actions"):
            if name in arrays.files:
                return arrays[name]
        if len(arrays.files) != 1:
            raise FormatError(
                "The trajectory file holds several arrays.",
                where=path,
                expected="one array, or one called `action`",
                found=", ".join(arrays.files) or "none",
            )
        return arrays[arrays.files[0]]


def _read_csv(path: Path, names: Sequence[str] | None) -> Any:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise FormatError("The trajectory file is empty.", where=path)
    try:
        return [[float(cell) for cell in row] for row in rows]
    except ValueError:
        header, body = [cell.strip() for cell in rows[0]], rows[1:]
    order = list(range(len(header)))
    if names is not None:
        places = {name.rpartition(".")[0] or name: k for k, name in enumerate(header)} | {
            name: k for k, name in enumerate(header)
        }
        missing = [name for name in names if name not in places and name.rpartition(".")[0] not in places]
        if missing:
            raise FormatError(
                "The trajectory file misses columns.", where=path, expected=", ".join(names), found=", ".join(header)
            )
        order = [places[name] if name in places else places[name.rpartition(".")[0]] for name in names]
    return [[float(row[place]) for place in order] for row in body]


def load_policy(target: str, what: str = "policy") -> Any:
    """Return the policy that `module:attribute` names; a class is called without arguments to make one.

    The present folder is searched too, as for `python -m`.

    Args:
        target: `module:attribute`.
        what: What messages call it.

    Raises:
        UsageError: The name has no colon, or there is no such module or attribute, or it cannot be called.
    """
    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"A {what} is named as module:attribute.", expected="my_policies:lift", found=target)
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        value: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The {what} cannot be loaded.", where=target, found=error, fix="Check the name and PYTHONPATH."
        ) from error
    policy = value() if isinstance(value, type) else value
    if not callable(policy):
        raise UsageError(f"The {what} cannot be called.", where=target, found=type(policy).__name__)
    return policy
