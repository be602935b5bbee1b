from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolltape.errors import FormatError, WindowError
from rolltape.format import Rate


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, None, "30", [30]])
def test_A14_bad_fps_is_refused_by_name(bad: object) -> None:
    with pytest.raises(FormatError, match="fps"):
        Rate.parse(bad)


def test_A14_fractional_fps_keeps_full_precision() -> None:
    rate = Rate.parse(29.97)
    assert rate.fraction == Fraction(2997, 100)
    assert rate.seconds(2997 * 60) == 6000.0
    ntsc = Rate.parse(29.97, [30000, 1001])
    assert ntsc.seconds(30000) == 1001.0
    assert ntsc.timestamps(4).dtype == np.float32


@pytest.mark.parametrize("bad", [[0, 1], [30000], "x", [30000, 2002], [30000.0, 1001], [True, 1]])
def test_fps_fraction_must_fit(bad: object) -> None:
    with pytest.raises(FormatError):
        Rate.parse(29.97, bad)


def test_A12_boundaries_come_from_integers() -> None:
    for fps in (7, 24, 30):
        rate = Rate.parse(fps)
        for start in range(0, 60 * 17, 17):
            assert abs(rate.seconds(start) - start / fps) < 1e-9
            assert rate.frame_at(rate.seconds(start)) == start
            assert rate.frame_at(rate.seconds(start) + 0.4 / fps) == start


@given(st.integers(1, 240), st.integers(0, 10_000_000))
def test_frame_number_survives_seconds(fps: int, frame: int) -> None:
    rate = Rate.parse(fps)
    assert rate.frame_at(rate.seconds(frame)) == frame
    assert rate.frames_at(np.array([rate.seconds(frame)]))[0] == frame


def test_timestamps_equal_the_reference_rounding() -> None:
    wanted = np.array([i / 30 for i in range(1000)], np.float64).astype(np.float32)
    assert np.array_equal(Rate.parse(30).timestamps(1000), wanted)


def test_steps_on_and_off_the_grid() -> None:
    rate = Rate.parse(10)
    assert rate.steps([-0.2, 0, 0.1, 0.30005]) == [-2, 0, 1, 3]
    with pytest.raises(WindowError, match=r"0\.15") as caught:
        rate.steps([0.1, 0.15], key="action")
    assert "action" in str(caught.value)
    with pytest.raises(WindowError):
        rate.steps([math.nan])
