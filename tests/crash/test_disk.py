"""The disk fails at any operation: full (ENOSPC) or broken (EIO), once or from then on. What was refused is said.

A writer is used as people use it: what fails is tried again, then discarded. Nothing that `save_episode` returned from
may be lost, nothing that it refused may be there, and after the disk is well again the recording goes on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rolltape
from crash.conftest import Told
from crash.faults import Layer, Operation, watched
from crash.lanes import note, require, sampled
from crash.stops import fresh_names, recover_once
from crash.story import ENCODERS, FEATURES, FPS, Take, Teller, verify
from rolltape.errors import CommitError, EncodeError, RolltapeError
from rolltape.write import Writer

Find = Callable[..., Told]
TAKES = (Take(1, 5), Take(2, 3), Take(3, 4), Take(4, 6))
DISCARDED = 2


class Refusals:
    """What went wrong in a recording, and how often it was tried again."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    @contextlib.contextmanager
    def expected(self) -> Iterator[None]:
        """An error of the library, or of the file system where there is no dataset to speak of yet."""
        try:
            yield
        except (RolltapeError, OSError) as error:
            require(str(error), "an error without a word")
            self.errors.append(error)


def opened(root: Path, teller: Teller, refusals: Refusals) -> Writer | None:
    """Create or resume, with a few tries."""
    for _ in range(3):
        with refusals.expected():
            if (root / "meta/info.json").exists() or teller.progress.saved:
                return Writer.resume(root, "drop", rgb_encoder=ENCODERS["h264"])
            return Writer.create(
                root, FPS, FEATURES, rgb_encoder=ENCODERS["h264"], episode_fields={"operator": "string"}
            )
    return None


def tell_stubbornly(root: Path, teller: Teller, refusals: Refusals) -> None:
    """Tell a story in spite of errors."""
    writer = opened(root, teller, refusals)
    for take in TAKES:
        if writer is None:
            return
        record_stubbornly(writer, teller, take, refusals)
        if take.number == 3 or writer._session.is_stuck:
            with refusals.expected():
                writer.close()
            writer = opened(root, teller, refusals)
    if writer is not None:
        with refusals.expected():
            writer.pack(keep_old=True)
        with refusals.expected():
            writer.finalize()
        with refusals.expected():
            writer.close()


def record_stubbornly(writer: Writer, teller: Teller, take: Take, refusals: Refusals) -> None:
    """Record one take: what cannot be saved in three tries is discarded."""
    fields = {"operator": {1: "ann", 3: "bo", 4: "cy"}[take.number]} if take.number != DISCARDED else None
    try:
        teller.record(writer, take, save=take.number != DISCARDED, fields=fields)
        return
    except (RolltapeError, OSError) as error:
        refusals.errors.append(error)
    for _ in range(2):
        if teller.progress.taken != take:
            break  # a camera failed while it was recorded
        try:
            if not writer._session.is_stuck:
                verify(writer.root, [teller.progress.saved])  # what was refused is not there
            teller.save(writer, fields) if take.number != DISCARDED else teller.discard(writer)
            return
        except (RolltapeError, OSError) as error:
            refusals.errors.append(error)
    with refusals.expected():
        teller.discard(writer)


def run_with_fault(
    root: Path, at: Operation, code: int, *, stays: bool, report: dict[str, int]
) -> tuple[Teller, Refusals]:
    """Tell the story on a disk that fails at an operation."""
    teller, refusals = Teller(), Refusals()
    fired = [False]

    def fail(operation: Operation) -> None:
        hit = (operation.number, operation.background) == (at.number, at.background)
        if hit or (stays and fired[0]):
            fired[0] = True
            raise OSError(code, os.strerror(code), operation.path)

    fresh_names()
    with watched(Layer(root, fail)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tell_stubbornly(root, teller, refusals)
    report["faults"] = report.get("faults", 0) + fired[0]
    report["refusals"] = report.get("refusals", 0) + len(refusals.errors)
    return teller, refusals


@pytest.mark.parametrize("stays", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
def test_disk_fails_at_each_operation(told: Find, tmp_path: Path, code: int, stays: bool) -> None:
    began = time.monotonic()
    operations = told().sweep.operations
    chosen = sampled(operations, 12, always=[one for one in operations if one.is_packing and one.number % 6 == 0])
    report: dict[str, int] = {}
    for at in chosen:
        root = tmp_path / "set"
        try:
            teller, _ = run_with_fault(root, at, code, stays=stays, report=report)
            assert not any(take.number == DISCARDED for take in teller.progress.saved)
            verify(root, teller.progress.possible)
            if root.exists():
                recover_once(root, teller.progress, recover="drop")
        except BaseException as error:
            error.add_note(f"the disk failed at {at}")
            raise
        shutil.rmtree(root, ignore_errors=True)
    assert report["faults"] > len(chosen) * 0.6
    name = f"soak-disk-{errno.errorcode[code]}-{'stays' if stays else 'once'}"
    note(name, began, points=len(chosen), committed_episodes_lost=0, misaligned_frames=0, **report)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small real file system."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=768k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def test_really_full_disk(small_disk: Path) -> None:
    """Episodes until the disk is full; then room is made, and the refused episode is saved."""
    root, ballast = small_disk / "set", small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    teller, refused = Teller(), 0
    writer = Writer.create(root, FPS, FEATURES, rgb_encoder=ENCODERS["h264"], episode_fields={"operator": "string"})
    for number in range(5, 60):
        try:
            teller.record(writer, Take(number, 30), fields={})
        except (CommitError, EncodeError) as error:
            refused += 1
            require("ENOSPC" in str(error) or "No space" in str(error), error)
            verify(root, [teller.progress.saved])
            if isinstance(error, CommitError) and ballast.exists():
                ballast.unlink()
                teller.save(writer, {})
                continue
            ballast.unlink(missing_ok=True)
            teller.discard(writer)
            if refused > 2:
                break
    assert refused > 2
    assert len(teller.progress.saved) > 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.close()
    verify(root, [teller.progress.saved], checked=True)
    assert rolltape.open(root).num_episodes == len(teller.progress.saved)
