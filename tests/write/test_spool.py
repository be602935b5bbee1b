"""The spool: a ring on a mapped file, and what is in the file when nobody is there any more."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from rolltape.errors import ClosedError, CommitError, EncodeError, UsageError
from rolltape.format import Feature
from rolltape.store import local
from rolltape.write import Writer, cameras, find_takes, recover_takes
from rolltape.write.ring import FrameCount, Ring
from rolltape.write.spool import Spool, read_spool
from rolltape.write.take_note import SpoolNote
from sample import FRONT, WRIST
from write.killed import CASES, DEPTH, FPS, check_frames, frame, task
from write.recordings import ONE_CAMERA, TABLES, add, camera, check_whole, create, leftovers

COLOUR = Feature("front", "video", (5, 7, 3))
DEPTHS = Feature("depth", "image", (5, 7, 1), info={"is_depth_map": True})
UINT8 = np.dtype(np.uint8)


def made(tmp_path: Path, feature: Feature = COLOUR, *, seconds: float = 2, fps: float = 10, **options: Any) -> Spool:
    spool = Spool(feature, tmp_path / f"{feature.name}.spool", seconds=seconds, fps=fps, held=3, **options)
    spool.begin(FrameCount(), UINT8 if feature is COLOUR else np.dtype(np.uint16))
    return spool


def picture(number: int) -> np.ndarray[Any, Any]:
    return np.arange(105, dtype=np.uint8).reshape(5, 7, 3) + np.uint8(number % 100)


def put(ring: Ring, number: int) -> None:
    ring.put(picture(number))
    ring.count.value += 1
    ring.wake()


def found(spool: Spool, note: SpoolNote | None = None) -> dict[int, np.ndarray[Any, Any]]:
    space, frames = read_spool(spool.path.parent, note or spool.note())
    try:
        return {number: frame() for number, frame in frames.items()}
    finally:
        frames.clear()
        if space is not None:
            space.close()


def test_frames_come_in_order_and_stay_in_the_file(tmp_path: Path) -> None:
    spool = made(tmp_path)
    for number in range(12):
        put(spool, number)
        one = spool.peek()
        assert one is not None
        assert np.array_equal(one, picture(number))
        spool.release(1)
    left = found(spool)
    assert set(left) == set(range(12))
    assert all(np.array_equal(left[number], picture(number)) for number in left)


def test_slots_are_used_again_once_their_frames_are_surely_in_the_video(tmp_path: Path) -> None:
    """A packet that was just written may still be in the video file's buffers, so its frame is kept for longer."""
    spool = made(tmp_path)
    for number in range(300):
        put(spool, number)
        assert spool.peek() is not None
        spool.release(1)
        left = found(spool) if number % 50 == 49 else None
        if left is not None:
            assert set(range(number - 2, number + 1)) <= set(left)
            assert all(np.array_equal(left[one], picture(one)) for one in left)
    assert spool.path.stat().st_size < 300 * 105


def test_a_full_spool_makes_a_simulator_wait(tmp_path: Path) -> None:
    spool = made(tmp_path, seconds=0.5)
    done = threading.Event()

    def fill() -> None:
        for number in range(40):
            put(spool, number)
        spool.end()
        done.set()

    thread = threading.Thread(target=fill)
    thread.start()
    assert not done.wait(0.1)
    seen = 0
    while (one := spool.peek()) is not None:
        assert np.array_equal(one, picture(seen))
        seen += 1
        spool.release(1)
    thread.join()
    assert seen == 40


@pytest.mark.parametrize("kind", ["spool", "ring"])
def test_a_full_one_is_an_error_for_a_robot(tmp_path: Path, kind: str) -> None:
    ring: Ring = (
        made(tmp_path, seconds=0.5, on_full="error") if kind == "spool" else Ring(FrameCount(), room=5, on_full="error")
    )

    def fill() -> None:
        for number in range(40):
            put(ring, number)

    with pytest.raises(EncodeError, match="save_episode keeps them"):
        fill()
    assert 5 <= ring.count.value < 40


