"""Contact sheets: a picture for every kind of dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import rolltape
from rolltape.errors import SelectionError
from rolltape.report import contact_sheet
from rolltape.report.strips import Strip, draw_strips, make_strips

GOLDEN = Path(__file__).parents[1] / "data/golden/v30"


def made(root: Path, episodes: int = 2, frames: int = 20) -> Path:
    """Write a dataset whose pictures turn from black to white and whose curves rise."""
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["up", "down"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["up", "push"]},
        "observation.images.top": {"dtype": "image", "shape": (30, 40, 3), "names": ["height", "width", "channels"]},
    }
    with rolltape.Writer.create(root, 10, features, episode_fields={"success": "bool"}) as writer:
        for episode in range(episodes):
            for frame in range(frames):
                part = np.float32(frame / frames)
                writer.add_frame(
                    {
                        "observation.state": np.array([part, 1 - part], np.float32),
                        "action": np.array([part, 0.5], np.float32),
                        "observation.images.top": np.full((30, 40, 3), 250 * part, np.uint8),
                    },
                    task="watch it rise",
                )
            writer.save_episode(fields={"success": episode == 0})
    return root


def picture(path: Path) -> np.ndarray:
    """Return a sheet's pixels, as signed numbers."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_frames_stand_in_their_order(tmp_path: Path) -> None:
    out = contact_sheet(made(tmp_path / "set"), tmp_path / "deep/sheet.png", episodes=[1])
    image = picture(out)
    middles = [28 + 132 + int((part + 0.5) * 160) for part in range(8)]
    levels = [int(image[74 + 44 + 60, column].mean()) for column in middles]
    assert levels == sorted(levels)
    assert len(set(levels)) == 8
    frames = [int((part + 0.5) / 8 * 20) for part in range(8)]
    assert levels == [int(250 * np.float32(frame / 20)) for frame in frames]


def test_more_episodes_make_a_longer_sheet(tmp_path: Path) -> None:
    root = made(tmp_path / "set", episodes=7)
    heights = {}
    for count in (1, 2):
        image = picture(contact_sheet(root, tmp_path / f"{count}.png", episodes=range(count)))
        heights[count] = image.shape[0]
    assert heights[2] > 1.7 * heights[1]
    five = picture(contact_sheet(root, tmp_path / "default.png"))
    assert 4 * heights[1] < five.shape[0] < 5.2 * heights[1], "the first five when none are named"


def test_success_and_failure_are_seen(tmp_path: Path) -> None:
    root = made(tmp_path / "set")
    heads = []
    for episode in (0, 1):
        image = picture(contact_sheet(root, tmp_path / "sheet.png", episodes=[episode]))
        heads.append(image[74:118].reshape(-1, 3))
    green, red = np.array([30, 132, 73]), np.array([192, 57, 43])
    assert (heads[0] == green).all(axis=1).sum() > 100
    assert (heads[1] == red).all(axis=1).sum() > 100


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_every_golden_dataset_can_be_drawn(name: str, tmp_path: Path) -> None:
    image = picture(contact_sheet(GOLDEN / name, tmp_path / "sheet.png", episodes=[1]))
    assert image.shape[1] > 1000
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 30, "it is not empty"


def test_a_dataset_opened_with_windows_and_floats_gives_the_same_sheet(tmp_path: Path) -> None:
    root = made(tmp_path / "set")
    plain = picture(contact_sheet(root, tmp_path / "a.png"))
    opened = rolltape.open(root, delta_timestamps={"action": [0, 0.1]}, dtype="float32", layout="HWC")
    assert np.abs(plain - picture(contact_sheet(opened, tmp_path / "b.png"))).max() <= 1


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    root = made(tmp_path / "set")
    with pytest.raises(SelectionError):
        contact_sheet(root, tmp_path / "sheet.png", episodes=[])
    with pytest.raises(SelectionError):
        contact_sheet(root, tmp_path / "sheet.png", episodes=[5])
    assert not (tmp_path / "sheet.png").exists()


def test_strips_share_names_and_are_capped() -> None:
    values = np.arange(5.0)
    strips, left_out = make_strips({"a": values, "b": values}, {"b": -values, "c": values}, most=2)
    assert [(one.name, one.state is not None, one.action is not None) for one in strips] == [
        ("a", True, False),
        ("b", True, True),
    ]
    assert left_out == 1


@pytest.mark.parametrize(
    "values", [[0.0], [np.nan, np.nan], [1.0, np.nan, 2.0], [np.inf, 1.0], [3.0, 3.0, 3.0], [1e30, -1e30]]
)
def test_strips_of_odd_values(values: list[float]) -> None:
    assert draw_strips([Strip("x", np.array(values))], 400, 100, 50).size[0] == 400
