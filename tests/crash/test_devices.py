"""Devices that fail or are slow, and what lies in the folder that nobody expects. Nothing is lost or shifted."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from crash.faults import copy_tree
from crash.identity import CAMERAS
from crash.lanes import SOAK, note, require
from crash.stops import AFTERWARDS, recover_once, resume
from crash.story import ENCODERS, FEATURES, Progress, Take, Teller, frame, read_takes, task, verify
from rolltape.errors import EncodeError, RecordError, RolltapeError
from rolltape.write import Writer, cameras, find_takes

TIMES_TOO_SLOW = 5
SLOW_SECONDS = 20.0 if SOAK else 3.0


def create(root: Path, fps: int = 10, **options: Any) -> Writer:
    return Writer.create(
        root, fps, FEATURES, rgb_encoder=ENCODERS["h264"], episode_fields={"operator": "string"}, **options
    )


class Wrapped:
    """An encoder that does something before each frame."""

    def __init__(self, encoder: Any, before: Callable[[int], None]) -> None:
        self._encoder = encoder
        self._before = before
        self._frames = 0

    def put(self, picture: np.ndarray[Any, Any]) -> None:
        self._before(self._frames)
        self._frames += 1
        self._encoder.put(picture)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


@contextlib.contextmanager
def encoders(before: Callable[[str, int], None]) -> Iterator[None]:
    """Call something with the camera and the frame's number before each frame of every encoder."""
    plain = cameras.open_encoder

    def wrapped(feature: Any, *arguments: Any, **options: Any) -> Any:
        return Wrapped(plain(feature, *arguments, **options), lambda frame: before(feature.name, frame))

    cameras.open_encoder = wrapped
    try:
        yield
    finally:
        cameras.open_encoder = plain


@pytest.mark.parametrize("spool", [0, 2])
@pytest.mark.parametrize("camera", CAMERAS)
@pytest.mark.parametrize("at", [0, 4, 11])
def test_camera_thread_that_raises(tmp_path: Path, camera: str, at: int, spool: int) -> None:
    """The take ends with an error that names the camera; what was saved is whole, and the next take is recorded."""
    root = tmp_path / "set"
    broken = [False]

    def fail(name: str, frame: int) -> None:
        if broken[0] and (name, frame) == (camera, at):
            raise RuntimeError("the driver lost the device")

    teller = Teller()
    with encoders(fail), create(root, spool_seconds=spool) as writer:
        teller.record(writer, Take(1, 5), fields={"operator": "ann"})
        broken[0] = True
        with pytest.raises(EncodeError, match="lost the device") as raised:
            teller.record(writer, Take(2, 12))
        assert camera in str(raised.value)
        broken[0] = False
        verify(root, [teller.progress.saved])
        teller.discard(writer)
        teller.record(writer, Take(4, 6), fields={"operator": "cy"})
    verify(root, [(Take(1, 5), Take(4, 6))], checked=True)


def test_camera_that_failed_leaves_a_take_to_recover(tmp_path: Path) -> None:
    """Left instead of discarded, the take comes back up to the last frame that every camera has."""
    root = tmp_path / "set"

    def fail(name: str, frame: int) -> None:
        if (name, frame) == (CAMERAS[1], 30):
            raise RuntimeError("the driver lost the device")

    teller = Teller()
    with encoders(fail):
        writer = create(root)
        with pytest.raises(EncodeError):
            teller.record(writer, Take(5, 60))
        writer.leave_episode()
        writer.close()
    (take,) = find_takes(root)
    assert 20 <= take.frames <= 30
    takes = recover_once(root, Progress(taken=Take(5, 60)))
    assert takes == (Take(5, take.frames),)


@pytest.mark.parametrize("spool", [0.0, 40.0])
def test_encoder_that_is_five_times_too_slow(tmp_path: Path, spool: float) -> None:
    """Without a spool the loop waits, with one it does not; nothing is lost or shifted either way."""
    began = time.monotonic()
    root, fps = tmp_path / "set", 50
    frames = min(500, int(SLOW_SECONDS * fps / TIMES_TOO_SLOW))
    slow = TIMES_TOO_SLOW / fps
    with encoders(lambda name, frame: time.sleep(slow)):
        writer = create(root, fps, spool_seconds=spool, queue_frames=5)
        started = time.monotonic()
        add(writer, 5, frames)
        adding = time.monotonic() - started
        writer.save_episode()
        writer.finalize()
    verify(root, [(Take(5, frames),)], checked=True)
    if spool:
        assert adding < frames * slow / 2, "the loop waited although there was room in the spool"
    else:
        assert adding > (frames - 10) * slow / 2
    note(f"soak-slow-encoder-{'spool' if spool else 'plain'}", began, frames=frames, seconds_adding=round(adding, 2))


def add(writer: Writer, take: int, frames: int) -> None:
    for number in range(frames):
        add_one(writer, take, number)


def test_full_spool_of_a_robot_ends_the_take(tmp_path: Path) -> None:
    """A robot is not stopped for an encoder: the take ends with an error, and what was recorded can be saved."""
    root, fps = tmp_path / "set", 50
    with encoders(lambda name, frame: time.sleep(0.1)):
        writer = create(root, fps, spool_seconds=0.4, on_full="error")
        done = 0
        said = ""
        while not said and done < 500:
            try:
                add_one(writer, 5, done)
                done += 1
            except (EncodeError, RecordError) as error:
                said = str(error).lower()
        assert "spool" in said or "behind" in said, said
        assert done >= 0.4 * fps
        writer.save_episode()
        writer.finalize()
    verify(root, [(Take(5, done),)], checked=True)


