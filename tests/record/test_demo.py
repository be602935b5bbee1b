"""The demo: everything in one go, twice, and only in its own folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import rolltape
import rolltape.check
from rolltape.demo import make_demo
from rolltape.errors import DatasetExistsError


def test_the_demo_without_torch_and_without_a_screen(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    script = (
        "import sys\nfrom rolltape.demo import main\ncode = main()\nassert 'torch' not in sys.modules\nsys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(out), "--episodes", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "2 of 2 successful",
        "no errors",
        "observation.images.front         uint8    [8, 3, 240, 320]",
        "action                           float32  [8, 16, 7]",
        str(out / "contact-sheet.png"),
        "browser viewer is not part of this version",
    ):
        assert words in done.stdout
    assert rolltape.check.run(out / "dataset", deep=True).ok
    with Image.open(out / "contact-sheet.png") as sheet:
        assert sheet.size[0] > 1200

    (out / "notes.txt").write_text("mine")
    make_demo(out, episodes=1)
    assert rolltape.open(out / "dataset").num_episodes == 1, "what the first run made was replaced"
    assert (out / "notes.txt").read_text() == "mine"


def test_what_no_demo_made_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset/precious").write_text("data")
    with pytest.raises(DatasetExistsError, match="no demo made"):
        make_demo(tmp_path)
    assert (tmp_path / "dataset/precious").read_text() == "data"
