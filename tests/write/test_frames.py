"""What `add_frame` accepts and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import rolltape
from rolltape.errors import FrameError
from rolltape.format import parse_features, with_defaults
from rolltape.write.frames import FrameForm
from sample import FRONT, read_level
from write.recordings import ONE_CAMERA, STATE, TABLES, add, camera, create, picture, record, vector

KINDS = {
    **vector("state", 3),
    "grip": {"dtype": "float32", "shape": [1], "names": None},
    "count": {"dtype": "int64", "shape": [1], "names": None},
    "done": {"dtype": "bool", "shape": [1], "names": None},
    "note": {"dtype": "string", "shape": [1], "names": None},
    **camera("cam"),
}


def form(features: dict[str, Any], **options: Any) -> FrameForm:
    return FrameForm(with_defaults(parse_features(features)), **options)


def good() -> dict[str, Any]:
    return {
        "state": np.zeros(3, np.float32),
        "grip": np.zeros(1, np.float32),
        "count": np.zeros(1, np.int64),
        "done": np.zeros(1, np.bool_),
        "note": "x",
        "cam": picture(0),
    }


def read(features: dict[str, Any], **values: Any) -> dict[str, Any]:
    one = form(features)
    found, _ = one.read(values, "t", 0)
    names = [feature.name for feature in (*one.columns, *one.texts, *one.cameras)]
    return dict(zip(names, found, strict=True))


def problems(features: dict[str, Any], frame: Any, task: Any = "t", **options: Any) -> list[str]:
    with pytest.raises(FrameError) as caught:
        form(features, **options).read(frame, task, 4)
    assert isinstance(caught.value, ValueError)
    assert "frame 4" in str(caught.value)
    for problem in caught.value.problems:
        assert problem in str(caught.value)
    return list(caught.value.problems)


def test_A28_all_problems_are_in_one_error() -> None:
    frame = {
        "state": np.zeros(4, np.float64),
        "count": 1.5,
        "done": np.zeros(1, np.float32),
        "note": 3,
        "cam": np.zeros((8, 8, 3), np.uint8),
        "stranger": 1,
    }
    found = problems(KINDS, frame, None)
    text = "\n".join(found)
    assert len(found) == 8
    for part in (
        "task: missing",
        "state: wanted shape (3,), got (4,); wanted dtype float32, got float64",
        "grip: missing; expected float32 of shape (1,)",
        "count: wanted dtype int64, got float64",
        "done: wanted dtype bool, got float32",
        "note: wanted a text (str), got int",
        "cam: wanted shape (32, 32, 3) or (3, 32, 32), got (8, 8, 3)",
        "stranger: not a feature",
    ):
        assert part in text


def test_the_callers_frame_is_not_changed() -> None:
    frame = {**good(), "task": "lift"}
    kept = dict(frame)
    values, task = form(KINDS).read(frame, None, 0)
    assert task == "lift"
    assert len(values) == 6
    assert frame.keys() == kept.keys()
    assert all(frame[name] is kept[name] for name in frame)


def test_the_argument_wins_over_the_frames_task() -> None:
    assert form(KINDS).read({**good(), "task": "a"}, "b", 0)[1] == "b"


@pytest.mark.parametrize("value", [0.1, np.float32(0.1), np.float64(0.1), np.array(0.1, np.float32), [0.1], (0.1,)])
def test_numbers_for_a_scalar(value: Any) -> None:
    found = read({"grip": KINDS["grip"]}, grip=value)["grip"]
    assert found.dtype == np.float32
    assert found.tolist() == [np.float32(0.1)]


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("int64", 3, True),
        ("int64", np.int8(3), True),
        ("int64", np.zeros(1, np.int32), True),
        ("int64", np.zeros(1, np.uint64), False),
        ("int64", 3.0, False),
        ("int64", True, True),
        ("uint8", 300, False),
        ("uint8", -1, False),
        ("int8", np.zeros(1, np.int64), False),
        ("float64", np.zeros(1, np.float32), True),
        ("float32", np.zeros(1, np.float64), False),
        ("float32", np.zeros(1, np.uint8), True),
        ("float32", np.zeros(1, np.int64), False),
        ("float32", 7, True),
        ("bool", True, True),
        ("bool", np.bool_(True), True),
        ("bool", 1, False),
        ("float32", "7", False),
        ("float32", None, False),
        ("float32", b"7", False),
        ("float32", [[1, 2], [3]], False),
        ("float32", np.array([1 + 2j]), False),
        ("float32", {"a": 1}, False),
    ],
)
def test_casts_lose_nothing(dtype: str, value: Any, fits: bool) -> None:
    features = {"x": {"dtype": dtype, "shape": [1], "names": None}}
    if fits:
        assert read(features, x=value)["x"].dtype == np.dtype(dtype)
    else:
        assert len(problems(features, {"x": value})) == 1


def test_whether_a_cast_is_allowed_does_not_depend_on_the_values() -> None:
    for value in (np.zeros(3), np.full(3, 0.1), np.full(3, 1e300)):
        assert "float64" in problems(vector("x", 3), {"x": value})[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_numbers_are_refused_by_name_and_place(value: float) -> None:
    [problem] = problems(vector("x", 3), {"x": np.array([0, value, 1], np.float32)})
    assert problem.startswith("x: wanted finite numbers")
    assert "[1]" in problem
    assert 'non_finite="keep"' in problem


def test_large_finite_numbers_are_no_problem() -> None:
    values = np.array([3e38, -3e38, 1e30], np.float32)
    assert read(vector("x", 3), x=values)["x"] is values


def test_non_finite_numbers_can_be_kept(tmp_path: Path) -> None:
    with create(tmp_path / "set", TABLES, non_finite="keep") as writer:
        add(writer, 3, TABLES)
        writer.add_frame({STATE: np.array([np.nan, 0], np.float32), "action": np.zeros(2, np.float32)}, task="t")
        with pytest.warns(UserWarning, match=r"observation\.state.*not finite"):
            writer.save_episode()
    assert np.isnan(rolltape.open(tmp_path / "set")[3][STATE][0])


@pytest.mark.parametrize(
    "make",
    [
        lambda p: p,
        lambda p: p.transpose(2, 0, 1),
        lambda p: p.astype(np.float32) / 255,
        lambda p: p.transpose(2, 0, 1).astype(np.float64) / 255,
        Image.fromarray,
        lambda p: Image.fromarray(p).convert("P", palette=Image.Palette.ADAPTIVE),
        lambda p: p.tolist(),
    ],
)
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_pictures_in_every_form(make: Any, layout: str) -> None:
    feature = {"dtype": "image", "shape": [24, 32, 3], "names": ["height", "width", "channels"]}
    if layout == "CHW":
        feature = {"dtype": "image", "shape": [3, 24, 32], "names": ["channels", "height", "width"]}
    picture = np.random.default_rng(0).choice(np.array([0, 100, 255], np.uint8), (24, 32, 1)).repeat(3, axis=2)
    found = read({"cam": feature}, cam=make(picture))["cam"]
    assert found.dtype == np.uint8
    assert np.array_equal(found, picture)


def test_torch_tensors_are_accepted() -> None:
    torch = pytest.importorskip("torch")
    frame = {**good(), "state": torch.ones(3), "grip": torch.tensor(0.5), "cam": torch.zeros(3, 32, 32)}
    values, _ = form(KINDS).read(frame, "t", 0)
    assert values[0].tolist() == [1, 1, 1]
    assert values[1].tolist() == [0.5]
    assert problems(KINDS, {**frame, "state": torch.ones(3, dtype=torch.bfloat16)})


def test_a_shape_that_fits_both_ways_is_taken_as_declared() -> None:
    value = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    hwc = {"cam": {"dtype": "image", "shape": [3, 3, 3], "names": ["height", "width", "channels"]}}
    chw = {"cam": {"dtype": "image", "shape": [3, 3, 3], "names": ["channels", "height", "width"]}}
    assert np.array_equal(read(hwc, cam=value)["cam"], value)
    assert np.array_equal(read(chw, cam=value)["cam"], value.transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.full((32, 32, 3), 1.1, np.float32), "floats in [0, 1]"),
        (np.full((32, 32, 3), -0.1, np.float32), "floats in [0, 1]"),
        (np.full((32, 32, 3), np.nan, np.float32), "floats in [0, 1]"),
        (np.zeros((32, 32, 3), np.int64), "wanted uint8"),
        (np.zeros((32, 3, 32), np.uint8), "wanted shape"),
        (np.zeros((2, 32, 32, 3), np.uint8), "wanted shape"),
        (Image.new("RGB", (31, 32)), "32x32, got 31x32"),
        (Image.new("RGBA", (32, 32)), "mode RGB"),
        ("front.png", "wanted an array"),
        (None, "wanted an array"),
    ],
)
def test_pictures_that_do_not_fit(value: Any, text: str) -> None:
    [problem] = problems(camera("cam"), {"cam": value})
    assert text in problem


def depth(**info: Any) -> dict[str, Any]:
    return {"d": {"dtype": "video", "shape": [6, 8, 1], "names": None, "info": {"is_depth_map": True, **info}}}


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 1), (1, 6, 8)])
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32, np.float64])
def test_depth_in_every_form(shape: tuple[int, ...], dtype: Any) -> None:
    found = read(depth(), d=np.arange(48).reshape(shape).astype(dtype))["d"]
    assert found.shape == (6, 8)
    assert found.dtype == (np.float32 if np.dtype(dtype).kind == "f" else np.uint16)
    assert found.ravel().tolist() == list(range(48))


def test_depth_has_one_unit() -> None:
    assert "depth in mm" in problems(depth(depth_unit="mm"), {"d": np.zeros((6, 8), np.float32)})[0]
    assert "millimetres in 0..65535" in problems(depth(), {"d": np.full((6, 8), 70_000)})[0]


def test_A28_a_dataset_is_copied_by_feeding_back_what_was_read(tmp_path: Path) -> None:
    features = {**TABLES, **camera(FRONT, "image")}
    source = record(tmp_path / "one", features=features)
    dataset = rolltape.open(source, delta_timestamps={"action": [0.0]})
    forms: list[Callable[[Any], Any]] = [
        lambda p: p,
        lambda p: p.transpose(1, 2, 0),
        lambda p: p.astype(np.float32) / 255,
        lambda p: Image.fromarray(p.transpose(1, 2, 0)),
    ]
    with create(tmp_path / "two", features) as writer:
        for index in range(len(dataset)):
            item = dict(dataset[index])
            item["action"] = item["action"][0]
            item[FRONT] = forms[index % len(forms)](np.asarray(item[FRONT]))
            writer.add_frame(item)
            if index in (4, 11, 15):
                writer.save_episode()
    copied = rolltape.open(tmp_path / "two")
    for index in range(16):
        for name in (STATE, "action", FRONT, "timestamp", "episode_index"):
            assert np.array_equal(rolltape.open(source)[index][name], copied[index][name])


def test_language_columns_are_left_empty_with_a_warning(tmp_path: Path) -> None:
    features = {**TABLES, "language_events": {"dtype": "language", "shape": [1], "names": None}}
    with create(tmp_path / "set", features) as writer:
        add(writer, 1, TABLES)
        frame = {STATE: np.array([0, 1], np.float32), "action": np.zeros(2, np.float32)}
        with pytest.warns(UserWarning, match="language_events"):
            writer.add_frame({**frame, "language_events": [{"role": "user"}]}, task="t")
        writer.save_episode()
    assert rolltape.open(tmp_path / "set").table().column("language_events").to_pylist() == [[], []]


def test_a_refused_frame_leaves_no_trace(tmp_path: Path) -> None:
    with create(tmp_path / "set") as writer:
        add(writer, 2)
        with pytest.raises(FrameError):
            writer.add_frame({STATE: np.zeros(2, np.float32), "action": np.zeros(3, np.float32), FRONT: picture(9)})
        writer.add_frame(
            {STATE: np.array([0, 2], np.float32), "action": np.zeros(2, np.float32), FRONT: picture(2)}, task="t"
        )
        writer.save_episode()
    dataset = rolltape.open(tmp_path / "set")
    assert [read_level(dataset[k][FRONT]) for k in range(3)] == [12, 24, 36]
    assert set(dataset.features) >= set(ONE_CAMERA)
