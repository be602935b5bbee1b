"""Reading pictures: order, arrays, errors, threads, forks, the pool."""

from __future__ import annotations

import dataclasses
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest

from rolltape.errors import (
    ClosedError,
    ContainerError,
    DamagedFileError,
    DecodeError,
    FrameIndexError,
    RolltapeError,
)
from rolltape.format import Rate
from rolltape.video import Decoder, DecoderPool, VideoFile, build_index, index_file
from rolltape.video.packets import Source, join
from video.clips import B_FRAMES, box, decode_all, pictures, rewrite, write_video


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", pictures(24), "libx264", B_FRAMES)


def test_layouts_and_strided_output(clip: Path) -> None:
    expected = np.stack(decode_all(clip))
    with VideoFile(clip) as video:
        assert video.read([3]).shape == (1, 3, 64, 96)
        assert np.array_equal(video.read([3, 5]).transpose(0, 2, 3, 1), expected[[3, 5]])
        assert np.array_equal(video.read([3, 5], layout="HWC"), expected[[3, 5]])
        out = np.zeros((4, 2, 3, 64, 96), np.uint8)
        assert video.read([7, 7, 1, 20], out[:, 1]) is not None
        assert np.array_equal(out[:, 1].transpose(0, 2, 3, 1), expected[[7, 7, 1, 20]])
        assert not out[:, 0].any()
        inferred = np.empty((1, 64, 96, 3), np.uint8)
        video.read([9], inferred)
        assert np.array_equal(inferred[0], expected[9])
        assert len(video.read([])) == 0


@pytest.mark.parametrize(("width", "height"), [(64, 48), (98, 50), (130, 66), (62, 46)])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p"])
def test_both_ways_of_conversion_agree(tmp_path: Path, width: int, height: int, pix_fmt: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
    path = write_video(tmp_path / "noise.mp4", noise, "libx264", {"crf": "10"}, pix_fmt=pix_fmt)
    expected = np.stack(decode_all(path))  # PyAV's rgb24, which is torchcodec's for even sizes
    with VideoFile(path) as video:
        assert np.array_equal(video.read(range(3)).transpose(0, 2, 3, 1), expected)
        assert np.array_equal(video.read(range(3), layout="HWC"), expected)


def test_wrong_arguments(clip: Path) -> None:
    with VideoFile(clip) as video:
        with pytest.raises(FrameIndexError, match=r"0 to 23[\s\S]*24"):
            video.read([3, 24])
        with pytest.raises(FrameIndexError):
            video.read([-1])
        with pytest.raises(DecodeError, match=r"clip\.mp4, frame 2"):
            video.read([2], np.empty((1, 3, 64, 90), np.uint8))
        with pytest.raises(DecodeError, match="uint8"):
            video.read([2], np.empty((1, 3, 64, 96), np.float32))  # on purpose
        assert video.read([2]).any()
    with pytest.raises(ClosedError):
        video.read([2])
    video.close()


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"none\.mp4"):
        VideoFile(tmp_path / "none.mp4")
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(ContainerError, match="empty"):
        VideoFile(tmp_path / "empty.mp4")


def test_frames_without_a_keyframe_before_them(tmp_path: Path) -> None:
    source = write_video(tmp_path / "clip.mp4", pictures(12), "libx264", {"g": "6", "bf": "0"})

    def change(name: str, _: bytes) -> bytes | None:
        return box("stss", bytes(4), b"\0\0\0\1", b"\0\0\0\7") if name.endswith("stbl/stss") else None

    path = tmp_path / "late.mp4"
    path.write_bytes(rewrite(source.read_bytes(), change))
    expected = decode_all(source)
    with VideoFile(path) as video:
        assert np.array_equal(video.read([6, 11], layout="HWC"), [expected[6], expected[11]])
        with pytest.raises(DecodeError, match=r"frame 5[\s\S]*no keyframe"):
            video.read([5, 7])
        assert np.array_equal(video.read([8], layout="HWC")[0], expected[8])


def test_damage_is_an_error_and_the_decoder_goes_on(tmp_path: Path) -> None:
    path = write_video(
        tmp_path / "clip.mp4", pictures(12), "libsvtav1", {"g": "4", "preset": "12", "svtav1-params": "lp=1"}
    )
    data, index = bytearray(path.read_bytes()), index_file(path)
    whole = {k: f.to_ndarray(format="rgb24") for k, f in VideoFile(path).frames(range(12)).items()}
    start, size = int(index.offset[5]), int(index.size[5])
    data[start : start + size] = bytes(size)
    decoder, found = Decoder(build_index(bytes(data), "x.mp4"), memoryview(data)), dict[int, av.VideoFrame]()
    with pytest.raises(DecodeError, match=r"x\.mp4, (frame|sample) 5"):
        decoder.decode([5, 6], found.__setitem__)
    found.clear()
    decoder.decode([0, 3, 8, 11], found.__setitem__)
    assert all(np.array_equal(frame.to_ndarray(format="rgb24"), whole[k]) for k, frame in found.items())
    assert sorted(found) == [0, 3, 8, 11]


