"""Open takes while they are recorded: what is on the disk, what goes away, what failing encoders and disks leave."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from rolltape.errors import ClosedError, CommitError, EncodeError, OpenTakeError
from rolltape.store import local
from rolltape.write import Writer, cameras, find_takes, journal, recover_takes, row_log, session
from rolltape.write.picture_log import append_picture, read_pictures
from sample import FRONT, WRIST
from write.killed import CASES, FPS, check_frames, frame, task
from write.recordings import H264, TABLES, add, camera, check_whole, codes, create, info, leftovers, levels

TWO = {**TABLES, **camera(FRONT), **camera(WRIST)}


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def folder(root: Path, number: int = 0) -> Path:
    return root / ".rolltape/takes" / str(number)


def rows_on_disk(root: Path, number: int = 0) -> int:
    path = folder(root, number) / "rows.arrow"
    return path.stat().st_size if path.exists() else 0


def record(writer: Writer, case: str, episode: int, frames: range) -> None:
    for number in frames:
        writer.add_frame(frame(case, episode, number), task=task(number))


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    names = ("take ", "encoder ")
    mine = [one for one in threading.enumerate() if one.name.startswith(names) and one not in before]
    wait_for(lambda: not any(one.is_alive() for one in mine))


def test_what_an_open_take_leaves_on_the_disk(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TWO, durability="full", episode_fields={"operator": "string"}) as writer:
        add(writer, 5, TWO)
        wait_for(lambda: rows_on_disk(root))
        names = sorted(os.listdir(folder(root)))
        assert names == [f"{FRONT}.mp4", f"{WRIST}.mp4", "rows.arrow", "take.json"]
        note = json.loads((folder(root) / "take.json").read_bytes())
        assert (note["version"], note["episode_index"], note["from_index"]) == (1, 0, 0)
        assert note["fields"] == {"operator": "string"}
        assert note["pid"] == os.getpid()
        assert note["cameras"][FRONT]["encoder"]["vcodec"] == "h264"
        assert note["cameras"][FRONT]["delay_frames"] > 0
        assert set(note["info"]["features"]) >= set(TWO)
        (take,) = find_takes(root)
        assert (take.n, take.streams["rows"] if take.streams else 0) == (0, 5)
        writer.save_episode()
        assert leftovers(root) == ["owner.json"]
        add(writer, 3, TWO)
        assert json.loads((folder(root, 1) / "take.json").read_bytes())["from_index"] == 5
        writer.discard_episode()
        assert leftovers(root) == ["owner.json"]
        add(writer, 2, TWO)
        writer.save_episode()
    check_whole(root, 2, 7, [FRONT, WRIST])


def test_rows_grow_while_the_take_is_open(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        add(writer, 2, TABLES)
        wait_for(lambda: rows_on_disk(root))
        size = rows_on_disk(root)
        assert find_takes(root)[0].frames == 2
        time.sleep(0.25)
        assert rows_on_disk(root) == size
        for number in range(2, 300):
            writer.add_frame({name: np.full(2, number, np.float32) for name in TABLES}, task="lift")
        wait_for(lambda: find_takes(root)[0].frames == 300)
        writer.discard_episode()
        assert find_takes(root) == []


def test_a_short_take_without_cameras_touches_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_GRACE_S", 60)
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        for _ in range(3):
            add(writer, 200, TABLES)
            assert leftovers(root) == ["owner.json"]
            writer.save_episode()
    check_whole(root, 3, 600, [])


def test_A20_a_discarded_take_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    root = tmp_path / "set"
    features = {**TABLES, **camera(FRONT), **camera(WRIST, "image")}
    with create(root, features, spool_seconds=1) as writer:
        add(writer, 8, features, at=100)
        wait_for(lambda: rows_on_disk(root))
        writer.discard_episode()
        add(writer, 5, features)
        wait_for(lambda: rows_on_disk(root, 1))
        writer.save_episode()
        assert not (root / ".rolltape/takes").exists()
    check_whole(root, 1, 5, [FRONT, WRIST])
    assert codes(root) == levels(5)
    assert not (root / ".rolltape").exists()


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_files_are_fsynced_by_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any) -> None:
    synced: list[tuple[str, bool]] = []
    real = local.fsync_file

    def spy(path: Path) -> None:
        synced.append((path.name, threading.current_thread() is threading.main_thread()))
        real(path)

    monkeypatch.setattr(local, "fsync_file", spy)
    monkeypatch.setattr(journal, "SYNC_EVERY_S", 0.05)
    root = tmp_path / "set"
    with create(root, durability=durability) as writer:
        add(writer, 30)
        wanted = {"take.json", "rows.arrow", f"{FRONT}.mp4"}
        if durability == "full":
            wait_for(lambda: wanted <= {name for name, _ in synced})
        else:
            time.sleep(0.4)
        assert not any(here for _, here in synced)
        assert durability == "full" or not synced
        writer.discard_episode()


def test_the_stated_loss(tmp_path: Path) -> None:
    with create(tmp_path / "a", TWO, fps=30) as writer:
        loss = writer.stated_loss_s
        assert set(loss) == {"rows", FRONT, WRIST}
        assert loss["rows"] == 0.2
        assert 0.2 < loss[FRONT] < 0.6
        assert loss.max == loss[FRONT]
    with create(tmp_path / "b", TWO, fps=30, spool_seconds=1) as writer:
        assert set(writer.stated_loss_s.values()) == {0.2}
    with create(tmp_path / "c", TABLES, fps=2) as writer:
        assert writer.stated_loss_s == {"rows": 0.5}


def test_saved_and_not_committed_episodes_come_back_with_their_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is gone before the commit: the take is whole, and the fields are there."""

    class Gone(BaseException):
        """Stands for a process that is not there any more."""

    def gone(*args: Any, **options: Any) -> None:
        raise Gone

    root = tmp_path / "set"
    writer = create(root, TWO, episode_fields={"operator": "string"})
    add(writer, 4, TWO)
    wait_for(lambda: rows_on_disk(root))
    add(writer, 3, TWO, at=4)
    with monkeypatch.context() as patch:
        patch.setattr(session, "commit", gone)
        with pytest.raises(Gone):
            writer.save_episode({"operator": "ann", "score": 0.5})
    writer._rig.close()
    writer._session._lock.release()
    writer._closed = True
    (take,) = find_takes(root)
    assert (take.frames, take.is_saved) == (7, True)
    recover_takes(root, "keep")
    episode = rolltape.open(root).episode(0)
    assert (episode.fields["operator"], episode.fields["score"]) == ("ann", 0.5)
    assert codes(root) == levels(7)


