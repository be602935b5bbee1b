"""The recordings that are stopped everywhere, once for each worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crash.stops import Sweep, fresh_names, stop_everywhere
from crash.story import Teller, Truth, pictures_of, tell


@dataclass(frozen=True)
class Told:
    """A story that was stopped everywhere, and its decoded pictures."""

    sweep: Sweep
    truth: Truth
    root: Path


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Told]:
    """Tell the story with some options, once, and keep all its stops."""
    kept: dict[tuple[Any, ...], Told] = {}

    def find(encoder: str = "h264", **options: Any) -> Told:
        key = (encoder, *sorted(options.items()))
        if key not in kept:
            room = tmp_path_factory.mktemp("told")
            teller = Teller()
            fresh_names()
            sweep = stop_everywhere(
                room / "set",
                room / "copies",
                lambda: tell(room / "set", teller, encoder, **options),
                lambda: teller.progress,
            )
            kept[key] = Told(sweep, pictures_of(room / "set"), room / "set")
        return kept[key]

    return find
