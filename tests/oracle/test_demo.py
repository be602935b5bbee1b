"""The demo's recording, made by the command line as a user types it, opened by lerobot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rolltape
from oracle.agreement import agree_on
from oracle.client import Oracle

COMMAND = ["record", "--robot.type=mujoco", "--dataset.repo_id=me/demo", "--dataset.single_task=Lift the cube"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("demo") / "set"
    options = [f"--dataset.root={root}", "--dataset.num_episodes=3"]
    done = subprocess.run(
        [sys.executable, "-m", "rolltape", *COMMAND, *options], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_every_item_of_the_demo(oracle: Oracle, demo: Path) -> None:
    assert rolltape.open(demo).num_episodes == 3
    agree_on(oracle, demo, return_uint8=True, keep=False)


def test_windows_of_the_demo(oracle: Oracle, demo: Path) -> None:
    dataset = rolltape.open(demo)
    step = 1 / dataset.fps
    windows = {name: [-2 * step, 0.0] for name in dataset.cameras}
    windows |= {"action": [n * step for n in range(16)], "observation.state": [-step, 0.0]}
    agree_on(oracle, demo, episodes=[2], delta_timestamps=windows, return_uint8=True, keep=False)
