"""One side of a comparison as a process of its own, driven by lines of JSON.

A side's module builds an object whose methods are the commands and calls `serve(object)`; the driver holds a `Side`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class SideError(RuntimeError):
    """A command failed on a side; the text is its traceback."""


class Side:
    """A running side: `side.call("record", ...)`."""

    def __init__(self, name: str, python: Path, home: Path) -> None:
        self.name = name
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("HF_", "LEROBOT_"))},
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(home),
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]) if name == "ours" else str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SVT_LOG": "1",
        }
        home.mkdir(parents=True, exist_ok=True)
        self.python, self.environment = python, environment
        self.log = home / f"{name}.log"
        self._log_file = self.log.open("wb")
        self._process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            env=environment,
            cwd=ROOT,
            text=True,
        )

    def call(self, command: str, **arguments: Any) -> Any:
        """Run a command and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SideError(f"{self.name} died; see {self.log}")
        answer = json.loads(line)
        if "error" in answer:
            raise SideError(f"{self.name}.{command}: {answer['error']}")
        return answer["value"]

    def script(self, code: str) -> dict[str, Any]:
        """Run a few lines in a fresh interpreter of this side; the last line it prints is JSON."""
        done = subprocess.run(
            [str(self.python), "-c", code], env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SideError(f"{self.name} script: {done.stderr[-2000:]}")
        value: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return value

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._log_file.close()


def serve(commands: object) -> None:
    """Answer commands until standard input ends; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"value": getattr(commands, name)(**arguments)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
