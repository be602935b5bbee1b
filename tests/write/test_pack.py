"""Packing: fewer videos, the same pictures, and every pointer true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rolltape
from rolltape.errors import CommitError
from rolltape.format import RGBEncoderConfig
from rolltape.store import local
from rolltape.write import Writer, pack
from sample import FRONT, WRIST, edit_info, f2
from write.recordings import H264, ONE_CAMERA, add, camera, check_whole, create, files, info, leftovers, rows

CAMERAS = {**ONE_CAMERA, **camera(WRIST)}


def pixels(root: Path, key: str = FRONT) -> np.ndarray:
    dataset = rolltape.open(root)
    return np.stack([np.asarray(dataset[k][key]) for k in range(len(dataset))])


def unpacked(root: Path, lengths: tuple[int, ...] = (5, 7, 1, 4), **options: object) -> Writer:
    writer = create(root, CAMERAS, **options)
    for length in lengths:
        add(writer, length, CAMERAS)
        writer.save_episode()
    return writer


def test_pictures_are_the_same_before_and_after(tmp_path: Path) -> None:
    root = tmp_path / "set"
    writer = unpacked(root, rgb_encoder=RGBEncoderConfig(vcodec="h264", g=8))
    before = [pixels(root, FRONT), pixels(root, WRIST)]
    assert len(files(root, "videos")) == 8
    assert writer.pack() == 8
    assert [len(files(root, f"videos/{key}")) for key in (FRONT, WRIST)] == [1, 1]
    for old, key in zip(before, (FRONT, WRIST), strict=True):
        assert np.array_equal(old, pixels(root, key))
    assert rows(root).column(f"videos/{FRONT}/from_timestamp").to_pylist() == [0.0, 0.5, 1.2, 1.3]
    assert rows(root).column(f"videos/{FRONT}/to_timestamp").to_pylist() == [0.5, 1.2, 1.3, 1.7]
    add(writer, 3, CAMERAS)
    writer.save_episode()
    check_whole(root, 5, 20, [FRONT, WRIST])
    writer.finalize()
    check_whole(root, 5, 20, [FRONT, WRIST])
    assert len(files(root, "videos")) == 2


def test_numbers_are_never_used_again(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with unpacked(root) as writer:
        seen = set(files(root, "videos"))
        for _ in range(3):
            writer.pack()
            new = set(files(root, "videos"))
            add(writer, 2, CAMERAS)
            writer.save_episode()
            new |= set(files(root, "videos"))
            assert not (new - set(files(root, "videos"))) & seen
            seen |= new
    assert len(seen) > 8


def test_old_videos_can_be_kept_for_a_while(tmp_path: Path) -> None:
    root = tmp_path / "set"
    writer = unpacked(root)
    old = set(files(root, "videos"))
    writer.pack(keep_old=True)
    assert old < set(files(root, "videos"))
    check_whole(root, 4, 17, [FRONT, WRIST])
    writer.close()
    assert len(files(root, "videos")) == 2
    check_whole(root, 4, 17, [FRONT, WRIST])
    assert not (root / ".rolltape").exists()


def test_the_size_limit_and_the_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 0.01
    with unpacked(tmp_path / "a", (9,) * 12, video_files_size_in_mb=limit) as writer:
        assert writer.total_episodes == 12
    sizes = [(tmp_path / "a" / name).stat().st_size for name in files(tmp_path / "a", "videos")]
    assert 2 < len(sizes) < 24
    assert max(sizes) <= limit * (1 << 20)
    check_whole(tmp_path / "a", 12, 108, [FRONT, WRIST])

    monkeypatch.setattr(pack, "SECONDS_CAP", 2)
    with unpacked(tmp_path / "b", (9, 9, 9, 9, 9)) as writer:
        pass
    assert len(files(tmp_path / "b", f"videos/{FRONT}")) == 3
    check_whole(tmp_path / "b", 5, 45, [FRONT, WRIST])


def test_unequal_decoder_settings_are_not_joined(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root) as writer:
        for _ in range(2):
            add(writer, 5)
            writer.save_episode()
    with Writer.resume(root, rgb_encoder=RGBEncoderConfig(vcodec="libsvtav1"), durability="relaxed") as writer:
        for _ in range(2):
            add(writer, 5)
            writer.save_episode()
    assert len(files(root, "videos")) == 2
    check_whole(root, 4, 20)


def test_videos_of_others_are_joined_where_they_are_on_the_grid(tmp_path: Path) -> None:
    root = f2(tmp_path / "set").root
    before = pixels(root)
    with Writer.resume(root, rgb_encoder=H264, durability="relaxed") as writer:
        assert writer.pack() == 3
    assert np.array_equal(before, pixels(root))
    assert info(root)["total_episodes"] == 3


def test_finalize_leaves_the_videos_of_earlier_recordings_alone(tmp_path: Path) -> None:
    root = f2(tmp_path / "set").root
    old = {name: (root / name).read_bytes() for name in files(root, "videos")}
    limit = 2.2 * max(len(content) for content in old.values()) / (1 << 20)
    edit_info(root, lambda content: content.update(video_files_size_in_mb=limit))
    with Writer.resume(root, durability="relaxed"):
        pass
    assert {name: (root / name).read_bytes() for name in files(root, "videos")} == old
    with Writer.resume(root, durability="relaxed") as writer:
        for _ in range(3):
            add(writer, 3)
            writer.save_episode()
    kept = [name for name in files(root, "videos") if name in old]
    assert len(kept) >= 1
    assert all((root / name).read_bytes() == old[name] for name in kept)
    check_whole(root, 6, 25)


def test_a_video_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "set"
    writer = unpacked(root)
    broken = root / files(root, f"videos/{FRONT}")[1]
    content = broken.read_bytes()
    broken.write_bytes(content[:100])
    writer.pack()
    assert broken.read_bytes() == content[:100]
    broken.write_bytes(content)
    check_whole(root, 4, 17, [FRONT, WRIST])
    writer.close()


@pytest.mark.parametrize("operation", ["write_file", "rename", "link", "fsync_file", "fsync_folder"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_packing_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, which: int
) -> None:
    root = tmp_path / "set"
    writer = unpacked(root, durability="full")
    before = {name: (root / name).read_bytes() for name in files(root) if not name.startswith(".rolltape")}
    calls = iter(range(1000))
    real = getattr(local, operation)

    def fail(*args: object, **options: object) -> None:
        if next(calls) == which:
            raise OSError(28, "No space left on device")
        real(*args, **options)

    monkeypatch.setattr(local, operation, fail)
    failed = _fails(writer)
    monkeypatch.undo()
    if failed:
        after = {name: (root / name).read_bytes() for name in files(root) if not name.startswith(".rolltape")}
        assert after == before
        assert set(leftovers(root)) <= {"owner.json", "later.json"}
    check_whole(root, 4, 17, [FRONT, WRIST])
    writer.finalize()
    check_whole(root, 4, 17, [FRONT, WRIST])
    assert len(files(root, "videos")) == 2


def _fails(writer: Writer) -> bool:
    try:
        writer.pack()
    except CommitError:
        return True
    return False
