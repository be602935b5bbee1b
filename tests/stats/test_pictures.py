"""Statistics of pictures: units, sampled frames, memory, spilling."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolltape.errors import EpisodeError
from rolltape.format import Feature
from rolltape.format.episode_stats import sample_count, sample_indices
from rolltape.format.quantiles import QuantileState
from rolltape.format.sketch import Bins, Sketch
from rolltape.format.stats import QUANTILES, StatisticsWarning
from rolltape.write.frames import FrameForm
from rolltape.write.statistics import DatasetStatistics, EpisodeStatistics, PictureStats

CAMERA = "observation.images.front"


def colour(height: int = 48, width: int = 64, channels: int = 3) -> Feature:
    return Feature(CAMERA, "video", (height, width, channels), ["height", "width", "channels"])


def depth(height: int = 48, width: int = 64, unit: str = "mm") -> Feature:
    return Feature(CAMERA, "video", (height, width, 1), info={"is_depth_map": True, "depth_unit": unit})


@pytest.mark.parametrize("dtype", ["video", "image"])
def test_A56_std_of_noise(dtype: str) -> None:
    """The same for float and uint8 input, for images and for videos: the frames as recorded, before encoding."""
    camera = Feature(CAMERA, dtype, (256, 256, 3), ["height", "width", "channels"])
    rng = np.random.default_rng(0)
    noise = rng.random((10, 256, 256, 3), dtype=np.float32)
    form = FrameForm({CAMERA: camera})
    found = []
    for frames in (noise, np.floor(noise * 256).astype(np.uint8)):
        gathered = PictureStats(camera)
        for frame in frames:
            values, *_ = form.read({CAMERA: frame, "task": "look"}, None, gathered.frames)
            gathered.add(values[0])
        found.append(gathered.finish(10))
    for stats in found:
        assert all(array.shape == (3, 1, 1) for stat, array in stats.items() if stat != "count")
        assert np.abs(stats["mean"] - 0.5).max() < 0.01
        assert np.abs(stats["std"] - 0.289).max() < 0.01
        assert stats["count"].tolist() == [10]
        assert (stats["min"] == 0).all()
        assert (stats["max"] == 1).all()
    np.testing.assert_allclose(found[0]["mean"], found[1]["mean"], atol=0.003)
    np.testing.assert_allclose(found[0]["std"], found[1]["std"], atol=0.003)


@pytest.mark.parametrize("length", [1, 99, 130, 600])
def test_only_sampled_frames_count(length: int) -> None:
    camera = colour(4, 4)
    gathered = PictureStats(camera)
    levels = (np.arange(length) * 7 % 256).astype(np.uint8)
    for level in levels:
        gathered.add(np.full((4, 4, 3), level, np.uint8))
    stats = gathered.finish(length)
    picked = levels[sample_indices(length)].astype(np.float64) / 255
    assert stats["count"].tolist() == [sample_count(length)]
    np.testing.assert_allclose(stats["mean"].ravel(), picked.mean(), rtol=1e-12)
    np.testing.assert_allclose(stats["std"].ravel(), picked.std(), rtol=1e-9, atol=1e-12)
    for key, q in QUANTILES.items():
        expected = np.quantile(picked, q, method="inverted_cdf")
        np.testing.assert_allclose(stats[key].ravel(), expected, err_msg=key)
    assert gathered.histogram.frames == sample_count(length)
    assert gathered.histogram.pixels.rows == sample_count(length) * 16


def test_a_take_that_was_cut_short_takes_its_first_frames() -> None:
    gathered = PictureStats(colour(4, 4))
    for level in range(10):
        gathered.add(np.full((4, 4, 3), level, np.uint8))
    stats = gathered.finish(5)
    assert stats["max"].ravel().tolist() == [4 / 255] * 3
    again = gathered.finish(5)
    assert all(np.array_equal(again[stat], stats[stat]) for stat in stats)
    with pytest.raises(EpisodeError, match="fewer pictures"):
        gathered.finish(11)


@pytest.mark.parametrize("spilled_to", ["named", "nameless"])
@pytest.mark.parametrize("kind", ["colour", "millimetres", "metres"])
def test_memory_is_bounded(tmp_path: Path, kind: str, spilled_to: str) -> None:
    rng = np.random.default_rng(1)
    camera = {"colour": colour(), "millimetres": depth(), "metres": depth(unit="m")}[kind]
    limit = 40_000
    path = tmp_path / "front.spill" if spilled_to == "named" else None
    bounded, free = PictureStats(camera, spill=path, memory=limit), PictureStats(camera)
    most = 0
    for _ in range(150):
        frame: np.ndarray[Any, Any]
        if kind == "colour":
            frame = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        else:
            frame = rng.integers(400, 900, (48, 64), dtype=np.uint16)
        frame = (frame / 1000).astype(np.float32) if kind == "metres" else frame
        bounded.add(frame)
        free.add(frame)
        most = max(most, bounded.memory)
    assert most <= limit
    assert free.memory > limit
    if path is not None:
        assert path.stat().st_size > limit
    found, expected = bounded.finish(150), free.finish(150)
    for stat, array in expected.items():
        assert np.array_equal(found[stat], array), stat
    assert bounded.frames == 150
    assert bounded.memory == 0
    assert list(tmp_path.iterdir()) == []


def test_a_spill_file_goes_with_a_discarded_take(tmp_path: Path) -> None:
    gathered = PictureStats(colour(), spill=tmp_path / "spill", memory=1000)
    gathered.add(np.zeros((48, 64, 3), np.uint8))
    assert (tmp_path / "spill").exists()
    gathered.discard()
    assert not (tmp_path / "spill").exists()


def test_a_full_disk_does_not_end_the_take(tmp_path: Path) -> None:
    gathered = PictureStats(colour(), spill=tmp_path / "no such folder" / "spill", memory=5000)
    caught = 0
    for level in range(20):
        with warnings.catch_warnings(record=True) as got:
            warnings.simplefilter("always")
            gathered.add(np.full((48, 64, 3), level, np.uint8))
        caught += sum(one.category is StatisticsWarning and "stay in memory" in str(one.message) for one in got)
    assert caught == 1
    assert gathered.finish(20)["count"].tolist() == [20]


def test_half_an_hour_of_colour_fits_the_limit() -> None:
    camera = colour(480, 640)
    gathered = PictureStats(camera)
    for _ in range(4):
        gathered.add(np.zeros((480, 640, 3), np.uint8))
    assert gathered.memory / 4 * 30 * 60 * 22 < 64 << 20


def test_depth_keeps_its_unit() -> None:
    gathered = PictureStats(depth())
    for level in (400, 600):
        gathered.add(np.full((48, 64), level, np.uint16))
    stats = gathered.finish(2)
    assert stats["mean"].shape == (1, 1, 1)
    assert stats["mean"].item() == 500.0
    assert stats["std"].item() == 100.0
    assert stats["q99"].item() == 600.0
    pixels = gathered.histogram.pixels
    assert isinstance(pixels, Bins)
    assert (pixels.low, pixels.counts.shape) == (400, (1, 201))


def test_depth_in_metres_with_holes() -> None:
    gathered = PictureStats(depth(unit="m"))
    frame = np.full((48, 64), 2.0, np.float32)
    frame[0, :] = np.nan
    frame[1, 0] = np.inf
    gathered.add(frame)
    stats = gathered.finish(1)
    assert (stats["min"].item(), stats["max"].item(), stats["std"].item()) == (2.0, 2.0, 0.0)
    assert isinstance(gathered.histogram.pixels, Sketch)


def test_much_depth_in_metres_goes_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltape.write.picture_stats._GROUP", 10_000)
    rng = np.random.default_rng(2)
    gathered = PictureStats(depth(unit="m"))
    frames = rng.gamma(2.0, size=(20, 48, 64)).astype(np.float32)
    for frame in frames:
        gathered.add(frame)
    stats = gathered.finish(20)
    values = np.sort(frames.astype(np.float64).ravel())
    assert (stats["min"].item(), stats["max"].item()) == (values[0], values[-1])
    assert stats["mean"].item() == pytest.approx(values.mean())
    assert stats["std"].item() == pytest.approx(values.std())
    assert stats["count"].tolist() == [20]
    for key, share in QUANTILES.items():
        assert abs(np.searchsorted(values, stats[key].item()) / len(values) - share) <= 0.005


@pytest.mark.parametrize("shape", [(48, 64), (48, 64, 1), (1, 48, 64)])
def test_shapes_of_a_depth_frame(shape: tuple[int, ...]) -> None:
    gathered = PictureStats(depth())
    gathered.add(np.full(shape, 7, np.uint16))
    assert gathered.finish(1)["max"].item() == 7.0
    assert gathered.histogram.pixels.rows == 48 * 64


def test_wrong_pictures_are_refused() -> None:
    with pytest.raises(EpisodeError, match="frame 0"):
        PictureStats(colour()).add(np.zeros((48, 64, 3), np.float32))
    with pytest.raises(EpisodeError, match="expect"):
        PictureStats(colour()).add(np.zeros((48, 64, 4), np.uint8))
    mixed = PictureStats(depth())
    mixed.add(np.zeros((48, 64), np.uint16))
    with pytest.raises(EpisodeError, match="one dtype"):
        mixed.add(np.zeros((48, 64), np.float32))
    with pytest.raises(EpisodeError, match="16 bits"):
        PictureStats(depth()).add(np.full((48, 64), 70_000, np.int32))
    with pytest.raises(EpisodeError, match="not finished"):
        _ = PictureStats(colour()).histogram


def test_grey_cameras() -> None:
    gathered = PictureStats(colour(channels=1))
    gathered.add(np.full((48, 64), 51, np.uint8))
    gathered.add(np.full((48, 64, 1), 51, np.uint8))
    assert gathered.finish(2)["mean"].tolist() == [[[0.2]]]


def test_quantiles_of_all_sampled_pixels() -> None:
    """Two episodes of different brightness: the whole is what numpy says of all pixels, not a mean of two."""
    features = {CAMERA: colour(8, 8), "index": Feature("index", "int64", (1,))}
    whole = DatasetStatistics.empty(features)
    rng = np.random.default_rng(4)
    pixels = []
    for episode, (low, high, length) in enumerate([(0, 100, 30), (200, 256, 5)]):
        frames = rng.integers(low, high, (length, 8, 8, 3), dtype=np.uint8)
        pixels.append(frames.reshape(-1, 3))
        gathered = PictureStats(features[CAMERA])
        for frame in frames:
            gathered.add(frame)
        columns = {"index": np.arange(length) + 30 * episode}
        whole = whole.with_episodes([EpisodeStatistics.of(columns, {CAMERA: gathered}, features, length)])
    everything = np.concatenate(pixels) / 255
    for key, q in QUANTILES.items():
        np.testing.assert_allclose(whole.stats[CAMERA][key].ravel(), np.quantile(everything, q, axis=0), err_msg=key)
    np.testing.assert_allclose(whole.stats[CAMERA]["mean"].ravel(), everything.mean(axis=0))
    np.testing.assert_allclose(whole.stats[CAMERA]["std"].ravel(), everything.std(axis=0))
    assert whole.approximate == ()
    again = QuantileState.from_bytes(whole.quantiles_npz(), features)
    assert np.array_equal(again.quantiles()[CAMERA]["q10"], whole.stats[CAMERA]["q10"])
    assert json.loads(whole.stats_json())[CAMERA]["count"] == [35]
