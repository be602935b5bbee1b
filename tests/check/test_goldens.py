"""The reference's own datasets have no finding at all, and nothing is changed by looking."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rolltape import check

GOLDEN = Path(__file__).parents[1] / "data/golden"
NAMES = sorted(path.name for path in (GOLDEN / "v30").iterdir())


def fingerprint(root: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("name", NAMES)
def test_goldens_have_no_finding(name: str) -> None:
    before = fingerprint(GOLDEN / "v30" / name)
    assert check.run(GOLDEN / "v30" / name, deep=True).findings == ()
    assert fingerprint(GOLDEN / "v30" / name) == before


@pytest.mark.parametrize("name", ["v21_video", "v21_images"])
def test_older_layouts_are_named(name: str) -> None:
    report = check.run(GOLDEN / "v21" / name)
    assert report.ids == ("info.version",)
    assert "v2.1" in report.findings[0].message
