"""A17: a process that ends without closing its writer leaves a whole dataset and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from write.recordings import check_whole, files

HERE = Path(__file__).parents[1]

PROGRAM = """
import signal, sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from write.recordings import create, add

writer = create(Path(sys.argv[1]), commit_every=int(sys.argv[4]))
for length in (3, 2, 4):
    add(writer, length)
    writer.save_episode()
add(writer, 2)
print("ready", flush=True)
if sys.argv[3] == "raise":
    raise RuntimeError("the program has a bug")
if sys.argv[3] != "exit":
    time.sleep(60)
"""


def end(root: Path, how: str, commit_every: int = 1) -> int:
    """Run a recording in a process of its own, end it, and return its exit status."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root), str(HERE), how, str(commit_every)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        if how in ("SIGINT", "SIGTERM"):
            time.sleep(0.05)
            process.send_signal(getattr(signal, how))
        return process.wait(60)


@pytest.mark.parametrize("commit_every", [1, 2])
@pytest.mark.parametrize("how", ["exit", "raise", "SIGINT", "SIGTERM"])
def test_A17_forgotten_finalize(tmp_path: Path, how: str, commit_every: int) -> None:
    root = tmp_path / "set"
    status = end(root, how, commit_every)
    assert (status == 0) == (how == "exit")
    if how == "SIGTERM":
        assert status == 128 + signal.SIGTERM
    check_whole(root, 3, 9)
    assert not (root / ".rolltape").exists()
    assert not any(name.endswith(".tmp") for name in files(root))
