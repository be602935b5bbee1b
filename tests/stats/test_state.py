"""The state of a dataset's quantiles and its file: round trips, cost, and files that lie."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rolltape.errors import EpisodeError, FormatError, UnknownFeatureError
from rolltape.format import DEFAULT_FEATURES, Feature
from rolltape.format.quantiles import Averaged, PictureHistogram, QuantileState, rebuild, with_frame_counts
from rolltape.format.sketch import Bins, Sketch
from rolltape.format.stats import QUANTILES, Stats, stats_shape

Array = npt.NDArray[Any]
FEATURES: dict[str, Feature] = {
    "observation.state": Feature("observation.state", "float32", (14,)),
    "action": Feature("action", "float32", (14,)),
    "precise": Feature("precise", "float64", (2,)),
    "tactile": Feature("tactile", "float32", (2, 3)),
    "done": Feature("done", "bool", (1,)),
    "bytes": Feature("bytes", "uint8", (4, 2)),
    "note": Feature("note", "string", (1,)),
    "front": Feature("front", "video", (48, 64, 3)),
    "depth": Feature("depth", "video", (48, 64, 1), info={"is_depth_map": True}),
    "metres": Feature("metres", "video", (48, 64, 1), info={"is_depth_map": True}),
    **DEFAULT_FEATURES,
}


def columns(rows: int, episode: int) -> dict[str, Array]:
    rng = np.random.default_rng(episode)
    return {
        "observation.state": rng.normal(size=(rows, 14)).astype(np.float32),
        "action": rng.random((rows, 14), dtype=np.float32),
        "precise": 1e9 + rng.random((rows, 2)),
        "tactile": rng.random((rows, 2, 3), dtype=np.float32),
        "done": np.arange(rows) == rows - 1,
        "bytes": rng.integers(0, 256, (rows, 4, 2), dtype=np.uint8),
        "timestamp": np.arange(rows, dtype=np.float32) / 30,
        "frame_index": np.arange(rows),
        "episode_index": np.full(rows, episode),
        "index": np.arange(rows) + rows * episode,
        "task_index": np.full(rows, episode % 3),
    }


def pictures(episode: int) -> dict[str, PictureHistogram]:
    rng = np.random.default_rng(episode)
    return {
        "front": PictureHistogram(Bins.of(rng.integers(0, 256, (5000, 3), dtype=np.uint8)), 10),
        "depth": PictureHistogram(Bins.of(rng.integers(400, 4000, (5000, 1))), 10),
        "metres": PictureHistogram(Sketch.empty(1, np.float32).insert(rng.random((5000, 1), dtype=np.float32)), 10),
    }


def filled(episodes: int = 12, rows: int = 200) -> QuantileState:
    state = QuantileState.empty(FEATURES)
    for episode in range(episodes):
        state = state.with_rows(columns(rows, episode), pictures(episode))
    return state


def test_round_trip() -> None:
    state = filled()
    data = state.to_bytes()
    again = QuantileState.from_bytes(data, FEATURES)
    assert again.to_bytes() == data
    assert again.frames == state.frames == 2_400
    assert set(again.quantiles()) == set(FEATURES) - {"note"}
    for name, one in state.quantiles().items():
        for key, values in one.items():
            assert values.shape == stats_shape(FEATURES[name])
            assert np.array_equal(again.quantiles()[name][key], values)
    # Both go on alike.
    more = columns(200, 99)
    assert again.with_rows(more).to_bytes() == state.with_rows(more).to_bytes()
    assert QuantileState.from_bytes(QuantileState.empty(FEATURES).to_bytes(), FEATURES).frames == 0


def test_numpy_opens_the_file() -> None:
    with np.load(io.BytesIO(filled(2).to_bytes()), allow_pickle=False) as file:
        assert set(file.files) == {"header", "float32", "float64", "whole", "bins"}
        assert json.loads(file["header"].tobytes())["version"] == 1


def test_quantiles_are_those_of_the_whole() -> None:
    state = filled(7, 200)
    found = state.quantiles()
    everything = [columns(200, episode) for episode in range(7)]
    for name in ("action", "precise", "tactile", "done", "bytes", "index"):
        rows = np.concatenate([one[name] for one in everything]).reshape(-1, FEATURES[name].shape[-1])
        for key, share in QUANTILES.items():
            expected = np.quantile(rows.astype(np.float64), share, axis=0)
            if name == "tactile":  # more rows than a sketch holds
                rank = (rows <= found[name][key]).mean(axis=0)
                assert (np.abs(rank - share) <= 0.005).all()
            else:
                np.testing.assert_allclose(found[name][key], expected, rtol=1e-12, err_msg=f"{name} {key}")


def test_update_by_feature_and_merge() -> None:
    values = np.random.default_rng(1).random(900, dtype=np.float32)
    features = {"x": Feature("x", "float32", (1,))}
    empty = QuantileState.empty(features)
    left, right = empty.with_rows({"x": values[:400]}), empty.with_rows({"x": values[400:]})
    whole = left.merge(right)
    assert whole.frames == 900
    assert (left.frames, right.frames, empty.frames) == (400, 500, 0)
    assert whole.quantiles()["x"]["q50"][0] == pytest.approx(np.quantile(values.astype(np.float64), 0.5))
    with pytest.raises(UnknownFeatureError, match="y"):
        empty.with_rows({"y": values})
    with pytest.raises(EpisodeError, match="do not fit"):
        empty.with_rows({"x": np.zeros((3, 2))})
    wide = QuantileState.empty({"x": Feature("x", "float32", (2,))}).with_rows({"x": np.zeros((3, 2))})
    with pytest.raises(FormatError, match="different kinds"):
        left.merge(wide)


def test_pictures_of_two_kinds_do_not_mix() -> None:
    state = QuantileState.empty(FEATURES).with_rows({}, {"depth": pictures(0)["depth"]})
    with pytest.raises(FormatError, match="different kinds"):
        state.with_rows({}, {"depth": pictures(0)["metres"]})
    with pytest.raises(FormatError, match="3 channels"):
        state.with_rows({}, {"front": pictures(0)["depth"]})


def test_a_state_stays_small() -> None:
    """28 elements and the defaults after 300 episodes: at most 8 KiB for an element."""
    features = {name: FEATURES[name] for name in ("observation.state", "action", *DEFAULT_FEATURES)}
    state = QuantileState.empty(features)
    for episode in range(300):
        state = state.with_rows({name: one for name, one in columns(200, episode).items() if name in features})
    assert len(state.to_bytes()) / 33 <= 8_192


def _stats(**values: Any) -> Stats:
    return {name: {stat: np.asarray(array) for stat, array in one.items()} for name, one in values.items()}


def _camera_stats(level: float, count: int) -> dict[str, Array]:
    full = np.full((3, 1, 1), level)
    return {**dict.fromkeys(("min", "max", "mean", "std", *QUANTILES), full), "count": np.array([count])}


def test_rebuild_from_the_tables() -> None:
    direct = filled(5)
    lengths = {"index": {"count": np.array([200])}}
    episodes = [_stats(front=_camera_stats(level, 100), **lengths) for level in (0.0, 1.0)]
    rebuilt = rebuild(FEATURES, [columns(200, episode) for episode in range(5)], episodes)
    for name, entry in direct.entries.items():
        if FEATURES[name].is_numeric:
            assert np.array_equal(rebuilt.quantiles()[name]["q90"], direct.quantiles()[name]["q90"]), name
            assert type(rebuilt.entries[name]) is type(entry)
    assert rebuilt.approximate == ("front",)
    assert rebuilt.quantiles()["front"]["q50"].ravel().tolist() == [0.5] * 3
    # It stays marked when it grows and when it is stored.
    grown = QuantileState.from_bytes(rebuilt.to_bytes(), FEATURES).with_rows({}, {"front": pictures(1)["front"]})
    assert grown.approximate == ("front",)
    entry = grown.entries["front"]
    assert isinstance(entry, Averaged)
    assert entry.count == 210
    merged = rebuilt.merge(filled(1))
    assert merged.approximate == ("front",)
    assert filled(1).merge(rebuilt).approximate == ("front",)


def test_rebuild_leaves_unknown_camera_quantiles_out() -> None:
    bare = {stat: array for stat, array in _camera_stats(0.5, 10).items() if stat not in QUANTILES}
    rebuilt = rebuild(FEATURES, [], [_stats(front=_camera_stats(0.5, 10)), _stats(front=bare)])
    assert "front" not in rebuilt.quantiles()
    assert rebuilt.approximate == ("front",)
    assert QuantileState.from_bytes(rebuilt.to_bytes(), FEATURES).approximate == ("front",)
    assert rebuild(FEATURES, [], []).approximate == ()


def test_pixel_counts_become_frame_counts() -> None:
    stats = _stats(front=_camera_stats(0.5, 4_096_000), index={"count": np.array([1000])})
    assert with_frame_counts(stats)["front"]["count"].tolist() == [177]
    assert with_frame_counts(_stats(front=_camera_stats(0.5, 100)))["front"]["count"].tolist() == [100]


# Files that are damaged or lie.


def rewritten(data: bytes, change: Any, **arrays: Array) -> bytes:
    """The file with its header changed and arrays replaced."""
    with np.load(io.BytesIO(data)) as file:
        parts = {name: file[name] for name in file.files}
    header = json.loads(parts["header"].tobytes())
    change(header)
    parts["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    target = io.BytesIO()
    np.savez(target, **{**parts, **arrays})
    return target.getvalue()


def _set(where: str, key: str, value: Any) -> Any:
    def change(header: dict[str, Any]) -> None:
        for one in header["features"]:
            if one["name"] == where:
                one[key] = value

    return change


LIES: dict[str, Any] = {
    "version": lambda header: header.update(version=2),
    "no mark": lambda header: header.pop("mark"),
    "features": lambda header: header.update(features={"a": 1}),
    "a feature that is text": lambda header: header["features"].append("x"),
    "a feature twice": lambda header: header["features"].append(header["features"][0]),
    "an unknown feature": lambda header: header["features"].append({"name": "stranger", "kind": "sketch"}),
    "one feature less": lambda header: header["features"].pop(),
    "a number feature less": lambda header: header["features"].pop(0),
    "width": _set("action", "elements", 15),
    "huge width": _set("action", "elements", 1 << 60),
    "kind": _set("action", "kind", "pickle"),
    "kind is a list": _set("action", "kind", []),
    "numbers as means": _set("action", "kind", "averaged"),
    "dtype": _set("action", "dtype", "object"),
    "held": _set("action", "held", "object"),
    "levels": _set("action", "levels", [1 << 50]),
    "negative level": _set("action", "levels", [-1, 5]),
    "no levels": _set("action", "levels", []),
    "many levels": _set("action", "levels", [0] * 1000),
    "turns": _set("action", "turns", [1]),
    "rows": _set("action", "rows", 7),
    "rows as text": _set("action", "rows", "7"),
    "bool rows": _set("action", "rows", True),
    "bins": _set("front", "bins", 1 << 50),
    "low": _set("front", "low", 1 << 50),
    "place": _set("front", "in", "header"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_header_that_lies(lie: str) -> None:
    with pytest.raises(FormatError, match=r"meta/quantiles\.npz"):
        QuantileState.from_bytes(rewritten(filled(12).to_bytes(), LIES[lie]), FEATURES)


def test_arrays_that_lie() -> None:
    data = filled(2).to_bytes()

    def same(header: dict[str, Any]) -> None:
        pass

    for arrays in (
        {"float32": np.zeros(3, np.float32)},
        {"float32": np.zeros((3, 3), np.float32)},
        {"float32": np.zeros(10**6, np.float32)},
        {"whole": np.full(200, -1)},
        {"whole": np.full(200, 1 << 40)},
        {"float64": np.array([object()], object)},
        {"bins": np.zeros(3, np.float64)},
    ):
        with pytest.raises(FormatError):
            QuantileState.from_bytes(rewritten(data, same, **arrays), FEATURES)
    for content in (b"", b"PK", b"hello" * 50, data[:-200], data[: len(data) // 2]):
        with pytest.raises(FormatError, match="do: Remove"):
            QuantileState.from_bytes(content, FEATURES)


def test_a_compressed_bomb_is_not_unpacked() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("header", "float32", "float64", "whole", "bins"):
            archive.writestr(f"{name}.npy", bytes(20_000_000))
    with pytest.raises(FormatError, match="compressed"):
        QuantileState.from_bytes(target.getvalue(), FEATURES)


def test_flipped_bytes_never_give_another_error() -> None:
    data = bytearray(filled(1, 20).to_bytes())
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(data), 300):
        old = data[at]
        data[at] ^= int(rng.integers(1, 256))
        with contextlib.suppress(FormatError):
            QuantileState.from_bytes(bytes(data), FEATURES).quantiles()
        data[at] = old