def test_a_group_that_was_not_committed_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `commit_every` saved episodes wait for the others of their group; until then their takes stay."""
    monkeypatch.setattr(journal, "_GRACE_S", 0)
    root = tmp_path / "set"
    writer = create(root, commit_every=3)
    for length in (3, 4):
        add(writer, length)
        wait_for(lambda: rows_on_disk(root, writer.total_episodes))
        writer.save_episode()
    add(writer, 2)
    wait_for(lambda: rows_on_disk(root, 2))
    assert [(take.frames, take.is_saved) for take in find_takes(root)][:2] == [(3, True), (4, True)]
    writer.leave_episode()
    writer._rig.close()
    writer._session._lock.release()
    writer._closed = True
    assert [one.frames for one in recover_takes(root, "keep")] == [3, 4, 2]
    check_whole(root, 3, 9)


def test_a_group_that_is_committed_leaves_no_take(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, commit_every=3) as writer:
        for length in (3, 4):
            add(writer, length)
            writer.save_episode()
        assert len(os.listdir(root / ".rolltape/takes")) == 2
        add(writer, 2)
        writer.save_episode()
        assert leftovers(root) == ["owner.json"]
    check_whole(root, 3, 9)


class Failing:
    """Lets `store.local.append_file` fail for some files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, suffix: str, error: int) -> None:
        self.on = True
        real = local.append_file

        def append(path: Path, data: bytes) -> None:
            if self.on and path.name.endswith(suffix):
                raise OSError(error, os.strerror(error), str(path))
            real(path, data)

        monkeypatch.setattr(local, "append_file", append)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_takes_no_rows_ends_the_take_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    root = tmp_path / "set"
    failing = Failing(monkeypatch, "rows.arrow", error)
    with create(root) as writer:
        add(writer, 3)
        wait_for(lambda: writer.take_failed)
        with pytest.raises(CommitError, match="save_episode keeps them") as caught:
            add(writer, 1, at=3)
        assert caught.value.errno == error
        with pytest.raises(ClosedError):
            add(writer, 1, at=3)
        assert writer.episode_frames == 3
        writer.save_episode()
        failing.on = False
        add(writer, 4)
        writer.save_episode()
    check_whole(root, 2, 7)


