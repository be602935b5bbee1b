"""Pictures: the right file, the right frame, the right form."""

from __future__ import annotations

import gc
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import rolltape
import sample
from read import expected
from rolltape import errors
from rolltape.read import Dataset
from rolltape.read.buffers import Buffers
from sample import FRONT, WRIST, Camera


def levels(dataset: Dataset, camera: str = FRONT) -> list[int]:
    """The grey levels of a whole dataset, read in an order that jumps between files and GOPs."""
    order = np.random.default_rng(0).permutation(len(dataset))
    found = dict(zip(order.tolist(), dataset.batch(order)[camera], strict=True))
    return [sample.read_level(found[at]) for at in range(len(dataset))]


def coded(made: sample.Sample, camera: str = FRONT) -> list[int]:
    return [made.level(index, camera) for index in range(made.num_frames)]


def test_A04_each_camera_is_found_by_its_own_columns(tmp_path: Path) -> None:
    made = sample.f3(tmp_path / "f3")
    dataset = rolltape.open(made.root)
    for camera in (FRONT, WRIST):
        assert levels(dataset, camera) == coded(made, camera)
        assert [sample.read_level(item[camera]) for item in dataset] == coded(made, camera)
    single = [dataset[index] for index in range(16)]
    assert [sample.read_level(item[WRIST]) for item in single] == coded(made, WRIST)


def test_A04_paths_come_from_the_templates_and_numbers_of_the_dataset(tmp_path: Path) -> None:
    cameras = {
        FRONT: Camera(files=[[2], [0], [1]], numbers=[(7, 1), (0, 5), (2, 1234)]),
        WRIST: Camera(files=[[1, 0], [2]], numbers=[(0, 9), (0, 3)], shift=3),
    }
    made = sample.build(tmp_path / "made", cameras=cameras)
    (made.root / "videos").rename(made.root / "films")
    template = "films/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    sample.edit_info(made.root, lambda info: info.update(video_path=template))
    dataset = rolltape.open(made.root)
    for camera in (FRONT, WRIST):
        assert levels(dataset, camera) == coded(made, camera)


@pytest.mark.parametrize("fps", [7, 24, 30])
@pytest.mark.parametrize("drift", [0.0, 0.4, -0.4])
def test_A12_long_files_and_drifted_start_times_give_the_right_frame(tmp_path: Path, fps: int, drift: float) -> None:
    made = sample.build(
        tmp_path / "made", lengths=[17] * 60, tasks=None, fps=fps, cameras={FRONT: Camera(size=(16, 16))}
    )

    def move(table: Any) -> Any:
        for part in ("from_timestamp", "to_timestamp"):
            name = f"videos/{FRONT}/{part}"
            values = [one + drift / fps if one else one for one in table.column(name).to_pylist()]
            table = sample.set_column(table, name, values)
        return table

    sample.edit_table(made.root / "meta/episodes/chunk-000/file-000.parquet", move)
    dataset = rolltape.open(made.root)
    last = len(dataset) - 1
    assert sample.read_level(dataset[last][FRONT]) == made.level(last)
    chosen = [*range(0, len(dataset), 13), *range(16, len(dataset), 17), *range(0, len(dataset), 17)]
    pictures = dataset.batch(chosen)[FRONT]
    assert [sample.read_level(one) for one in pictures] == [made.level(index) for index in chosen]


def test_A16_an_episode_without_footage(tmp_path: Path) -> None:
    made = sample.build(tmp_path / "made", cameras={FRONT: Camera(missing=[1])})
    dataset = rolltape.open(made.root)
    tables = rolltape.open(made.root, cameras=[])
    assert tables.batch(range(16))["index"].tolist() == list(range(16))
    assert sample.read_level(dataset[4][FRONT]) == made.level(4)
    assert sample.read_level(dataset[12][FRONT]) == made.level(12)
    for read in (lambda: dataset[5], lambda: dataset.batch([0, 6])):
        with pytest.raises(errors.NoFootageError, match=f"Episode 1 has no footage of camera {FRONT}"):
            read()
    assert len(dataset.table()) == 16


def test_A16_a_missing_video_file_leaves_the_tables_readable(tmp_path: Path) -> None:
    made = sample.f2(tmp_path / "f2")
    (made.root / f"videos/{FRONT}/chunk-000/file-001.mp4").unlink()
    dataset = rolltape.open(made.root)
    with pytest.raises(errors.NoFootageError, match="Episode 1") as caught:
        dataset[7]
    assert "file-001.mp4" in str(caught.value)
    assert sample.read_level(dataset[15][FRONT]) == made.level(15)
    assert rolltape.open(made.root, cameras=[])[7]["index"] == 7


