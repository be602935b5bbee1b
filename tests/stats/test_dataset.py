"""Statistics of a whole dataset: as a recording grows, as it is gone on with, and as it is made anew."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltape.format import Feature, parse_features
from rolltape.format.paths import QUANTILES_PATH, STATS_PATH
from rolltape.format.stats import QUANTILES, StatisticsWarning, from_json, to_json
from rolltape.write.statistics import DatasetStatistics, EpisodeStatistics, PictureStats
from stats.test_reference import GOLDEN, SETS, episode_rows, table_columns

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def recorded(features: dict[str, Feature], episodes: list[dict[str, Array]]) -> DatasetStatistics:
    whole = DatasetStatistics.empty(features)
    for columns in episodes:
        whole = whole.with_episode(EpisodeStatistics(features).finish(columns), columns)
    return whole


def test_A55_two_episodes_far_apart() -> None:
    rng = np.random.default_rng(0)
    episodes = [{"x": rng.uniform(-10, 10, 900)}, {"x": rng.uniform(40, 50, 100)}]
    features = {"x": Feature("x", "float64", (1,))}
    stored = json.loads(recorded(features, episodes).stats_json())["x"]
    rows = np.concatenate([one["x"] for one in episodes])
    for key, share in QUANTILES.items():
        assert abs(stored[key][0] - np.quantile(rows, share)) <= 0.01 * np.ptp(rows), key
    assert stored["mean"][0] == pytest.approx(rows.mean())
    assert stored["std"][0] == pytest.approx(rows.std())
    assert stored["count"] == [1000]


def test_A55_ten_times_as_many_rows_stay_within_half_a_percent_of_rank() -> None:
    rng = np.random.default_rng(1)
    episodes = [{"x": rng.uniform(-10, 10, 900) if k % 10 else rng.uniform(40, 50, 900)} for k in range(40)]
    features = {"x": Feature("x", "float64", (1,))}
    found = recorded(features, episodes).stats["x"]
    rows = np.sort(np.concatenate([one["x"] for one in episodes]))
    for key, share in QUANTILES.items():
        assert abs(np.searchsorted(rows, found[key][0]) / len(rows) - share) <= 0.005, key


def test_the_state_before_a_commit_stays() -> None:
    features = {"x": Feature("x", "float32", (2,))}
    rng = np.random.default_rng(2)
    episodes = [{"x": rng.random((400, 2), dtype=np.float32)} for _ in range(12)]
    before = recorded(features, episodes[:8])
    texts = before.stats_json(), before.quantiles_npz()
    tried = before.with_episode(EpisodeStatistics(features).finish(episodes[8]), episodes[8])
    assert (before.stats_json(), before.quantiles_npz()) == texts
    again = before.with_episode(EpisodeStatistics(features).finish(episodes[8]), episodes[8])
    assert again.stats_json() == tried.stats_json()
    assert again.quantiles_npz() == tried.quantiles_npz()


def test_many_episodes_at_once() -> None:
    features = {"x": Feature("x", "float32", (2,)), "front": Feature("front", "video", (8, 8, 3))}
    rng = np.random.default_rng(3)
    finished = []
    for _ in range(5):
        pictures = PictureStats(features["front"])
        for frame in rng.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8):
            pictures.add(frame)
        columns = {"x": rng.random((6, 2), dtype=np.float32)}
        finished.append(EpisodeStatistics.of(columns, {"front": pictures}, features, 6))
    at_once = DatasetStatistics.empty(features).with_episodes(finished)
    one_by_one = DatasetStatistics.empty(features)
    for one in finished:
        one_by_one = one_by_one.with_episode(one.stats, one.columns, one.histograms)
    assert at_once.stats_json() == one_by_one.stats_json()
    assert list(at_once.stats) == ["x", "front"]
    assert list(at_once.stats["front"]) == ["min", "max", "mean", "std", "count", *QUANTILES]


def written(root: Path, whole: DatasetStatistics) -> None:
    (root / "meta").mkdir(parents=True, exist_ok=True)
    (root / STATS_PATH).write_bytes(whole.stats_json())
    (root / QUANTILES_PATH).write_bytes(whole.quantiles_npz())


def test_going_on_with_a_recording(tmp_path: Path) -> None:
    features = {"x": Feature("x", "float32", (2,)), "n": Feature("n", "int64", (1,))}
    rng = np.random.default_rng(4)
    episodes: list[dict[str, Array]] = [
        {"x": rng.normal(size=(300, 2)).astype(np.float32), "n": np.arange(300) + 300 * k} for k in range(10)
    ]
    written(tmp_path, recorded(features, episodes[:6]))
    loaded = DatasetStatistics.load(tmp_path, features, 1_800)
    assert loaded.stale is None
    for columns in episodes[6:]:
        loaded = loaded.with_episode(EpisodeStatistics(features).finish(columns), columns)
    whole = recorded(features, episodes)
    assert loaded.stats_json() == whole.stats_json()
    assert loaded.quantiles_npz() == whole.quantiles_npz()


def test_files_that_cannot_be_gone_on_with(tmp_path: Path) -> None:
    features = {"x": Feature("x", "float32", (1,)), "front": Feature("front", "video", (8, 8, 3))}
    episodes = [{"x": np.random.default_rng(k).random(50, dtype=np.float32)} for k in range(3)]

    def reason(total: int = 150, of: dict[str, Feature] = features) -> str:
        return DatasetStatistics.load(tmp_path, of, total).stale or ""

    assert DatasetStatistics.load(tmp_path, features, 0).stale is None
    assert "stats.json is missing" in reason()
    written(tmp_path, recorded(features, episodes))
    assert reason() == ""
    assert "do not cover" in reason(200)
    assert "does not belong" in reason(of={"y": Feature("y", "float32", (1,))})
    # Another writer went on: the two files are not of one commit any more.
    stats = from_json((tmp_path / STATS_PATH).read_bytes(), STATS_PATH)
    stats["x"]["mean"] = stats["x"]["mean"] + 1
    (tmp_path / STATS_PATH).write_bytes(to_json(stats))
    assert "not of the same commit" in reason()
    # The order of the features, and how numbers are spelt, make no difference.
    written(tmp_path, recorded(features, episodes))
    text = json.loads((tmp_path / STATS_PATH).read_bytes())
    text["x"] = {key: text["x"][key] for key in reversed(text["x"])}
    (tmp_path / STATS_PATH).write_text(json.dumps(text))
    assert reason() == ""
    (tmp_path / QUANTILES_PATH).write_bytes(b"no")
    assert "damaged" in reason()
    (tmp_path / QUANTILES_PATH).unlink()
    assert "quantiles.npz is missing" in reason()
    (tmp_path / STATS_PATH).write_text("{")
    assert "not valid JSON" in reason()


@pytest.mark.parametrize("name", SETS)
def test_a_dataset_of_the_reference_is_made_anew(name: str, tmp_path: Path) -> None:
    root = GOLDEN / name
    features = parse_features(json.loads((root / "meta/info.json").read_text())["features"])
    known = from_json((root / "meta/stats.json").read_bytes(), STATS_PATH)
    by_episode = table_columns(root, features)
    total = sum(len(one["index"]) for one in by_episode.values())
    assert DatasetStatistics.load(root, features, total).stale == "quantiles.npz is missing"
    rebuilt = DatasetStatistics.rebuild(features, by_episode.values(), episode_rows(root), known)
    assert set(rebuilt.stats) == set(known)
    for feature, one in rebuilt.stats.items():
        assert set(one) == set(known[feature])
        for stat in ("min", "max", "mean"):
            np.testing.assert_allclose(one[stat], known[feature][stat], rtol=1e-6, atol=1e-7, err_msg=feature)
        if features[feature].is_camera:
            np.testing.assert_allclose(one["q90"], known[feature]["q90"], rtol=1e-6)
        else:
            rows = np.concatenate([columns[feature] for columns in by_episode.values()]).astype(np.float64)
            rows = rows.reshape(-1, features[feature].shape[-1])
            assert one["count"].tolist() == [total]
            np.testing.assert_allclose(one["std"], rows.std(axis=0), rtol=1e-9, atol=1e-9)
            for key, share in QUANTILES.items():
                np.testing.assert_allclose(one[key], np.quantile(rows, share, axis=0), rtol=1e-9, atol=1e-9)
    cameras = tuple(key for key, feature in features.items() if feature.is_camera)
    assert set(rebuilt.approximate) == set(cameras)
    assert bool(rebuilt.approximate) == any("quantiles of the whole are not known" in note for note in rebuilt.notes)
    written(tmp_path, rebuilt)
    assert DatasetStatistics.load(tmp_path, features, total).stale is None


def test_A55_streamed_cameras_do_not_outweigh_recorded_ones() -> None:
    """The reference's streaming mode counts pixels; a new episode must not vanish beside them."""
    root = GOLDEN / "streamed_h264_60x17"
    features = parse_features(json.loads((root / "meta/info.json").read_text())["features"])
    rows = episode_rows(root)
    camera = "observation.images.front"
    assert rows[0][camera]["count"][0] > 17
    whole = DatasetStatistics.rebuild(features, table_columns(root, features).values(), rows)
    assert whole.stats[camera]["count"].tolist() == [60 * 17]
    before = whole.stats[camera]["mean"]
    pictures = PictureStats(features[camera])
    for _ in range(17):
        pictures.add(np.full((64, 64, 3), 255, np.uint8))
    columns = table_columns(root, features)[0]
    grown = whole.with_episodes([EpisodeStatistics.of(columns, {camera: pictures}, features, 17)])
    np.testing.assert_allclose(grown.stats[camera]["mean"], (before * 60 + 1.0) / 61, rtol=1e-9)
    assert grown.approximate == (camera,)


