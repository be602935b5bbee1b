"""Every Python block of the README runs, in order, in one session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from house.layers import ROOT
from rolltape.cli import COMMANDS

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README.md, block {number}", "exec"), session)
    out = capsys.readouterr().out
    assert "(3, 96, 128)" in out
    assert "lift the cube" in out


def test_commands_named_in_the_readme_exist() -> None:
    named = {line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("rolltape ")}
    assert named
    assert named <= set(COMMANDS)
    makefile = (ROOT / "Makefile").read_text()
    for lane in {line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")}:
        assert re.search(rf"^{lane}:", makefile, re.MULTILINE), lane


def test_links_lead_somewhere() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).exists(), f"{name}: {target}"