def test_a_disk_that_takes_no_pictures_ends_the_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set"
    features = {**TABLES, **camera(FRONT, "image")}
    failing = Failing(monkeypatch, ".pictures", errno.ENOSPC)

    def fill(writer: Writer) -> None:
        for number in range(1000):
            writer.add_frame(frame_of(features, number), task="t")
            time.sleep(0.002)

    with create(root, features) as writer:
        with pytest.raises(EncodeError, match=r"front[\s\S]*No space left"):
            fill(writer)
        writer.discard_episode()
        failing.on = False
        add(writer, 4, features)
        writer.save_episode()
    check_whole(root, 1, 4)


def frame_of(features: dict[str, Any], number: int) -> dict[str, Any]:
    from write.recordings import frame as one

    return one(features, 0, number, number)


def test_a_fsync_that_fails_ends_the_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "set"
    real = local.fsync_file

    def fail(path: Path) -> None:
        if "takes" in path.parts:
            raise OSError(errno.EIO, "Input/output error")
        real(path)

    with create(root, durability="full") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(local, "fsync_file", fail)
            add(writer, 3)
            wait_for(lambda: writer.take_failed)
            with pytest.raises(CommitError, match="Input/output error"):
                add(writer, 1, at=3)
        writer.save_episode()
    check_whole(root, 1, 3)


@pytest.mark.parametrize("operation", ["make_folder", "write_file", "rename"])
def test_a_take_that_cannot_be_opened_is_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    root = tmp_path / "set"
    real = getattr(local, operation)

    def fail(path: Path, *args: Any, **options: Any) -> None:
        if "takes" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, *args, **options)

    with create(root) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(local, operation, fail)
            with pytest.raises(CommitError, match="cannot be opened"):
                add(writer, 1)
        assert writer.episode_frames == 0
        assert leftovers(root) == ["owner.json"]
        add(writer, 3)
        writer.save_episode()
    check_whole(root, 1, 3)


def test_a_take_that_an_encoder_ended_is_left_for_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that leaves the `with` block does not take the frames with it that are on the disk."""
    root = tmp_path / "set"
    real = cameras.CameraTake._prepared
    calls = [0]

    def broken(self: Any, picture: Any) -> Any:
        if self.feature.name == WRIST:
            calls[0] += 1
            if calls[0] > 12:
                raise RuntimeError("the encoder has died")
        return real(self, picture)

    def until_it_fails() -> None:
        with create_killed(root) as writer:
            record(writer, "video", 0, range(4))
            writer.save_episode()
            calls[0] = 0
            monkeypatch.setattr(cameras.CameraTake, "_prepared", broken)
            for number in range(2000):
                record(writer, "video", 1, range(number, number + 1))
                time.sleep(0.005)

    with pytest.warns(UserWarning, match="rolltape recover"), pytest.raises(EncodeError, match="has died"):
        until_it_fails()
    monkeypatch.undo()
    assert rolltape.open(root).num_episodes == 1
    (take,) = find_takes(root)
    assert take.frames == 12
    with Writer.resume(root, "keep") as writer:
        assert writer.total_episodes == 2
    check_frames(root, "video", [4, 12])


@pytest.mark.parametrize("how", ["close", "finalize"])
def test_closing_leaves_a_failed_take_and_finalizing_discards_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    root = tmp_path / "set"
    writer = create(root)
    with monkeypatch.context() as patch:
        Failing(patch, "rows.arrow", errno.ENOSPC)
        add(writer, 3)
        wait_for(lambda: writer.take_failed)
    with pytest.warns(UserWarning, match="recover" if how == "close" else "discarded"):
        getattr(writer, how)()
    assert [take.frames for take in find_takes(root)] == ([3] if how == "close" else [])


def create_killed(root: Path, **options: Any) -> Writer:
    return Writer.create(root, FPS, CASES["video"], rgb_encoder=H264, durability="relaxed", **options)


def test_an_ordinary_error_discards_the_take(tmp_path: Path) -> None:
    root = tmp_path / "set"

    def fail() -> None:
        with create(root) as writer:
            add(writer, 3)
            writer.save_episode()
            add(writer, 3)
            raise RuntimeError("the program has a bug")

    with pytest.raises(RuntimeError):
        fail()
    check_whole(root, 1, 3)
    assert not (root / ".rolltape").exists()


def test_a_take_that_is_left_waits_for_recovery(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        assert writer.leave_episode() == 0
        add(writer, 3, TABLES)
        assert writer.leave_episode() == 3
        add(writer, 2, TABLES)
        writer.save_episode()
    assert [(take.n, take.frames, take.episode_index) for take in find_takes(root)] == [(0, 3, 1)]
    with pytest.raises(OpenTakeError, match="take 0"):
        Writer.resume(root)
    with Writer.resume(root, "keep") as writer:
        add(writer, 1, TABLES)
        assert json.loads((root / "meta/info.json").read_bytes())["total_episodes"] == 2
        writer.save_episode()
    assert info(root)["total_episodes"] == 3


def test_a_take_of_which_nothing_is_left_needs_no_answer(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        add(writer, 3)
        writer.save_episode()
        add(writer, 3)
        wait_for(lambda: rows_on_disk(root, 1))
        writer.leave_episode()
    (folder(root, 1) / f"{FRONT}.mp4").write_bytes(b"")
    (take,) = find_takes(root)
    assert (take.frames, take.episode_index) == (0, None)
    with pytest.warns(UserWarning, match="nothing can be brought back"), Writer.resume(root) as writer:
        assert [one.reason for one in writer.recovered] == ["nothing is left of it"]
    check_whole(root, 1, 3)
    assert not (root / ".rolltape").exists()


def test_tables_saved_in_quick_succession_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`durability="relaxed"` without cameras: the first save is a commit, those right after it wait for a moment."""
    root = tmp_path / "set"
    monkeypatch.setattr(session, "LATE_S", 60)
    with create(root, TABLES, durability="relaxed") as writer:
        for _ in range(5):
            add(writer, 3, TABLES)
            writer.save_episode()
        assert writer.total_episodes == 5
        assert info(root)["total_episodes"] == 1
        writer.flush()
        assert info(root)["total_episodes"] == 5
        add(writer, 3, TABLES)
        writer.save_episode()
        assert info(root)["total_episodes"] == 5
        monkeypatch.setattr(session, "LATE_S", 0)
        wait_for(lambda: info(root)["total_episodes"] == 6)
    check_whole(root, 6, 18, [])


