"""A video that asks its player to turn the picture: read upright, and judged by its upright size."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
import sample
from rolltape import check
from rolltape.format import Rate
from rolltape.video import VideoFile, index_file
from rolltape.video.packets import Source, join
from sample import FRONT, Camera


@pytest.fixture
def turned(tmp_path: Path) -> sample.Sample:
    made = sample.build(tmp_path / "made", cameras={FRONT: Camera(size=(32, 48))})
    path = made.root / f"videos/{FRONT}/chunk-000/file-000.mp4"
    other = tmp_path / "turned.mp4"
    join([Source(path, index=dataclasses.replace(index_file(path), rotation=90))], other, Rate.parse(made.fps))
    other.replace(path)
    return made


@pytest.mark.parametrize("shape", [[48, 32, 3], [32, 48, 3]])
@pytest.mark.parametrize(
    ("form", "size"), [({}, (3, 48, 32)), ({"dtype": "float32"}, (3, 48, 32)), ({"resize": (16, 24)}, (3, 16, 24))]
)
def test_pictures_are_upright_whatever_is_declared(
    turned: sample.Sample, shape: list[int], form: dict[str, Any], size: tuple[int, int, int]
) -> None:
    sample.edit_info(turned.root, lambda info: info["features"][FRONT].update(shape=shape))
    dataset = rolltape.open(turned.root, **form)
    picture = dataset[7][FRONT]
    assert picture.shape == size
    assert sample.read_level(picture) == turned.level(7)
    if not form:
        with VideoFile(turned.root / f"videos/{FRONT}/chunk-000/file-000.mp4") as video:
            assert np.array_equal(picture, video.read([7])[0])


def test_the_check_compares_the_upright_size(turned: sample.Sample) -> None:
    assert "video.resolution" in check.run(turned.root).ids
    sample.edit_info(turned.root, lambda info: info["features"][FRONT].update(shape=[48, 32, 3]))
    assert "video.resolution" not in check.run(turned.root).ids