def test_a_frame_that_was_interrupted_is_put_again(tmp_path: Path) -> None:
    spool = made(tmp_path)
    spool.put(picture(50))
    spool.put(picture(0))
    spool.count.value += 1
    spool.end()
    one = spool.peek()
    assert one is not None
    assert np.array_equal(one, picture(0))
    assert spool.peek() is None
    with pytest.raises(ClosedError):
        put(spool, 1)


def test_the_next_take_does_not_see_the_frames_of_the_last(tmp_path: Path) -> None:
    spool = made(tmp_path)
    for number in range(5):
        put(spool, number)
    old = spool.note()
    spool.begin(FrameCount(), UINT8)
    put(spool, 70)
    assert set(found(spool)) == {0}
    assert np.array_equal(found(spool)[0], picture(70))
    assert found(spool, old) == {}


def test_depth_of_either_unit_has_room(tmp_path: Path) -> None:
    spool = Spool(DEPTHS, tmp_path / "depth.spool", seconds=1, fps=10, held=0)
    for dtype in (np.uint16, np.float32):
        spool.begin(FrameCount(), np.dtype(dtype))
        values = (np.arange(35).reshape(5, 7) * 1.5).astype(dtype)
        spool.put(values)
        spool.count.value += 1
        assert np.array_equal(found(spool)[0], values)
        assert found(spool)[0].dtype == dtype


def test_damaged_slots_do_not_count(tmp_path: Path) -> None:
    """A page of zeros, a flipped byte, a number that was taken away: the frame is not there; a wrong one never is."""
    spool = made(tmp_path)
    for number in range(12):
        put(spool, number)
    data = spool.path.read_bytes()
    note = spool.note()
    random = np.random.default_rng(0)
    for _ in range(200):
        at = int(random.integers(4096, len(data)))
        damaged = bytearray(data)
        if random.random() < 0.5:
            damaged[at] ^= 1 << int(random.integers(8))
        else:
            damaged[at : at + 300] = bytes(len(damaged[at : at + 300]))
        spool.path.write_bytes(damaged)
        for number, one in found(spool, note).items():
            assert np.array_equal(one, picture(number))
    spool.path.write_bytes(data[:5000])
    assert found(spool, note) == {}
    spool.path.write_bytes(b"")
    assert found(spool, note) == {}
    spool.path.unlink()
    assert found(spool, note) == {}


def test_no_room_for_the_spool_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set"

    def full(path: Path, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(local, "allocate_file", full)
        with pytest.raises(CommitError, match=r"spool[\s\S]*front[\s\S]*MiB[\s\S]*spool_seconds") as caught:
            create(root, spool_seconds=5)
        assert caught.value.errno == errno.ENOSPC
    with create(root, spool_seconds=5) as writer:
        add(writer, 2)
        writer.save_episode()
    check_whole(root, 1, 2)


@pytest.mark.parametrize("seconds", [-1, 1e9, True, "5"])
def test_senseless_spools_are_refused(tmp_path: Path, seconds: Any) -> None:
    with pytest.raises(UsageError, match="spool_seconds"):
        create(tmp_path / "set", spool_seconds=seconds)
    with pytest.raises(UsageError, match="on_full"):
        create(tmp_path / "set", on_full="drop")


def test_one_spool_serves_all_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_files: list[str] = []
    real = local.allocate_file

    def spy(path: Path, size: int) -> None:
        made_files.append(path.name)
        real(path, size)

    monkeypatch.setattr(local, "allocate_file", spy)
    root = tmp_path / "set"
    with create(root, {**ONE_CAMERA, **camera(WRIST, "image")}, spool_seconds=1, commit_every=2) as writer:
        for length in (3, 4, 2):
            add(writer, length, {**ONE_CAMERA, **camera(WRIST, "image")})
            open_takes = sorted((root / ".rolltape/takes").iterdir(), key=lambda path: int(path.name))
            assert {path.name for path in open_takes[-1].glob("*.spool")} == {f"{FRONT}.spool", f"{WRIST}.spool"}
            writer.save_episode()
    assert len(made_files) == 2
    check_whole(root, 3, 9, [FRONT, WRIST])
    assert leftovers(root) == []


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float, gate: threading.Event | None = None) -> None:
    """Make all encoders slow; `gate` ends that."""
    real = cameras.CameraTake._prepared

    def late(self: cameras.CameraTake, one: Any) -> Any:
        if gate is None or not gate.is_set():
            time.sleep(seconds)
        return real(self, one)

    monkeypatch.setattr(cameras.CameraTake, "_prepared", late)