def test_a_video_that_is_a_pointer_or_noise_is_told_by_name(tmp_path: Path) -> None:
    made = sample.f2(tmp_path / "f2")
    path = made.root / f"videos/{FRONT}/chunk-000/file-001.mp4"
    sample.make_pointer(path)
    with pytest.raises(errors.DamagedFileError, match="Git LFS pointer") as caught:
        rolltape.open(made.root)[5]
    assert caught.value.episodes == (1,)
    path.write_bytes(b"")
    with pytest.raises(errors.DamagedFileError) as caught:
        rolltape.open(made.root)[5]
    assert caught.value.path == f"videos/{FRONT}/chunk-000/file-001.mp4"


def test_A63_a_video_that_is_too_short_names_episode_frame_and_counts(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    path = made.root / f"videos/{FRONT}/chunk-000/file-000.mp4"
    frames = [sample.picture(made, index) for index in range(10)]
    sample.encode(path, frames, Fraction(10), made.cameras[FRONT])
    dataset = rolltape.open(made.root)
    assert sample.read_level(dataset[9][FRONT]) == made.level(9)
    with pytest.raises(errors.FrameTimestampError, match="shorter") as caught:
        dataset.batch([3, 13, 10])
    assert "episode 2, frame 1" in str(caught.value)
    assert "10 pictures" in str(caught.value)


def test_a_video_off_the_grid_is_read_by_time(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    path = made.root / f"videos/{FRONT}/chunk-000/file-000.mp4"
    # An extra picture between every two: the table's times are right, the counts are not.
    frames = [
        sample.picture(made, index // 2) if index % 2 == 0 else np.zeros((32, 32, 3), np.uint8) for index in range(32)
    ]
    sample.encode(path, frames, Fraction(20), made.cameras[FRONT])
    assert levels(rolltape.open(made.root)) == coded(made)
    times = [Fraction(index, 10) + Fraction(index % 3, 50) for index in range(16)]
    sample.encode(path, [sample.picture(made, index) for index in range(16)], Fraction(10), made.cameras[FRONT], times)
    dataset = rolltape.open(made.root)
    assert sample.read_level(dataset[6][FRONT]) == made.level(6)
    with pytest.raises(errors.FrameTimestampError, match="no picture at the wanted time") as caught:
        dataset[7]
    assert "episode 1, frame 2" in str(caught.value)


def test_A09_open_files_reach_a_plateau(tmp_path: Path) -> None:
    count, limit = 120, 8
    cameras = {FRONT: Camera(files=[[one] for one in range(count)], size=(16, 16))}
    made = sample.build(tmp_path / "made", lengths=[2] * count, tasks=None, cameras=cameras, stats=False)
    dataset = rolltape.open(made.root, open_files=limit)
    order = np.random.default_rng(1).permutation(2 * count)

    def read_all() -> tuple[int, int]:
        for at in range(0, len(order), 16):
            dataset.batch(order[at : at + 16])
        gc.collect()
        maps = Path("/proc/self/maps").read_text().count(str(made.root))
        return maps, int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    first, memory = read_all()
    second, later = read_all()
    assert first <= limit + 1
    assert second <= limit + 1
    assert later < memory * 1.05


def test_A09_one_open_file_is_enough(tmp_path: Path) -> None:
    made = sample.f3(tmp_path / "f3")
    dataset = rolltape.open(made.root, open_files=1)
    for camera in (FRONT, WRIST):
        assert levels(dataset, camera) == coded(made, camera)


def test_repeats_and_negative_indices(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    batch = rolltape.open(made.root).batch([-1, 3, 3, -16, 3])
    assert batch.indices.tolist() == [15, 3, 3, 0, 3]
    assert [sample.read_level(one) for one in batch[FRONT]] == [made.level(k) for k in (15, 3, 3, 0, 3)]


@pytest.mark.parametrize("build", [sample.f1, sample.f4])
def test_forms_of_pictures(tmp_path: Path, build: Any) -> None:
    made = build(tmp_path / "made")
    plain = rolltape.open(made.root).batch(range(16))[FRONT]
    assert plain.dtype == np.uint8
    assert plain.shape == (16, 3, 32, 32)
    floats = rolltape.open(made.root, dtype="float32").batch(range(16))[FRONT]
    np.testing.assert_array_equal(floats, np.divide(plain, np.float32(255), dtype=np.float32))
    last = rolltape.open(made.root, layout="HWC").batch(range(16))[FRONT]
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), plain)
    small = rolltape.open(made.root, resize=(8, 16)).batch(range(16))[FRONT]
    assert small.shape == (16, 3, 8, 16)
    assert [sample.read_level(one) for one in small] == coded(made)
    large = rolltape.open(made.root, resize=(40, 48), layout="HWC", dtype={"front": "float32"})[3][FRONT]
    assert large.shape == (40, 48, 3)
    assert large.dtype == np.float32
    assert sample.read_level(large) == made.level(3)
    windowed = rolltape.open(made.root, resize=(8, 8), delta_steps={FRONT: [-1, 0, 1]}).batch([0, 6])[FRONT]
    assert windowed.shape == (2, 3, 3, 8, 8)


def test_resizing_averages_areas(tmp_path: Path) -> None:
    made = sample.f4(tmp_path / "f4")
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)

    def noisy(table: Any) -> Any:
        rows = table.column(FRONT).to_pylist()
        path = tmp_path / "noise.png"
        Image.fromarray(noise).save(path)
        rows[4] = {"bytes": path.read_bytes(), "path": "x.png"}
        return sample.set_column(table, FRONT, rows)

    sample.edit_table(made.root / "data/chunk-000/file-000.parquet", noisy)
    assert (rolltape.open(made.root, layout="HWC")[4][FRONT] == noise).all()
    small = rolltape.open(made.root, layout="HWC", resize=(16, 16))[4][FRONT]
    mean = noise.reshape(16, 2, 16, 2, 3).astype(float).mean((1, 3))
    assert np.abs(small - mean).max() <= 1


def test_depth_in_metres_and_millimetres() -> None:
    name = "observation.images.front_depth"
    root = expected.root("depth_mm")
    metres = rolltape.open(root).batch(range(16))[name]
    assert metres.dtype == np.float32
    assert metres.shape == (16, 1, 64, 64)
    wanted = 0.4 + 0.05 * np.arange(16)
    assert np.abs(metres.mean((1, 2, 3)) - wanted).max() < 0.002
    millimetres = rolltape.open(root, depth_unit="mm", layout="HWC").batch(range(16))[name]
    assert millimetres.shape == (16, 64, 64, 1)
    assert (millimetres == np.rint(millimetres)).all()
    assert np.abs(millimetres.mean((1, 2, 3)) - 1000 * wanted).max() < 2
    assert rolltape.open(root, resize=(16, 24))[3][name].shape == (1, 16, 24)


@pytest.mark.parametrize(("unit", "dtype"), [("mm", np.uint16), ("m", np.float32), (None, np.uint16)])
def test_depth_as_images_in_the_tables(tmp_path: Path, unit: str | None, dtype: Any) -> None:
    made = sample.f4(tmp_path / "f4")
    name = FRONT

    def as_depth(info: dict[str, Any]) -> None:
        mark = {"is_depth_map": True, **({"depth_unit": unit} if unit else {})}
        info["features"][name] |= {"shape": [32, 32, 1], "info": mark}

    def with_depth(table: Any) -> Any:
        rows = []
        for index in range(16):
            value = 500 + index if dtype == np.uint16 else 0.5 + index / 1000
            path = tmp_path / "depth.tiff"
            Image.fromarray(np.full((32, 32), value, dtype)).save(path)
            rows.append({"bytes": path.read_bytes(), "path": "x.tiff"})
        return sample.set_column(table, name, rows)

    sample.edit_info(made.root, as_depth)
    sample.edit_table(made.root / "data/chunk-000/file-000.parquet", with_depth)
    metres = rolltape.open(made.root)[7][name]
    millimetres = rolltape.open(made.root, depth_unit="mm")[7][name]
    assert metres.shape == millimetres.shape == (1, 32, 32)
    assert metres.dtype == millimetres.dtype == np.float32
    if unit is None:  # nobody knows the unit, so nothing is converted
        assert (metres == 507).all()
        assert (millimetres == 507).all()
    else:
        np.testing.assert_allclose(metres, 0.507, rtol=1e-6)
        np.testing.assert_allclose(millimetres, 507, rtol=1e-6)


@pytest.mark.parametrize("build", [sample.f2, sample.f4])
def test_pictures_of_another_size_than_declared(tmp_path: Path, build: Any) -> None:
    made = build(tmp_path / "made")
    sample.edit_info(made.root, lambda info: info["features"][FRONT].update(shape=[64, 48, 3]))
    dataset = rolltape.open(made.root)
    assert dataset.batch([0, 9])[FRONT].shape == (2, 3, 32, 32)
    assert levels(dataset) == coded(made)


def test_files_of_different_sizes_need_a_resize(tmp_path: Path) -> None:
    made = sample.f2(tmp_path / "f2")
    camera = Camera(size=(16, 48))
    frames = [np.full((16, 48, 3), made.level(index), np.uint8) for index in range(5, 12)]
    sample.encode(made.root / f"videos/{FRONT}/chunk-000/file-001.mp4", frames, Fraction(10), camera)
    dataset = rolltape.open(made.root)
    with pytest.raises(errors.VideoError, match="different sizes"):
        dataset.batch([0, 6])
    assert levels(rolltape.open(made.root, resize=(16, 16))) == coded(made)


def test_a_camera_declared_channels_first(tmp_path: Path) -> None:
    made = sample.build(tmp_path / "made", cameras={FRONT: Camera(layout="CHW", size=(16, 48))})
    assert rolltape.open(made.root)[0][FRONT].shape == (3, 16, 48)
    assert levels(rolltape.open(made.root)) == coded(made)


@pytest.mark.parametrize(
    "options",
    [
        {"pixels": "yuv"},
        {"decoder": "torchcodec"},
        {"layout": "CWH"},
        {"dtype": "float64"},
        {"dtype": {"front": "int8"}},
        {"depth_unit": "cm"},
        {"resize": (0, 4)},
        {"resize": 4},
        {"table_memory": "lots"},
        {"open_files": 0},
        {"robot": "left"},
    ],
)
def test_wrong_options_are_refused_by_name(tmp_path: Path, options: dict[str, Any]) -> None:
    made = sample.f1(tmp_path / "f1")
    with pytest.raises(errors.UsageError) as caught:
        rolltape.open(made.root, **options)
    assert next(iter(options)) in str(caught.value)


def test_memory_of_a_batch_is_used_again_only_when_nobody_sees_it(tmp_path: Path) -> None:
    made = sample.build(tmp_path / "made", cameras={FRONT: Camera(size=(256, 256))})
    dataset = rolltape.open(made.root)
    first = dataset.batch(range(8))
    kept = first[FRONT][3]  # a view is enough to keep the memory
    address = first[FRONT].ctypes.data
    before = kept.copy()
    first.release()
    second = dataset.batch(range(8, 16))
    assert second[FRONT].ctypes.data != address
    assert (kept == before).all()
    del kept, second, first
    assert dataset.batch(range(8))[FRONT].ctypes.data in {address, dataset.batch(range(8))[FRONT].ctypes.data}


def test_buffers_stay_within_their_limit() -> None:
    size = 2 << 20
    buffers = Buffers(limit=3 * size)
    held = [buffers.take((size,), np.uint8) for _ in range(5)]
    assert len({array.ctypes.data for array in held}) == 5
    assert sum(one.nbytes for one in buffers._owners) <= buffers.limit
    addresses = {array.ctypes.data for array in held[:3]}
    view = held[0][5:6]
    del held
    again = [buffers.take((size // 4,), np.float32) for _ in range(2)]
    assert {array.ctypes.data for array in again} <= addresses - {view.ctypes.data - 5}
    other = buffers.take((3 * size,), np.uint8)
    assert other.nbytes == 3 * size
    assert sum(one.nbytes for one in buffers._owners) <= buffers.limit


def test_images_in_the_tables_are_kept_up_to_a_budget(tmp_path: Path) -> None:
    made = sample.f4(tmp_path / "f4")
    dataset = rolltape.open(made.root, table_memory=1)
    assert levels(dataset) == coded(made)
    assert len(dataset._pictures._images[FRONT]._kept) == 1


def test_an_image_row_that_is_null_is_no_footage(tmp_path: Path) -> None:
    made = sample.f4(tmp_path / "f4")

    def without(table: Any) -> Any:
        rows = table.column(FRONT).to_pylist()
        rows[6] = None
        return sample.set_column(table, FRONT, rows)

    sample.edit_table(made.root / "data/chunk-000/file-000.parquet", without)
    dataset = rolltape.open(made.root)
    assert sample.read_level(dataset[5][FRONT]) == made.level(5)
    with pytest.raises(errors.NoFootageError, match="no picture"):
        dataset[6]
