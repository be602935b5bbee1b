"""Any order of creating, adding, saving, discarding, crashing, recovering, resuming, packing, finalizing and reading.

A crash is a copy of the folder as it is, with which the recording goes on: what a killed process leaves. Short in
`make test`, ten minutes by `make fuzz`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import rolltape
from crash.faults import copy_tree
from crash.lanes import minutes, note, require
from crash.stops import after_recovery, fresh_names
from crash.story import ENCODERS, FEATURES, FPS, Progress, Take, assert_content, frame, read_takes, task
from rolltape.errors import OpenTakeError, RolltapeError
from rolltape.write import Writer

Recover = Literal["keep", "drop"]
SECONDS = 30.0


class Recording(RuleBasedStateMachine):
    """A recording and what is known of it.

    Attributes:
        saved: The takes whose save has returned, in order.
        pending: How many of the last of them may still wait in memory for their group.
        taken: Frames of the open take.
    """

    steps = 0
    crashes = 0

    def __init__(self) -> None:
        super().__init__()
        self.room = Path(tempfile.mkdtemp(prefix="machine"))
        self.serial = 0
        self.root = self.room / "set"
        self.writer: Writer | None = None
        self.saved: tuple[Take, ...] = ()
        self.pending = 0
        self.number = 9
        self.taken = 0
        self.group = 1
        self.options: dict[str, Any] = {}

    @initialize(
        group=st.sampled_from([1, 1, 2]),
        spool=st.sampled_from([0, 0, 1]),
        durability=st.sampled_from(["full", "relaxed"]),
    )
    def create(self, group: int, spool: int, durability: str) -> None:
        self.group = group
        self.options = {
            "rgb_encoder": ENCODERS["h264"],
            "commit_every": group,
            "spool_seconds": spool,
            "durability": durability,
        }
        self.writer = Writer.create(self.root, FPS, FEATURES, episode_fields={"operator": "string"}, **self.options)

    @precondition(lambda self: self.writer and self.number < 63)
    @rule(frames=st.integers(1, 6))
    def add(self, frames: int) -> None:
        assert self.writer is not None
        for number in range(self.taken, self.taken + frames):
            self.writer.add_frame(frame(self.number, number), task=task(self.number, number))
        self.taken += frames

    @precondition(lambda self: self.writer and self.taken)
    @rule()
    def save(self) -> None:
        assert self.writer is not None
        self.writer.save_episode()
        self.saved += (Take(self.number, self.taken),)
        self.pending = (self.pending + 1) % self.group
        self.number, self.taken = self.number + 1, 0

    @precondition(lambda self: self.writer)
    @rule()
    def discard(self) -> None:
        assert self.writer is not None
        self.writer.discard_episode()
        self.number, self.taken = self.number + (self.taken > 0), 0

    @precondition(lambda self: self.writer)
    @rule()
    def save_nothing_or_wrong_frame(self) -> None:
        assert self.writer is not None
        if not self.taken:
            with pytest.raises(RolltapeError):
                self.writer.save_episode()
        with pytest.raises(RolltapeError):
            self.writer.add_frame({"action": 1}, task="x")

    @precondition(lambda self: self.writer)
    @rule(keep_old=st.booleans())
    def pack(self, keep_old: bool) -> None:
        assert self.writer is not None
        self.writer.pack(keep_old=keep_old)
        self.pending = 0

    @precondition(lambda self: self.writer)
    @rule(finalize=st.booleans())
    def end(self, finalize: bool) -> None:
        assert self.writer is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.writer.finalize() if finalize else self.writer.close()
        self.writer = None
        self.number, self.taken, self.pending = self.number + (self.taken > 0), 0, 0
        assert not (self.root / ".rolltape").exists()

    @precondition(lambda self: self.writer)
    @rule(recover=st.sampled_from(["keep", "drop"]), wait=st.booleans())
    def crash(self, recover: Recover, wait: bool) -> None:
        """The process is killed; another one recovers."""
        assert self.writer is not None
        if wait:
            time.sleep(0.12)  # rows get to the disk
        type(self).crashes += 1
        self.serial += 1
        root = self.room / f"set{self.serial}"
        copy_tree(self.root, root)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.writer.close()
        self.writer = None
        shutil.rmtree(self.root)
        self.root = root
        fresh_names()
        progress = Progress(
            saved=self.saved,
            taken=Take(self.number, self.taken) if self.taken else None,
            group=self.pending + 1,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # takes of which nothing can be brought back are said
            self._recover(progress, recover)

    def _recover(self, progress: Progress, recover: Recover) -> None:
        possible = after_recovery(progress, recover)
        if progress.group > 1 and recover == "keep":  # of what waited in memory, takes on the disk come back
            held = len(progress.saved) - progress.group + 1
            possible += [(*progress.saved[:held], *progress.saved[at:]) for at in range(held, len(progress.saved))]
        try:
            try:
                self.writer = Writer.resume(self.root, **self.options)
            except OpenTakeError as error:
                require(error.takes)
                self.writer = Writer.resume(self.root, recover, **self.options)
        except RolltapeError as error:
            require(() in possible, error)
            require(not (self.root / "meta").exists())
            shutil.rmtree(self.root)
            self.writer = Writer.create(self.root, FPS, FEATURES, episode_fields={"operator": "string"}, **self.options)
            takes: tuple[Take, ...] = ()
        else:
            takes = self.seen()
        assert takes in possible, f"found {takes}, possible {possible}"
        self.saved, self.pending = takes, 0
        self.number, self.taken = self.number + 1, 0

    @precondition(lambda self: self.writer is None and self.saved)
    @rule()
    def resume(self) -> None:
        self.writer = Writer.resume(self.root, **self.options)

    @precondition(lambda self: self.writer is None)
    @rule()
    def check(self) -> None:
        if self.saved:
            assert_content(self.root)

    def seen(self) -> tuple[Take, ...]:
        """What a reader sees, every frame decoded and compared."""
        try:
            return read_takes(rolltape.open(self.root))
        except RolltapeError:
            assert not (self.root / "meta/info.json").exists()
            return ()

    @invariant()
    def everything_saved_is_read(self) -> None:
        if self.writer is None and not self.root.exists():
            return
        type(self).steps += 1
        takes = self.seen()
        least = len(self.saved) - self.pending
        assert takes in (self.saved[:least], self.saved), f"saved {self.saved}, read {takes}"

    def teardown(self) -> None:
        if self.writer is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.writer.close()
        shutil.rmtree(self.room, ignore_errors=True)


@pytest.mark.timeout(1500)
def test_any_order_of_everything() -> None:
    began = time.monotonic()
    limit = minutes("ROLLTAPE_FUZZ_MINUTES", SECONDS)
    runs = 0
    while runs == 0 or time.monotonic() - began < limit:
        left = max(1, int((limit - (time.monotonic() - began)) / 0.7))
        run_state_machine_as_test(
            hypothesis.seed(runs)(Recording) if limit == SECONDS else Recording,
            settings=settings(
                max_examples=min(10, left),
                stateful_step_count=25,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        runs += 1
    note("fuzz-machine", began, runs=runs, steps=Recording.steps, crashes=Recording.crashes, faults=0)
    print(f"{runs} runs, {Recording.steps} steps, {Recording.crashes} crashes")
