"""The arithmetic of depth codes."""

from __future__ import annotations

import numpy as np
import pytest

from rolltape.errors import FormatError
from rolltape.format import DepthEncoderConfig
from rolltape.video import depth

LOG, EVEN = DepthEncoderConfig(), DepthEncoderConfig(use_log=False)


@pytest.mark.parametrize("config", [LOG, EVEN, DepthEncoderConfig(depth_min=0.1, depth_max=3.0, shift=0.0)])
@pytest.mark.parametrize("unit", ["m", "mm"])
def test_codes_come_back(config: DepthEncoderConfig, unit: depth.Unit) -> None:
    codes = np.arange(4096, dtype=np.uint16).reshape(64, 64)
    metres = depth.dequantize(codes, config, "m")
    assert metres.dtype == np.float32
    assert np.float32(config.depth_min) <= metres.min()
    assert metres.max() <= np.float32(config.depth_max)
    assert (np.diff(metres.ravel()) > 0).all()
    frame = metres if unit == "m" else metres * np.float32(1000)
    assert np.array_equal(depth.quantize(frame, unit, config), codes)


def test_millimetres_are_whole_and_units_follow_the_dtype() -> None:
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    codes = depth.quantize(ramp, None, LOG)
    back = depth.dequantize(codes, LOG)
    inside = (ramp >= 10) & (ramp <= 10000)
    assert np.array_equal(back, np.rint(back))
    assert np.abs(back - ramp)[inside].max() <= 2.5
    assert (back[ramp > 10000] == 10000).all()
    assert (back[ramp < 10] == 10).all()
    assert np.abs(depth.quantize((ramp / np.float32(1000)), None, LOG).astype(int) - codes).max() <= 1
    assert depth.unit_of(np.float32) == depth.unit_of(np.float64) == "m"
    assert depth.unit_of(np.uint16) == depth.unit_of(np.int32) == "mm"


@pytest.mark.parametrize("config", [LOG, EVEN])
def test_A71_zero_nan_and_far(config: DepthEncoderConfig) -> None:
    frame = np.array([[0.0, np.nan, np.inf, -9.0, 0.005, 5.0, 12.0, -np.inf]], np.float32)
    assert depth.quantize(frame, "m", config)[0, [0, 1, 3, 4, 7]].tolist() == [0] * 5
    assert depth.quantize(frame, "m", config)[0, [2, 6]].tolist() == [4095] * 2
    assert depth.count_outside(frame, "m", config) == 6  # all but 0 (no measurement) and 5 m
    assert depth.count_outside(np.array([[0, 9, 10, 10000, 10001]], np.uint16), None, config) == 2


def test_shapes_and_buffers() -> None:
    frame = np.full((4, 6), 1000, np.uint16)
    for shaped in (frame, frame[None], frame[..., None]):
        assert depth.quantize(shaped, "mm", LOG).shape == (4, 6)
    out = np.empty((4, 6), np.float32)
    assert depth.dequantize(depth.quantize(frame, "mm", LOG), LOG, out=out) is out
    assert (out == 1000).all()
    with pytest.raises(FormatError, match="'m' or 'mm'"):
        depth.quantize(frame, "km", LOG)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(FormatError):
        depth.dequantize(frame, LOG, "inch")  # type: ignore[arg-type]  # on purpose


def test_step_is_the_distance_between_codes() -> None:
    for config in (LOG, EVEN):
        metres = depth.dequantize(np.arange(4096, dtype=np.uint16), config, "m").astype(float)
        for code in (10, 1000, 4000):
            assert depth.quantisation_step(metres[code], config) == pytest.approx(
                metres[code + 1] - metres[code], rel=2e-3
            )