def test_threads_take_turns(clip: Path) -> None:
    expected = np.stack(decode_all(clip))
    with VideoFile(clip) as video, ThreadPoolExecutor(4) as threads:
        orders = [np.random.default_rng(seed).integers(0, 24, 8) for seed in range(24)]
        results = list(threads.map(lambda order: video.read(order, layout="HWC"), orders))
    assert all(np.array_equal(result, expected[order]) for result, order in zip(results, orders))


def in_child(action: object) -> int:
    """Exit status of a forked child that calls the action."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_gets_its_own_decoder(clip: Path) -> None:
    expected = np.stack(decode_all(clip))
    pool = DecoderPool()
    with pool.get(clip) as video:
        assert np.array_equal(video.read([13], layout="HWC")[0], expected[13])
        held = threading.Event()
        release = threading.Event()

        def hold() -> None:
            with video._lock_here():
                held.set()
                release.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(30)

        def child() -> None:
            for k in (14, 3, 20):
                assert np.array_equal(video.read([k], layout="HWC")[0], expected[k])
            with pool.get(clip) as own:
                assert own is not video
                assert np.array_equal(own.read([5], layout="HWC")[0], expected[5])

        try:
            assert in_child(child) == 0
        finally:
            release.set()
            holder.join()
        assert np.array_equal(video.read([14], layout="HWC")[0], expected[14])
    pool.close()


def test_pool_keeps_the_last_used(tmp_path: Path) -> None:
    paths = [write_video(tmp_path / f"{k}.mp4", pictures(3, seed=k)) for k in range(4)]
    with DecoderPool(limit=2) as pool:
        seen = {}
        for path in paths:
            with pool.get(path) as video:
                seen[path] = video
        assert len(pool) == 2
        with pool.get(paths[3]) as again:
            assert again is seen[paths[3]]
        with pytest.raises(ClosedError):
            seen[paths[0]].read([0])
        with pool.get(paths[0]) as one, pool.get(paths[1]) as two, pool.get(paths[2]) as three:
            assert len(pool) >= 3
            assert all(video.read([0]).any() for video in (one, two, three))
        assert len(pool) == 2
    assert len(pool) == 0


def test_pool_sees_a_replaced_file(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", pictures(4))
    pool = DecoderPool()
    with pool.get(path) as video:
        other = write_video(tmp_path / "new.mp4", pictures(9))
        other.replace(path)
        with pool.get(path) as fresh:
            assert fresh.index.n == 9
        assert video.read([3]).any()
    with pytest.raises(ClosedError):
        video.read([0])
    path.unlink()
    with pytest.raises(DamagedFileError), pool.get(path):
        pass
    pool.close()


def test_pool_forgets_what_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "bad.mp4"
    path.write_bytes(b"not a video at all")
    pool = DecoderPool()
    for _ in range(2):
        with pytest.raises(RolltapeError), pool.get(path):
            pass
    assert len(pool) == 0


def test_pool_under_many_threads(tmp_path: Path) -> None:
    paths = [write_video(tmp_path / f"{k}.mp4", pictures(6, seed=k)) for k in range(5)]
    expected = [np.stack(decode_all(path)) for path in paths]
    pool = DecoderPool(limit=2)

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        for _ in range(10):
            which, ranks = int(rng.integers(5)), rng.integers(0, 6, 3)
            with pool.get(paths[which]) as video:
                if not np.array_equal(video.read(ranks, layout="HWC"), expected[which][ranks]):
                    return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(work, range(6)))
    pool.close()
    assert len(pool) == 0


def test_rotation_is_applied(tmp_path: Path, clip: Path) -> None:
    expected = np.stack(decode_all(clip))
    for degrees in (90, 180, 270):
        path = tmp_path / f"{degrees}.mp4"
        join([Source(clip, index=dataclasses.replace(index_file(clip), rotation=degrees))], path, Rate.parse(30))
        with VideoFile(path) as video:
            assert video.index.rotation == degrees
            turned = np.rot90(expected[:5], -degrees // 90, (1, 2))
            assert np.array_equal(video.read(range(5), layout="HWC"), turned)
            assert np.array_equal(video.read(range(5)), turned.transpose(0, 3, 1, 2))