def test_a_slow_encoder_does_not_block_while_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, 0.02)
    root = tmp_path / "set"
    with create(root, spool_seconds=10, queue_frames=1) as writer:
        begin = time.perf_counter()
        add(writer, 60)
        assert time.perf_counter() - begin < 0.9  # the encoder needs 1.2 s
        assert writer.waiting[FRONT] > 10
        writer.save_episode()
    check_whole(root, 1, 60)


@pytest.mark.parametrize("spool", [0, 0.5])
def test_a_robots_take_that_an_encoder_cannot_follow_ends_and_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spool: float
) -> None:
    gate = threading.Event()
    slow(monkeypatch, 0.05, gate)
    root = tmp_path / "set"
    with create(root, on_full="error", queue_frames=5, spool_seconds=spool) as writer:
        with pytest.raises(EncodeError, match=r"cannot keep up[\s\S]*front"):
            add(writer, 200)
        frames = writer.episode_frames
        assert 5 <= frames < 200
        assert writer.take_failed
        with pytest.raises(ClosedError):
            add(writer, 1)
        gate.set()
        writer.save_episode()
        add(writer, 3)
        writer.save_episode()
    check_whole(root, 2, frames + 3)


def test_a_robots_take_that_is_left_comes_back_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spool is full, the error leaves the `with` block, and every frame that was added is there afterwards."""
    root = tmp_path / "set"
    frames = [0]

    def until_it_fails() -> None:
        with Writer.create(root, FPS, CASES["depth"], on_full="error", spool_seconds=1) as writer:
            for number in range(500):
                writer.add_frame(frame("depth", 0, number), task=task(number))
                frames[0] += 1

    with monkeypatch.context() as patch:
        slow(patch, 0.03)
        with pytest.warns(UserWarning, match="rolltape recover"), pytest.raises(EncodeError, match="cannot keep up"):
            until_it_fails()
    (take,) = find_takes(root)
    assert take.frames == frames[0] < 500
    assert take.streams is not None
    assert DEPTH in take.streams
    recover_takes(root, "keep")
    check_frames(root, "depth", [frames[0]])


def test_A18_the_spool_keeps_what_a_dead_encoder_did_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set"
    real = cameras.CameraTake._prepared
    calls = [0]

    def dead(self: cameras.CameraTake, one: Any) -> Any:
        calls[0] += 1
        if calls[0] > 7:
            time.sleep(0.3)
            raise RuntimeError("the encoder has died")
        return real(self, one)

    def until_it_fails() -> None:
        with create(root, spool_seconds=5) as writer:
            for _ in range(1000):
                add(writer, 1, at=writer.episode_frames)
                time.sleep(0.002)

    with monkeypatch.context() as patch:
        patch.setattr(cameras.CameraTake, "_prepared", dead)
        with pytest.warns(UserWarning, match="are kept"), pytest.raises(EncodeError, match="has died"):
            until_it_fails()
    (take,) = find_takes(root)
    assert take.frames > 20
    recover_takes(root, "keep")
    levels_found = rolltape.open(root)
    assert len(levels_found) == take.frames


def test_a_writer_without_cameras_has_no_spool(tmp_path: Path) -> None:
    with create(tmp_path / "set", TABLES, spool_seconds=5) as writer:
        add(writer, 3, TABLES)
        assert leftovers(tmp_path / "set") == ["owner.json"]
        writer.save_episode()
    check_whole(tmp_path / "set", 1, 3, [])
