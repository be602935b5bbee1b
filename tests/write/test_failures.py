"""Encoders that fail, full disks, Ctrl-C at any moment: nothing saved is lost, and the message says what to do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from rolltape.errors import ClosedError, CommitError, EncodeError, OpenTakeError
from rolltape.store import Intent, local
from rolltape.write import Writer, cameras, commit, session
from rolltape.write import writer as writer_module
from rolltape.write.interrupts import deferred
from sample import FRONT, WRIST
from write.recordings import (
    ONE_CAMERA,
    TABLES,
    add,
    camera,
    check_whole,
    create,
    files,
    frame,
    leftovers,
    recovered_marks,
    snapshot,
)

TWO_CAMERAS = {**ONE_CAMERA, **camera(WRIST)}


class Wrapped:
    """A real encoder with something done to it before each frame."""

    def __init__(self, inner: Any, before: Callable[[int], bool | None], frames: Callable[[int], int] = int) -> None:
        self.inner, self.before, self.frames, self.number = inner, before, frames, 0

    @property
    def taken(self) -> int:
        return self.number

    def put(self, picture: np.ndarray[Any, Any]) -> None:
        number = self.number
        self.number += 1
        if self.before(number) is not False:
            self.inner.put(picture)

    def close(self) -> Any:
        self.before(-1)
        return Said(self.frames(self.inner.close().frames))

    def abort(self) -> None:
        self.inner.abort()


@dataclass
class Said:
    frames: int


def wrap(monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[int], bool | None]) -> None:
    real = cameras.open_encoder

    def opened(feature: Any, *args: Any) -> Any:
        encoder = real(feature, *args)
        return Wrapped(encoder, before) if feature.name == name else encoder

    monkeypatch.setattr(cameras, "open_encoder", opened)


def broken(at: int) -> Callable[[int], None]:
    def before(number: int) -> None:
        if number == at:
            raise RuntimeError("the encoder has died")

    return before


def add_and_save(writer: Writer, length: int) -> None:
    for _ in range(length):
        add(writer, 1, TWO_CAMERAS)
        time.sleep(0.001)
    writer.save_episode()


@pytest.mark.parametrize("at", [0, 3, -1])
def test_A18_a_failing_encoder_costs_only_its_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    root = tmp_path / "set"
    with create(root, TWO_CAMERAS) as writer:
        add(writer, 5, TWO_CAMERAS)
        writer.save_episode()
        before = snapshot(root)
        with monkeypatch.context() as patch:
            wrap(patch, WRIST, broken(at))
            with pytest.raises(EncodeError, match=r"wrist[\s\S]*has died[\s\S]*discard_episode"):
                add_and_save(writer, 1 if at < 0 else 200)
        with pytest.raises((EncodeError, ClosedError)):
            add(writer, 1, TWO_CAMERAS)
        with pytest.raises(EncodeError, match="wrist"):
            writer.save_episode()
        assert snapshot(root) == before
        writer.discard_episode()
        add(writer, 4, TWO_CAMERAS)
        writer.save_episode()
    check_whole(root, 2, 9, [FRONT, WRIST])


def test_A18_closing_with_a_failed_encoder_keeps_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "set"
    writer = create(root)
    add(writer, 5)
    writer.save_episode()
    wrap(monkeypatch, FRONT, broken(0))
    add(writer, 1)
    with pytest.warns(UserWarning, match="not saved"):
        writer.finalize()
    monkeypatch.undo()
    check_whole(root, 1, 5)
    assert not (root / ".rolltape").exists()


@pytest.mark.parametrize("dtype", ["video", "image"])
def test_A22_a_lost_picture_is_an_error_with_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    root = tmp_path / "set"
    features = {**TABLES, **camera(FRONT), **camera(WRIST, dtype)}
    wrap(monkeypatch, WRIST, lambda number: number != 2)
    with create(root, features) as writer:
        add(writer, 6, features)
        with pytest.raises(EncodeError, match=r"wrist[\s\S]*6 pictures[\s\S]*5"):
            writer.save_episode()
        assert all(one.startswith(".rolltape") for one in files(root))
        writer.discard_episode()
        monkeypatch.undo()
        add(writer, 4, features)
        writer.save_episode()
    check_whole(root, 1, 4, [FRONT, WRIST])


def test_a_picture_that_cannot_be_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = {**TABLES, **camera(FRONT, "image")}

    def fail(picture: Any, is_depth: bool) -> bytes:
        raise MemoryError("no memory for a PNG")

    with create(tmp_path / "set", features) as writer:
        monkeypatch.setattr(cameras, "encode_picture", fail)
        writer.add_frame(frame(features, 0, 0, 0), task="t")
        with pytest.raises(EncodeError, match="no memory"):
            writer.save_episode()
        writer.discard_episode()
        monkeypatch.undo()
        add(writer, 2, features)
        writer.save_episode()
    check_whole(tmp_path / "set", 1, 2)


def test_a_slow_encoder_makes_the_caller_wait_and_drops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap(monkeypatch, FRONT, lambda number: time.sleep(0.005))
    with create(tmp_path / "set", queue_frames=2) as writer:
        for number in range(20):
            add(writer, 1, at=0) if number == 0 else writer.add_frame(frame(ONE_CAMERA, 0, number, number), task="t")
            assert writer.waiting[FRONT] <= 2
        writer.save_episode()
    check_whole(tmp_path / "set", 1, 20)


MUTATIONS = ("write_file", "rename", "link", "fsync_file", "fsync_folder", "make_folder")


def is_of_a_take(*paths: Any) -> bool:
    """Whether an operation concerns the open take alone, or comes from the threads that keep it."""
    background = threading.current_thread() is not threading.main_thread()
    return background or any("takes" in Path(path).parts for path in paths if isinstance(path, (str, os.PathLike)))


@contextmanager
def failing(operation: str, which: int) -> Iterator[list[int]]:
    """Let one call of a file-system operation of a commit fail; the list has the number of calls."""
    real = getattr(local, operation)
    calls = [0]

    def fail(*args: Any, **options: Any) -> Any:
        if is_of_a_take(*args):
            return real(*args, **options)
        calls[0] += 1
        if calls[0] == which + 1:
            raise OSError(28, "No space left on device", str(args[0]))
        return real(*args, **options)

    setattr(local, operation, fail)
    try:
        yield calls
    finally:
        setattr(local, operation, real)


def failure(writer: Writer) -> CommitError | None:
    """Save the open episode and return how that failed."""
    try:
        writer.save_episode()
    except CommitError as error:
        return error
    return None


@pytest.mark.parametrize("operation", MUTATIONS)
def test_a_commit_that_fails_leaves_the_dataset_as_it_was(tmp_path: Path, operation: str) -> None:
    """Every call of every operation fails once; each time the root is as before, and the same episode is saved then."""
    root = tmp_path / "set"
    with create(root, durability="full") as writer:
        add(writer, 2)
        writer.save_episode()
        failures, which = 0, 0
        while True:
            before, tree = snapshot(root), set(os.listdir(root))
            add(writer, 2)
            with failing(operation, which) as calls:
                error = failure(writer)
            if error is not None:
                failures += 1
                assert error.errno == 28
                assert "as it was before" in str(error)
                assert snapshot(root) == before
                assert set(os.listdir(root)) == tree
                assert Intent.read(root) is None
                assert writer.total_episodes == which + 1
                writer.save_episode()
            assert leftovers(root) == ["owner.json"]
            assert writer.total_episodes == which + 2
            which += 1
            if calls[0] < which:
                break
        assert failures > 0 or operation == "make_folder"
    check_whole(root, which + 1, 2 * (which + 1))


@pytest.mark.parametrize("which", range(0, 9, 2))
@pytest.mark.parametrize("operation", ["rename", "write_file"])
def test_the_first_commit_that_fails_leaves_no_dataset(tmp_path: Path, operation: str, which: int) -> None:
    root = tmp_path / "set"
    with create(root, durability="full") as writer:
        add(writer, 3)
        with failing(operation, which) as calls:
            failed = failure(writer) is not None
            assert not failed or os.listdir(root) == [".rolltape"]
        assert failed == (calls[0] > which)
        if failed:
            writer.discard_episode()
            assert leftovers(root) == ["owner.json"]
            add(writer, 4)
            writer.save_episode()
            check_whole(root, 1, 4)


def test_a_group_that_fails_keeps_its_other_episodes(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, commit_every=3) as writer:
        for _ in range(2):
            add(writer, 2)
            writer.save_episode()
        add(writer, 5)
        with failing("rename", 4), pytest.raises(CommitError):
            writer.save_episode()
        assert (writer.total_episodes, writer.episode_frames) == (2, 5)
        with pytest.raises(ClosedError):
            add(writer, 1)
        writer.discard_episode()
        add(writer, 3)
        writer.save_episode()
    check_whole(root, 3, 7)


@pytest.mark.parametrize("recover", ["drop", "keep"])
def test_rolling_back_that_fails_too_is_finished_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recover: Literal["drop", "keep"]
) -> None:
    """The disk goes away in the middle of a commit; what is on it afterwards is put right when it is opened again."""
    root = tmp_path / "set"
    writer = create(root, durability="full")
    add(writer, 2)
    writer.save_episode()
    before = snapshot(root)
    add(writer, 3)
    real = local.rename
    calls = iter(range(1000))

    def gone(source: Path, target: Path) -> None:
        if not is_of_a_take(source, target) and next(calls) >= 4:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(local, "rename", gone)
    with pytest.raises(CommitError):
        writer.save_episode()
    with pytest.raises(ClosedError, match=r"Writer\.resume"):
        writer.save_episode()
    writer.close()
    monkeypatch.undo()
    assert Intent.read(root) is not None
    with pytest.raises(OpenTakeError, match="3 frames"):
        Writer.resume(root, durability="relaxed")
    with Writer.resume(root, recover, durability="relaxed") as again:
        kept = recover == "keep"
        assert kept or snapshot(root) == before
        assert [one.frames for one in again.recovered] == ([3] if kept else [0])
        add(again, 4)
        again.save_episode()
    check_whole(root, *((3, 9) if kept else (2, 6)))


@pytest.mark.parametrize("recover", ["drop", "keep"])
@pytest.mark.parametrize("stop", range(7))
def test_a_commit_that_was_stopped_is_finished_or_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int, recover: Literal["drop", "keep"]
) -> None:
    """The process is gone after so many renames: info.json is old, and made new where the episode row is in place."""
    root = tmp_path / "set"
    writer = create(root, durability="full")
    add(writer, 2)
    writer.save_episode()
    before = snapshot(root)
    add(writer, 3, task="another")
    real = local.rename
    calls = iter(range(1000))

    class Gone(BaseException):
        """Stands for a process that is not there any more."""

    def stopping(source: Path, target: Path) -> None:
        if not is_of_a_take(source, target) and next(calls) > stop:
            raise Gone
        real(source, target)

    monkeypatch.setattr(local, "rename", stopping)
    monkeypatch.setattr("rolltape.write.change.Change._undo", lambda *args: None)
    monkeypatch.setattr("rolltape.write.change.Change.discard", lambda *args: None)
    with pytest.raises(Gone):
        writer.save_episode()
    monkeypatch.undo()
    writer._session._lock.release()
    writer._closed = True
    is_committed = stop >= 6
    with Writer.resume(root, recover, durability="relaxed") as again:
        assert [one.frames for one in again.recovered] == ([] if is_committed else [3] if recover == "keep" else [0])
        is_kept = not is_committed and recover == "keep"
        is_committed = is_committed or is_kept
        assert again.total_episodes == (2 if is_committed else 1)
        if not is_committed:
            assert snapshot(root) == before
        assert leftovers(root) == ["owner.json"]
        check_whole(root, *((2, 5) if is_committed else (1, 2)))
        assert recovered_marks(root) == ([False, is_kept] if is_committed else [False])
        add(again, 1)
        again.save_episode()
    check_whole(root, *((3, 6) if is_committed else (2, 3)))


def interrupt() -> None:
    """What Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_an_interrupt_in_a_commit_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        real = commit.commit
        hits = [0]

        def interrupted(*args: Any, **options: Any) -> Any:
            rename = local.rename

            def renamed(*paths: Path) -> None:
                rename(*paths)
                hits[0] += 1
                interrupt()

            with monkeypatch.context() as patch:
                patch.setattr(local, "rename", renamed)
                return real(*args, **options)

        add(writer, 3)
        with monkeypatch.context() as patch:
            patch.setattr(session, "commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.save_episode()
        assert hits[0] >= 6
        assert writer.total_episodes == 1
        assert writer.episode_frames == 0
        check_whole(root, 1, 3)
        add(writer, 2)
        writer.save_episode()
    check_whole(root, 2, 5)


@pytest.mark.parametrize("place", ["put", "wake", "peek"])
def test_an_interrupted_add_frame_has_happened_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Stopped between two cameras, a frame is in neither of them; so rows and pictures stay equal in number."""
    root = tmp_path / "set"
    with create(root, TWO_CAMERAS) as writer:
        add(writer, 2, TWO_CAMERAS)
        if place != "peek":
            real = getattr(cameras.CameraTake, place)

            def stopped(self: cameras.CameraTake, *args: Any) -> None:
                if self.feature.name == WRIST:
                    raise KeyboardInterrupt
                real(self, *args)

            with monkeypatch.context() as patch:
                patch.setattr(cameras.CameraTake, place, stopped)
                with pytest.raises(KeyboardInterrupt):
                    writer.add_frame(frame(TWO_CAMERAS, 0, 2, 2), task="t")
        for number in range(writer.episode_frames, 5):
            writer.add_frame(frame(TWO_CAMERAS, 0, number, number), task="t")
        writer.save_episode()
    check_whole(root, 1, 5, [FRONT, WRIST])


@pytest.mark.parametrize("phase", ["finish", "prepare", "checked_fields"])
def test_an_interrupted_save_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    root = tmp_path / "set"

    def stopped(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with create(root) as writer:
        add(writer, 4)
        with monkeypatch.context() as patch:
            if phase == "finish":
                patch.setattr(cameras.CameraTake, "finish", stopped)
            else:
                patch.setattr(writer_module, phase, stopped)
            with pytest.raises(KeyboardInterrupt):
                writer.save_episode()
        assert files(root, "meta") == []
        writer.save_episode()
        check_whole(root, 1, 4)
        add(writer, 2)
        writer.save_episode()
    check_whole(root, 2, 6)


def test_an_interrupt_while_add_frame_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder hangs and the ring is full: Ctrl-C still gets through, and the take can be discarded."""
    root = tmp_path / "set"
    go_on = threading.Event()
    wrap(monkeypatch, FRONT, lambda number: go_on.wait(20) and None)
    with create(root, queue_frames=1) as writer:
        timer = threading.Timer(0.3, interrupt)
        timer.start()

        def hang() -> None:
            for number in range(5):
                writer.add_frame(frame(ONE_CAMERA, 0, number, number), task="t")

        with pytest.raises(KeyboardInterrupt):
            hang()
        timer.join()
        go_on.set()
        frames = writer.episode_frames
        assert 1 <= frames < 5
        writer.save_episode()
    check_whole(root, 1, frames)


def test_signals_are_held_back_only_inside() -> None:
    handler = signal.getsignal(signal.SIGINT)
    done = []

    def block() -> None:
        with deferred():
            interrupt()
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is handler
    with deferred(), deferred():
        done.append(2)
    thread = threading.Thread(target=lambda: deferred().__enter__())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handler
