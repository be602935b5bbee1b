"""A71: 16-bit depth, as pictures and as video."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from rolltape.errors import FrameError
from rolltape.format import DepthEncoderConfig
from write.recordings import create, info

KEY = "observation.images.depth"


def feature(dtype: str) -> dict[str, Any]:
    return {
        KEY: {
            "dtype": dtype,
            "shape": [32, 32, 1],
            "names": ["height", "width", "channels"],
            "info": {"is_depth_map": True},
        }
    }


def ramp(number: int) -> np.ndarray[Any, Any]:
    """Millimetres 0 to 65535, another stretch in each of five frames."""
    return (np.linspace(0, 65535, 32 * 32 * 5).astype(np.uint16)[number::5]).reshape(32, 32)


def metres(number: int) -> np.ndarray[Any, Any]:
    """Metres 0.1 to 5, with places without a measurement."""
    values = np.linspace(0.1, 5, 32 * 32, dtype=np.float32).reshape(32, 32) + number
    values[0, :4] = 0
    return values


def test_A71_pictures_are_lossless(tmp_path: Path) -> None:
    root = tmp_path / "mm"
    with create(root, feature("image")) as writer:
        for number in range(5):
            writer.add_frame({KEY: ramp(number)}, task="t")
        writer.save_episode()
    dataset = rolltape.open(root, depth_unit="mm")
    for number in range(5):
        assert np.array_equal(np.asarray(dataset[number][KEY]).reshape(32, 32), ramp(number))
    assert info(root)["features"][KEY]["info"]["depth_unit"] == "mm"

    root = tmp_path / "m"
    with create(root, feature("image")) as writer:
        for number in range(5):
            values = metres(number)
            values[1, 1] = np.nan
            writer.add_frame({KEY: values[None]}, task="t")
        writer.save_episode()
    dataset = rolltape.open(root)
    found = np.asarray(dataset[3][KEY]).reshape(32, 32)
    wanted = metres(3)
    assert np.isnan(found[1, 1])
    wanted[1, 1] = found[1, 1] = 0
    assert np.array_equal(found, wanted)
    assert info(root)["features"][KEY]["info"]["depth_unit"] == "m"


def test_A71_video_keeps_to_its_scale_and_says_it(tmp_path: Path) -> None:
    from rolltape.video.depth import quantisation_step

    # x265's lossless mode with 12 bits is not always exact in predicted frames of pictures up to 64 pixels: g=1.
    config = DepthEncoderConfig(depth_max=12.0, g=1)
    root = tmp_path / "set"
    with create(root, feature("video"), depth_encoder=config) as writer:
        for number in range(5):
            writer.add_frame({KEY: metres(number)}, task="t")
        writer.save_episode()
    found = info(root)["features"][KEY]["info"]
    assert (found["depth_unit"], found["is_depth_map"], found["video.depth_max"]) == ("m", True, 12.0)
    dataset = rolltape.open(root)
    step = quantisation_step(9.0, config)
    for number in range(5):
        wanted = metres(number)
        read = np.asarray(dataset[number][KEY]).reshape(32, 32)
        measured = wanted > 0
        assert np.abs(read - wanted)[measured].max() <= step


def test_A71_clipping_is_counted(tmp_path: Path) -> None:
    with create(tmp_path / "set", feature("video")) as writer:
        for _ in range(3):
            values = np.full((32, 32), 2000, np.uint16)
            values[0, :7] = 20_000
            values[1, :5] = 0
            writer.add_frame({KEY: values}, task="t")
        with pytest.warns(UserWarning, match=r"depth.*21 pixels.*0\.01 to 10\.0 m"):
            writer.save_episode()


def test_A71_a_take_has_one_unit(tmp_path: Path) -> None:
    with create(tmp_path / "set", feature("video")) as writer:
        writer.add_frame({KEY: metres(0)}, task="t")
        with pytest.raises(FrameError, match="depth in m"):
            writer.add_frame({KEY: ramp(0)}, task="t")
        writer.discard_episode()
        writer.add_frame({KEY: ramp(0)}, task="t")
        with pytest.warns(UserWarning, match="pixels"):
            writer.save_episode()
    assert info(tmp_path / "set")["features"][KEY]["info"]["depth_unit"] == "mm"
