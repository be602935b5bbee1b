"""The project's own files say what is true."""

from __future__ import annotations

import re
import subprocess
import tomllib

from house.layers import ROOT
from rolltape._version import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_core_is_light() -> None:
    names = {re.split(r"[<>=~\[ ]", one)[0].lower() for one in PROJECT["dependencies"]}
    assert names == {"numpy", "pyarrow", "av", "pillow", "huggingface_hub", "tqdm", "cyclopts", "pyyaml"}


def test_the_changelog_knows_this_version() -> None:
    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_lanes_of_ci_are_targets_and_scripts_are_strict() -> None:
    makefile = (ROOT / "Makefile").read_text()
    ci = (ROOT / ".ci/run").read_text()
    lanes = re.search(r"^lanes=\((.*)\)$", ci, re.MULTILINE)
    assert lanes is not None
    for lane in lanes[1].split():
        assert re.search(rf"^{lane}:", makefile, re.MULTILINE), lane
    for path in [ROOT / ".ci/run", *sorted((ROOT / "tools").iterdir())]:
        assert path.stat().st_mode & 0o111, f"{path.name} cannot be run"
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
        assert re.search(r"^set -[a-z]*uo pipefail$|^set -euo pipefail$", path.read_text(), re.MULTILINE), path.name


def test_make_alone_prints_help() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "test-lerobot", "bench", "bench-smoke", "check"):
        assert f"  {target} " in done.stdout
