"""Time windows: never a frame of another episode, and a mask that says where frames repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rolltape
import sample
from rolltape import errors
from rolltape.format import Rate
from rolltape.read.windows import Window, parse_windows
from sample import ACTION, FRONT, STATE

WINDOWS = {STATE: [-0.2, 0, 0.1], ACTION: [0, 0.1, 0.2], FRONT: [-0.1, 0]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> sample.Sample:
    return sample.f1(tmp_path_factory.mktemp("windows") / "f1")


def assert_window(item: dict[str, Any], made: sample.Sample, index: int, windows: dict[str, list[float]]) -> None:
    """Hold an item's windows against what the frames' identities say."""
    episode, frame = made.where(index)
    for key, deltas in windows.items():
        wanted = [frame + round(delta * made.fps) for delta in deltas]
        inside = [min(max(one, 0), made.lengths[episode] - 1) for one in wanted]
        assert item[f"{key}_is_pad"].tolist() == [a != b for a, b in zip(wanted, inside, strict=True)]
        assert item[f"{key}_is_pad"].dtype == np.bool_
        numbers = [made.starts[episode] + one for one in inside]
        if key == STATE:
            assert item[key].tolist() == [[episode, one] for one in inside]
        elif key == ACTION:
            assert item[key].tolist() == [[one, -one] for one in numbers]
        else:
            assert [sample.read_level(picture) for picture in item[key]] == [made.level(one) for one in numbers]


@pytest.mark.parametrize("episodes", [None, [1], [2], [0, 2], [2, 0]])
def test_A02_windows_with_chosen_episodes(made: sample.Sample, episodes: list[int] | None) -> None:
    dataset = rolltape.open(made.root, episodes=episodes, delta_timestamps=WINDOWS)
    whole = rolltape.open(made.root, delta_timestamps=WINDOWS)
    chosen = range(3) if episodes is None else episodes
    indices = [made.starts[one] + frame for one in chosen for frame in range(made.lengths[one])]
    batch = dataset.batch(range(len(dataset)))
    assert len(dataset) == len(indices)
    for at, index in enumerate(indices):
        item = dataset[at]
        assert_window(item, made, index, WINDOWS)
        assert_window(batch.item(at), made, index, WINDOWS)
        for key, value in whole[index].items():
            np.testing.assert_array_equal(item[key], value)
            np.testing.assert_array_equal(batch.item(at)[key], value)


def test_A03_windows_longer_than_every_episode(made: sample.Sample) -> None:
    windows = {ACTION: [step / 10 for step in range(10)], STATE: [0.0], FRONT: [0.0]}
    dataset = rolltape.open(made.root, delta_timestamps=windows)
    for index in range(16):
        item = dataset[index]
        assert_window(item, made, index, windows)
        assert item[STATE].shape == (1, 2)
        assert item[FRONT].shape == (1, 3, 32, 32)
        assert item[ACTION].shape == (10, 2)
        assert item["timestamp"].shape == ()
    assert not [key for key in dataset[0] if key.endswith("_is_pad") and key.removesuffix("_is_pad") not in windows]


def test_steps_and_seconds_mean_the_same(made: sample.Sample) -> None:
    steps = {key: [round(10 * delta) for delta in deltas] for key, deltas in WINDOWS.items()}
    by_steps = rolltape.open(made.root, delta_steps=steps).batch(range(16))
    by_seconds = rolltape.open(made.root, delta_timestamps=WINDOWS).batch(range(16))
    for key, value in by_seconds.items():
        np.testing.assert_array_equal(by_steps[key], value)


def test_offsets_between_frames_are_refused_with_all_of_them(made: sample.Sample) -> None:
    with pytest.raises(errors.WindowError, match=r"0\.05, 0\.19") as caught:
        rolltape.open(made.root, delta_timestamps={ACTION: [0, 0.05, 0.1, 0.19]})
    assert ACTION in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("bad", [[], [0.5], [True], ["1"]])
def test_steps_are_whole_numbers(made: sample.Sample, bad: list[Any]) -> None:
    with pytest.raises(errors.WindowError):
        rolltape.open(made.root, delta_steps={ACTION: bad})


def test_one_window_a_key(made: sample.Sample) -> None:
    with pytest.raises(errors.UsageError, match="delta_steps"):
        rolltape.open(made.root, delta_timestamps={ACTION: [0.0]}, delta_steps={ACTION: [0]})


def test_a_camera_in_the_tables_has_windows_too(tmp_path: Path) -> None:
    made = sample.f4(tmp_path / "f4")
    dataset = rolltape.open(made.root, delta_timestamps=WINDOWS)
    batch = dataset.batch([15, 0, 5, 11, 15])
    for row, index in enumerate([15, 0, 5, 11, 15]):
        assert_window(batch.item(row), made, index, WINDOWS)
        assert_window(dataset[index], made, index, WINDOWS)


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    steps=st.lists(st.integers(-12, 12), min_size=1, max_size=8),
    data=st.data(),
)
def test_clamping_never_leaves_the_episode(lengths: list[int], steps: list[int], data: st.DataObject) -> None:
    rows = [data.draw(st.integers(0, length - 1)) for length in lengths]
    inside, pad = Window(np.array(steps)).frames(np.array(rows), np.array(lengths))
    assert inside.shape == pad.shape == (len(lengths), len(steps))
    for at, (length, row) in enumerate(zip(lengths, rows, strict=True)):
        for column, step in enumerate(steps):
            assert inside[at, column] == min(max(row + step, 0), length - 1)
            assert pad[at, column] == (not 0 <= row + step < length)


@given(st.integers(1, 240), st.lists(st.integers(-500, 500), min_size=1, max_size=20))
def test_seconds_on_the_grid_become_their_steps(fps: int, steps: list[int]) -> None:
    windows = parse_windows(Rate.parse(fps), {"x": [step / fps for step in steps]}, None)
    assert windows["x"].steps.tolist() == steps
