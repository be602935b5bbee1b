"""How much of it runs: a seeded sample in `make test`, all of it in `make soak`, and the figures that leaves behind."""

from __future__ import annotations

import json
import os
import platform
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import av

import rolltape

__all__ = ["SEED", "SOAK", "minutes", "note", "require", "sampled"]

_Item = TypeVar("_Item")

SOAK = os.environ.get("ROLLTAPE_SOAK") == "1"
"""Whether everything runs."""
SEED = int(os.environ.get("ROLLTAPE_SEED", "7"))
"""Chooses the sample; another one looks at other points."""


def sampled(items: Sequence[_Item], most: int, *, always: Sequence[_Item] = ()) -> list[_Item]:
    """Return all items in the soak, else a seeded sample and those that are always looked at, in their order."""
    if SOAK:
        return list(items)
    chosen = set(random.Random(SEED).sample(range(len(items)), min(most, len(items))))
    kept = {id(item) for item in always}
    return [item for place, item in enumerate(items) if place in chosen or id(item) in kept]


def minutes(name: str, seconds: float) -> float:
    """Return how long a lane may take, in seconds: as `make fuzz` says, or the given short time."""
    return float(os.environ.get(name, "0")) * 60 or seconds


def require(condition: Any, message: Any = "") -> None:
    """Fail unless a condition holds; for use where an error is being handled, whose type is not the question."""
    assert condition, message


def note(lane: str, began: float, **figures: Any) -> None:
    """Write a lane's figures as JSON, where `ROLLTAPE_RESULTS` names a folder."""
    folder = os.environ.get("ROLLTAPE_RESULTS")
    if not folder:
        return
    found = {
        "lane": lane,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 1),
        "soak": SOAK,
        "seed": SEED,
        **figures,
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "av": av.__version__,
            "rolltape": rolltape.__version__,
        },
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / f"{lane}.json").write_text(json.dumps(found, indent=2) + "\n")
