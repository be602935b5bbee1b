"""How long fuzzing goes on, and what must never come of it: untyped errors, memory or time out of proportion."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crash.lanes import SEED, minutes, note

__all__ = ["GROWTH_KIB", "fuzz"]

GROWTH_KIB = 200 << 10
"""How much more memory a process may ever take, in KiB: the files here are a few KiB."""
SLOW_S = 20.0
_LANES = 6
"""`make fuzz` gives its minutes to all lanes together."""


def fuzz(lane: str, seconds: float, once: Callable[[random.Random], str]) -> None:
    """Call something with random numbers until the time is up.

    Args:
        lane: The lane's name.
        seconds: How long in `make test`.
        once: One try; returns what came of it, for counting.
    """
    began = time.monotonic()
    limit = minutes("ROLLTAPE_FUZZ_MINUTES", seconds * _LANES) / _LANES
    outcomes: dict[str, int] = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    number, start = 0, SEED if limit == seconds else random.SystemRandom().randrange(1 << 30)
    while time.monotonic() - began < limit:
        seed = f"{start} {number}"
        with _noted(f"lane {lane}, seed {seed!r}"):
            tried = time.monotonic()
            outcome = once(random.Random(seed))
            assert time.monotonic() - tried < SLOW_S, "it took very long"
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < GROWTH_KIB, f"memory grew by {grown >> 10} MiB"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        number += 1
    note(f"fuzz-{lane}", began, tries=number, outcomes=dict(sorted(outcomes.items())), untyped_errors=0)
    print(lane, number, outcomes)
    assert number >= 5


@contextmanager
def _noted(text: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(text)
        raise
