"""House rules that can be counted: exports, file sizes, what tracked files may say."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rolltape
from house.layers import ROOT, SOURCE, modules

LIMIT = 450
"""Lines of a source file; the aim is 400."""
HEAVY = ("torch", "pandas", "av", "mujoco")


def exported(path: Path) -> list[str] | None:
    """Return a module's `__all__`, or None where it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


@pytest.mark.parametrize("name", sorted(modules()))
def test_exports_are_sorted_and_there(name: str) -> None:
    path = modules()[name]
    names = exported(path)
    if names is None:
        assert path.name != "__init__.py" or not path.read_text().strip() or name.endswith("assets"), (
            "__all__ is missing"
        )
        return
    constants, classes, others = (
        [one for one in names if one.isupper()],
        [one for one in names if one[:1].isupper() and not one.isupper()],
        [one for one in names if not one[:1].isupper()],
    )
    assert names in (sorted(names), [*sorted(constants), *sorted(classes), *sorted(others)]), "__all__ is not sorted"
    assert len(names) == len(set(names))


def test_public_names_can_be_imported() -> None:
    for name in rolltape.__all__:
        assert getattr(rolltape, name) is not None
    for found in pkgutil.iter_modules([str(SOURCE)]):
        if found.ispkg and found.name not in ("sim", "record", "torch", "report"):
            module = importlib.import_module(f"rolltape.{found.name}")
            for name in module.__all__:
                assert getattr(module, name) is not None, f"rolltape.{found.name}.{name}"


def test_importing_rolltape_is_light() -> None:
    """How long it takes is measured in the benchmarks; what it loads decides that, and is checked here."""
    script = f"import sys, rolltape; print([name for name in {HEAVY!r} if name in sys.modules], len(sys.modules))"
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.modules))"], capture_output=True, check=True
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy, loaded = done.stdout.rsplit(maxsplit=1)
    assert heavy == "[]"
    assert int(loaded) - int(bare.stdout) < 60


@pytest.mark.parametrize("layer", ["format", "store", "read", "write", "check", "cli", "lerobot"])
def test_layers_load_no_torch(layer: str) -> None:
    script = f"import sys, rolltape.{layer}; sys.exit(str({{'torch', 'pandas', 'mujoco'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_files_are_one_idea() -> None:
    long = {name: count for name, path in modules().items() if (count := len(path.read_text().splitlines())) > LIMIT}
    if long:
        warnings.warn(f"long files: {long}", stacklevel=1)
    assert not {name: count for name, count in long.items() if count > 700}


def _tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:  # an unpacked sdist is no repository
        return [path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_tracked_files_name_no_machine() -> None:
    private = re.compile(r"/(?:root|home/[a-z]+|work|tmp)/(?:main|shared|\.cache|\.pyenv|brief)\b")
    bad = []
    for path in _tracked():
        if (
            path.suffix in (".parquet", ".mp4", ".png", ".npz")
            or path == Path(__file__)
            or path.stat().st_size > 1 << 20
        ):
            continue
        found = private.search(path.read_text(encoding="utf-8", errors="replace"))
        if found:
            bad.append(f"{path.relative_to(ROOT)}: {found[0]}")
    assert not bad, "\n".join(bad)