def test_pictures_and_rows_end_at_what_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.pictures"
    for number in range(5):
        append_picture(path, bytes([number]) * 100)
    data = path.read_bytes()
    assert read_pictures(path) == [bytes([number]) * 100 for number in range(5)]
    assert read_pictures(tmp_path / "none") == []
    for damaged, whole in (
        (data[:-1], 4),
        (data + bytes(50), 5),
        (data[:250] + bytes([data[250] ^ 1]) + data[251:], 2),
        (data[:220] + bytes(len(data) - 220), 2),
    ):
        path.write_bytes(damaged)
        assert len(read_pictures(path)) == whole


def test_a_file_that_could_not_be_appended_to_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    local.append_file(path, b"first")
    real = os.write
    calls = [0]

    def short(descriptor: int, data: Any) -> int:
        calls[0] += 1
        if calls[0] > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, bytes(data)[:2])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="No space"):
        local.append_file(path, b"second")
    monkeypatch.undo()
    assert path.read_bytes() == b"first"


@pytest.fixture
def fields() -> tuple[Any, Any]:
    from rolltape.format import data_schema, parse_features

    features = parse_features(
        {
            "flag": {"dtype": "bool", "shape": [1]},
            "half": {"dtype": "float16", "shape": [2]},
            "grid": {"dtype": "int8", "shape": [2, 3]},
            "one": {"dtype": "float64", "shape": [1]},
        }
    )
    return list(features.values()), data_schema(features)


def test_every_kind_of_number_is_read_back_from_the_rows(tmp_path: Path, fields: tuple[Any, Any]) -> None:
    columns, schema = fields
    path = tmp_path / "rows.arrow"
    log = row_log.RowLog(path, columns, [], schema)
    values = {one.name: np.arange(5 * one.size).reshape(5, *one.shape).astype(one.numpy_dtype) for one in columns}
    for first, count in ((0, 2), (2, 3)):
        cut = [values[one.name][first : first + count] for one in columns]
        log.append(row_log.Piece(first, count, cut, [], [f"task {first}"] * count))
    found = row_log.read_rows(path, columns, [], schema)
    assert (found.frames, found.tail) == (5, None)
    assert found.tasks == ["task 0"] * 2 + ["task 2"] * 3
    for name, wanted in values.items():
        assert found.columns[name].dtype == wanted.dtype
        assert np.array_equal(found.columns[name], wanted)


def test_rows_that_could_not_be_written_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: tuple[Any, Any]
) -> None:
    columns, schema = fields
    path = tmp_path / "rows.arrow"
    log = row_log.RowLog(path, columns, [], schema)
    piece = row_log.Piece(0, 1, [np.ones((1, *one.shape), one.numpy_dtype) for one in columns], [], ["t"])
    failing = Failing(monkeypatch, "rows.arrow", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        log.append(piece)
    failing.on = False
    log.append(piece)
    assert row_log.read_rows(path, columns, [], schema).frames == 1
