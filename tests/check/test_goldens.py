"""The reference's own datasets have no finding at all, and nothing is changed by looking."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rolltape import check

GOLDEN = Path(__file__).parents[1] / "data/golden"
WANTED: dict[str, tuple[str, ...]] = {
    "depth_mm": (),
    "images_png": (),
    "streamed_h264_60x17": ("video.keyframe",),
    "tabular_types": (),
    "two_cameras_resumed": (),
    "video_av1": (),
    "video_h264": (),
}


def fingerprint(root: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("name", WANTED)
def test_goldens_have_the_findings_that_are_true_and_no_other(name: str) -> None:
    before = fingerprint(GOLDEN / "v30" / name)
    report = check.run(GOLDEN / "v30" / name, deep=True)
    assert report.ids == tuple(one for one in WANTED[name] if one in report.ids)
    assert not report.errors
    assert not report.warnings
    assert fingerprint(GOLDEN / "v30" / name) == before


@pytest.mark.parametrize("name", ["v21_video", "v21_images"])
def test_older_layouts_are_named(name: str) -> None:
    report = check.run(GOLDEN / "v21" / name)
    assert report.ids == ("info.version",)
    assert "v2.1" in report.findings[0].message
