"""What a scene file says of its own episodes: where objects lie after a reset, and what counts as a success.

Both stand in the MJCF's `<custom>` element as `<numeric>`, so that a scene needs no code beside it:

- `rolltape.place.BODY`: x min, x max, y min, y max, yaw min, yaw max (metres, radians; the height stays as it is);
- `rolltape.lift.BODY`: height, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rolltape.errors import FormatError

__all__ = ["Lift", "Placement", "read_lifts", "read_placements"]

_PLACE, _LIFT = "rolltape.place.", "rolltape.lift."


@dataclass(frozen=True)
class Placement:
    """The range in which a free body lies after a reset.

    Attributes:
        body: The body's name.
        address: Where its seven numbers start in `qpos`.
        low: Smallest x, y (metres) and yaw (radians).
        high: Largest x, y and yaw.
    """

    body: str
    address: int
    low: tuple[float, float, float]
    high: tuple[float, float, float]

    def apply(self, qpos: np.ndarray, random: np.random.Generator) -> None:
        """Draw a pose and write it into `qpos`, in place."""
        x, y, yaw = random.uniform(self.low, self.high)
        qpos[self.address : self.address + 2] = (x, y)
        qpos[self.address + 3 : self.address + 7] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))


@dataclass(frozen=True)
class Lift:
    """The rule that an episode succeeds when a body ends up held above the place where it lay.

    Attributes:
        body: The body's name.
        body_id: Its number in the model.
        height: How far above its place, in metres.
        seconds: For how long without a break, up to the end of the episode.
    """

    body: str
    body_id: int
    height: float
    seconds: float


def read_placements(mujoco: Any, model: Any) -> list[Placement]:
    """Return the placements that the scene declares, in the file's order.

    Raises:
        FormatError: A declaration names no free body, or has other than six numbers.
    """
    placements = []
    for body, numbers in _declared(mujoco, model, _PLACE, 6):
        body_id = _body_id(mujoco, model, body, _PLACE)
        joint = int(model.body_jntadr[body_id])
        if joint < 0 or int(model.jnt_type[joint]) != int(mujoco.mjtJoint.mjJNT_FREE):
            raise FormatError(
                "A body that is to be placed has no free joint.", where=f"<numeric name='{_PLACE}{body}'>"
            )
        low, high = (numbers[0], numbers[2], numbers[4]), (numbers[1], numbers[3], numbers[5])
        if any(small > large for small, large in zip(low, high)):
            raise FormatError(
                "A placement's minimum is above its maximum.", where=f"<numeric name='{_PLACE}{body}'>", found=numbers
            )
        placements.append(Placement(body, int(model.jnt_qposadr[joint]), low, high))
    return placements


def read_lifts(mujoco: Any, model: Any) -> list[Lift]:
    """Return the lift rules that the scene declares, in the file's order.

    Raises:
        FormatError: A declaration names no body, or has other than two numbers.
    """
    return [
        Lift(body, _body_id(mujoco, model, body, _LIFT), numbers[0], numbers[1])
        for body, numbers in _declared(mujoco, model, _LIFT, 2)
    ]


def _declared(mujoco: Any, model: Any, prefix: str, size: int) -> list[tuple[str, list[float]]]:
    found = []
    for number in range(model.nnumeric):
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_NUMERIC, number) or ""
        if not name.startswith(prefix):
            continue
        start, count = int(model.numeric_adr[number]), int(model.numeric_size[number])
        numbers = [float(value) for value in model.numeric_data[start : start + count]]
        if count != size:
            raise FormatError(
                "A rule of the scene has the wrong number of values.",
                where=f"<numeric name='{name}'>",
                expected=f"{size} numbers",
                found=f"{count}",
            )
        found.append((name.removeprefix(prefix), numbers))
    return found


def _body_id(mujoco: Any, model: Any, body: str, prefix: str) -> int:
    number = int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, body))
    if number < 0:
        raise FormatError(
            "A rule of the scene names a body that it does not have.", where=f"<numeric name='{prefix}{body}'>"
        )
    return number
