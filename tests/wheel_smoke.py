"""Build the wheel, and use it with the core alone in a clean environment of each Python that is found.

By hand or by `make test-wheel`: `python tests/wheel_smoke.py [3.11 3.12 3.13]`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")

SMOKE = """
import sys
import numpy as np
import rolltape
from rolltape import check
from rolltape.cli import main

features = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": None},
    "action": {"dtype": "float32", "shape": (2,), "names": None},
    "observation.images.front": {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
}
with rolltape.Writer.create("set", fps=10, features=features) as writer:
    for episode in range(2):
        for step in range(6):
            grey = np.full((64, 64, 3), 20 * step, np.uint8)
            state = np.array([episode, step], np.float32)
            frame = {"observation.state": state, "action": state, "observation.images.front": grey}
            writer.add_frame(frame, task="wave")
        writer.save_episode()
report = check.run("set", deep=True)
assert report.ok and not report.warnings, report
ds = rolltape.open("set")
batch = ds.batch([11, 0, 7])
assert batch["observation.state"].tolist() == [[1, 5], [0, 0], [1, 1]], batch["observation.state"]
assert batch["observation.images.front"].shape == (3, 3, 64, 64)
assert abs(float(batch["observation.images.front"][0].mean()) - 100) < 4
for command in ("info set", "check set --json", "pack set", "check set", "doctor --json", "record --help"):
    assert main(command.split()) == 0, command
loaded = {"torch", "pandas", "mujoco"} & set(sys.modules)
assert not loaded, loaded
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(one) for one in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(str(one) for one in command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Return the wheel, after looking at what is in it and in the sdist."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    wheel, sdist = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    needed = ("rolltape/py.typed", "rolltape/check/catalogue.toml", "rolltape/sim/assets/tabletop.xml")
    missing = [name for name in needed if name not in names]
    listed = run("tar", "tzf", sdist)
    missing += [f"{name} (sdist)" for name in (*needed, "LICENSE", "README.md") if f"/{name}" not in listed]
    if missing:
        raise SystemExit(f"not in the wheel or the sdist: {', '.join(missing)}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB, {len(names)} files")
    return wheel


def interpreter(version: str) -> str | None:
    """Return the path of an installed Python, or None."""
    done = subprocess.run([str(ROOT / "tools/find-python"), version], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def main(versions: tuple[str, ...]) -> int:
    """Use the wheel on each Python; at least one must be there."""
    found = {version: path for version in versions if (path := interpreter(version))}
    for version in versions:
        if version not in found:
            print(f"Python {version}: not installed here, not tried")
    with tempfile.TemporaryDirectory(prefix="rolltape-wheel-") as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        for version, path in found.items():
            environment, work = folder / f"venv-{version}", folder / f"work-{version}"
            work.mkdir()
            run(path, "-m", "venv", environment)
            run(environment / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
            run(environment / "bin/python", "-c", SMOKE, cwd=work)
            run(environment / "bin/rolltape", "version")
            versions_text = run(
                environment / "bin/python",
                "-c",
                "import av, numpy, pyarrow; print(av.__version__, numpy.__version__, pyarrow.__version__)",
            )
            print(f"Python {version}: core alone works (av, numpy, pyarrow {versions_text.strip()})")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or VERSIONS))