def test_rebuild_without_episode_statistics() -> None:
    features = {"x": Feature("x", "float32", (1,)), "front": Feature("front", "video", (8, 8, 3))}
    level = np.full((3, 1, 1), 0.25)
    known = {"front": {**dict.fromkeys(("min", "max", "mean", "std"), level), "count": np.array([4])}}
    rows: Array = np.arange(1200, dtype=np.float32)
    pieces = [{"x": rows[start : start + 2]} for start in range(0, 1200, 2)]
    whole = DatasetStatistics.rebuild(features, pieces, [{}, {"front": {"mean": np.zeros(3)}}], known)
    assert whole.stats["front"]["mean"].ravel().tolist() == [0.25] * 3
    assert "q50" not in whole.stats["front"]
    assert any("left out" in note for note in whole.notes)
    assert whole.stats["x"]["count"].tolist() == [1200]
    np.testing.assert_allclose(whole.stats["x"]["std"], rows.astype(np.float64).std())
    with pytest.warns(StatisticsWarning, match="left out"):
        whole.warn()


def test_row_statistics_fit_the_episodes_schema() -> None:
    from rolltape.format import EpisodeRow, episode_schema, rows_to_table

    features = parse_features(json.loads((GOLDEN / "depth_mm/meta/info.json").read_text())["features"])
    features["tactile"] = Feature("tactile", "float32", (2, 3))
    columns: dict[str, Array] = {
        name: np.zeros((4, *one.shape), one.numpy_dtype) for name, one in features.items() if one.is_numeric
    }
    front, far = (
        PictureStats(features[name]) for name in ("observation.images.front", "observation.images.front_depth")
    )
    for _ in range(4):
        front.add(np.zeros((64, 64, 3), np.uint8))
        far.add(np.full((64, 64), 900, np.uint16))
    one = EpisodeStatistics.of(columns, {front.feature.name: front, far.feature.name: far}, features, 4)
    row = EpisodeRow(0, ("look",), 4, 0, 0, 0, 4, stats=one.stats)
    table = rows_to_table([row], episode_schema(features))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    empty = [name for name in table.column_names if name.startswith("stats/") and table[name].null_count]
    assert empty == []
    assert table["stats/observation.images.front_depth/q50"].to_pylist() == [[[[900.0]]]]
    assert table["stats/tactile/mean"].to_pylist() == [[0.0, 0.0, 0.0]]
