from __future__ import annotations

import pyarrow as pa
import pytest

from rolltape.errors import FormatError
from rolltape.format import data_schema, episode_schema, parse_feature, parse_features, with_defaults


@pytest.mark.parametrize(
    ("shape", "names", "layout", "hwc"),
    [
        ([480, 640, 3], ["height", "width", "channels"], "HWC", (480, 640, 3)),
        ([480, 640, 3], ["height", "width", "channel"], "HWC", (480, 640, 3)),
        ([3, 480, 640], ["c", "h", "w"], "CHW", (480, 640, 3)),
        ([3, 480, 640], None, "CHW", (480, 640, 3)),
        ([48, 64, 1], None, "HWC", (48, 64, 1)),
        ([3, 4, 3], None, "HWC", (3, 4, 3)),
    ],
)
def test_camera_layouts(shape: list[int], names: object, layout: str, hwc: tuple[int, ...]) -> None:
    camera = parse_feature("cam", {"dtype": "video", "shape": shape, "names": names})
    assert (camera.layout, camera.hwc) == (layout, hwc)


@pytest.mark.parametrize(
    "entry",
    [
        {"info": {"is_depth_map": True}},
        {"info": {"video.is_depth_map": True}},
        {"video_info": {"video.is_depth_map": True}},
    ],
)
def test_three_depth_marks(entry: dict[str, object]) -> None:
    feature = parse_feature("d", {"dtype": "video", "shape": [4, 4, 1], **entry})
    assert feature.is_depth
    assert parse_feature("d", feature.to_json()).to_json() == feature.to_json()


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["a", "b"], ["a", "b"]),
        ({"motors": ["a", "b"]}, ["a", "b"]),
        ({"b": 1, "a": 0}, ["a", "b"]),
        ([["a", "b"]], ["a", "b"]),
        (None, None),
        (True, None),
        (["a"], None),
    ],
)
def test_every_form_of_names(names: object, wanted: object) -> None:
    feature = parse_feature("s", {"dtype": "float32", "shape": [2], "names": names})
    assert feature.element_names == wanted
    assert feature.to_json()["names"] == names


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("a/b", {"dtype": "float32", "shape": [1]}),
        ("..", {"dtype": "float32", "shape": [1]}),
        ("x", {"dtype": "float33", "shape": [1]}),
        ("x", {"dtype": "object", "shape": [1]}),
        ("x", {"dtype": "complex64", "shape": [1]}),
        ("x", {"dtype": "float32", "shape": []}),
        ("x", {"dtype": "float32", "shape": [1] * 6}),
        ("x", {"dtype": "float32", "shape": [-1]}),
        ("x", {"dtype": "float32", "shape": [1.5]}),
        ("x", {"dtype": "float32", "shape": [1 << 40, 1 << 40]}),
        ("x", {"dtype": "video", "shape": [4, 4]}),
        ("x", {"dtype": "float32"}),
        ("x", []),
        ("x", {"dtype": "float32", "shape": [1], "info": 3}),
    ],
)
def test_malformed_features_are_named(name: str, entry: object) -> None:
    with pytest.raises(FormatError, match=r"x|a/b|\.\."):
        parse_feature(name, entry)


def test_A15_a_vector_of_one_is_a_scalar_everywhere() -> None:
    features = parse_features(
        {
            "grip": {"dtype": "float32", "shape": [1]},
            "done": {"dtype": "bool", "shape": (1,)},
            "m": {"dtype": "float32", "shape": [1, 1]},
        }
    )
    schema = data_schema(features)
    assert schema.field("grip").type == pa.float32()
    assert schema.field("done").type == pa.bool_()
    assert features["grip"].item_shape == ()
    assert features["m"].item_shape == (1, 1)
    assert features["done"].to_json()["shape"] == [1]


def test_defaults_come_last_and_win() -> None:
    features = with_defaults(
        parse_features({"timestamp": {"dtype": "float64", "shape": [3]}, "a": {"dtype": "int64", "shape": [1]}})
    )
    assert list(features) == ["a", "timestamp", "frame_index", "episode_index", "index", "task_index"]
    assert features["timestamp"].dtype == "float32"


def test_episode_schema_has_every_column_from_the_start() -> None:
    features = with_defaults(
        parse_features(
            {
                "s": {"dtype": "float32", "shape": [2]},
                "note": {"dtype": "string", "shape": [1]},
                "empty": {"dtype": "float32", "shape": [0]},
                "cam": {"dtype": "video", "shape": [4, 4, 3]},
            }
        )
    )
    names = episode_schema(features, {"operator": "string"}).names
    assert "stats/s/q99" in names
    assert "stats/cam/mean" in names
    assert "videos/cam/from_timestamp" in names
    assert not [name for name in names if "note" in name or "empty" in name]
    assert names[-2:] == ["operator", "rolltape/recovered"]
    with pytest.raises(FormatError):
        episode_schema(features, {"operator": "complex"})
    with pytest.raises(FormatError):
        episode_schema(features, {"tasks": "string"})