def add_one(writer: Writer, take: int, number: int) -> None:
    writer.add_frame(frame(take, number), task=task(take, number))


# What a power cut or another program leaves.


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two episodes and an open take of 50 frames, as a killed process leaves it."""
    room = tmp_path_factory.mktemp("killed")
    teller = Teller()
    writer = create(room / "set", 25)
    teller.record(writer, Take(1, 5), fields={"operator": "ann"})
    teller.record(writer, Take(3, 4), fields={"operator": "bo"})
    for number in range(50):
        add_one(writer, 9, number)
        time.sleep(0.01)
    time.sleep(0.3)
    copy_tree(room / "set", room / "killed")
    writer.discard_episode()
    writer.close()
    return room / "killed"


COMMITTED = (Take(1, 5), Take(3, 4))


def recovered(root: Path) -> int:
    """Recover, and return how many frames of the open take came back."""
    takes = recover_once(root, Progress(saved=COMMITTED, taken=Take(9, 50)))
    return takes[-1].frames if takes[-1].number == 9 else 0


def rows_file(root: Path) -> Path:
    return next(root.glob(".rolltape/takes/*/rows.arrow"))


def test_the_open_take_comes_back(killed: Path, tmp_path: Path) -> None:
    shutil.copytree(killed, tmp_path / "set")
    assert recovered(tmp_path / "set") >= 30


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95, 1.0])
def test_zeroed_tail_of_the_rows(killed: Path, tmp_path: Path, share: float) -> None:
    """A power cut leaves zeros where data had not been written: they are not taken for rows."""
    root = tmp_path / "set"
    shutil.copytree(killed, root)
    data = rows_file(root).read_bytes()
    cut = int(len(data) * (1 - share))
    rows_file(root).write_bytes(data[:cut] + bytes(len(data) - cut))
    back = recovered(root)
    assert back <= 50 * (1 - share) + 1


def test_flipped_bytes_of_the_rows(killed: Path, tmp_path: Path) -> None:
    """Recovery stops at the first batch that cannot prove itself; whatever comes back is right."""
    rng = np.random.default_rng(3)
    for number in range(12):
        root = tmp_path / str(number)
        shutil.copytree(killed, root)
        data = bytearray(rows_file(root).read_bytes())
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        rows_file(root).write_bytes(bytes(data))
        recovered(root)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("zeros", [False, True])
def test_torn_tail_of_a_video(killed: Path, tmp_path: Path, share: float, zeros: bool) -> None:
    """A camera that got less to the disk than the others makes the episode shorter, never misaligned."""
    root = tmp_path / "set"
    shutil.copytree(killed, root)
    video = sorted(root.glob(".rolltape/takes/*/*.mp4"))[1]
    data = video.read_bytes()
    cut = int(len(data) * share)
    video.write_bytes(data[:cut] + (bytes(len(data) - cut) if zeros else b""))
    assert recovered(root) <= 50 * share + 6


def test_orphan_files_then_a_commit(tmp_path: Path) -> None:
    """Files of another program under the next numbers are neither used, nor overwritten, nor deleted."""
    root = tmp_path / "set"
    teller = Teller()
    with create(root) as writer:
        teller.record(writer, Take(1, 5), fields={"operator": "ann"})
    orphan_data = root / "data/chunk-000/file-007.parquet"
    shutil.copy(root / "data/chunk-000/file-000.parquet", orphan_data)
    orphan_video = root / f"videos/{CAMERAS[0]}/chunk-000/file-009.mp4"
    shutil.copy(next((root / f"videos/{CAMERAS[0]}").rglob("*.mp4")), orphan_video)
    before = orphan_data.read_bytes(), orphan_video.read_bytes()
    writer = resume(root, "drop")
    teller.record(writer, Take(3, 4), fields={"operator": "bo"})
    writer.finalize()
    verify(root, [(Take(1, 5), Take(3, 4))])
    assert (orphan_data.read_bytes(), orphan_video.read_bytes()) == before
    numbers = sorted(int(path.stem[5:]) for path in (root / "data/chunk-000").iterdir())
    assert numbers[-1] > 7
    assert max(int(path.stem[5:]) for path in (root / f"videos/{CAMERAS[0]}/chunk-000").iterdir()) > 9


@pytest.mark.parametrize("workers", [False, True], ids=["read-before", "not-read-before"])
def test_open_reader_across_a_pack(tmp_path: Path, workers: bool) -> None:
    """A reader that opened the dataset before packing gives the same pictures during and after it."""
    root = tmp_path / "set"
    teller = Teller()
    writer = create(root)
    teller.record(writer, Take(1, 5), fields={"operator": "ann"})
    teller.record(writer, Take(3, 4), fields={"operator": "bo"})
    reader = rolltape.open(root)
    if not workers:
        read_takes(reader)
    assert writer.pack(keep_old=True) == 4
    assert read_takes(reader) == COMMITTED
    teller.record(writer, Take(4, 6), fields={"operator": "cy"})
    assert read_takes(reader) == COMMITTED
    writer.finalize()  # here the old videos go
    try:
        assert read_takes(reader) == COMMITTED
    except RolltapeError as error:
        require("missing" in str(error))  # said, never another picture
    verify(root, [(*COMMITTED, Take(4, 6))], checked=True)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "set"
    teller = Teller()
    with create(root) as writer:
        teller.record(writer, Take(1, 5), fields={"operator": "ann"})
        add_one(writer, 3, 0)
        with pytest.raises(RolltapeError, match="Another writer"):
            resume(root, "drop")
        writer.discard_episode()
        teller.record(writer, AFTERWARDS)
    verify(root, [(Take(1, 5), AFTERWARDS)], checked=True)
