"""Every example runs from a clean folder, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
PRINTS = {
    "01_record_a_dataset.py": ("episode 0 saved; a reader sees 1", "3 episodes, 135 frames in "),
    "02_open_and_batch.py": ("batch 3: (24, 3, 64, 64) (24, 2)", "as an Arrow table: 120 rows"),
    "03_windows.py": ("pictures (3, 3, 64, 64) states (2, 2)", "there is nothing before: [True, False]"),
    "04_mujoco_lift.py": ("2 of 2 episodes lifted the cube", "contact sheet: "),
    "05_lerobot_drop_in.py": ("torch.Size([8, 2, 3, 64, 64]) torch.Size([8, 3, 2]) torch.Size([8, 3])",),
    "06_episode_fields.py": ("successful and long: [0]", "ann's: [0, 2]"),
    "07_your_own_scene.py": ("3 of 3 stayed upright",),
    "08_check.py": ("clean: True", "damaged: False", "data/chunk-000/file-000.parquet"),
}


def test_every_example_is_run_here() -> None:
    found = sorted(path.name for path in FOLDER.glob("[0-9]*.py"))
    assert found == sorted(PRINTS)
    assert [int(name[:2]) for name in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("name", sorted(PRINTS))
def test_example(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in PRINTS[name]:
        assert words in done.stdout
    assert "Traceback" not in done.stderr
    assert "ResourceWarning" not in done.stderr
