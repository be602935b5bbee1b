"""The test's end of the pipe to the real lerobot."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent


class OracleError(Exception):
    """The reference raised; `kind` is its exception's name and `trace` its traceback."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}\n{trace}")
        self.kind = kind
        self.trace = trace


class Opened:
    """A dataset that the reference holds open."""

    def __init__(self, oracle: Oracle, facts: dict[str, Any]) -> None:
        self.oracle = oracle
        self.facts = facts
        self.handle: int = facts["handle"]

    def __len__(self) -> int:
        return int(self.facts["len"])

    def items(self, indices: Sequence[int] | None = None) -> list[Any]:
        """Items in plain form (`items.plain`)."""
        chosen = None if indices is None else list(indices)
        return list(self.oracle.call("items", handle=self.handle, indices=chosen))

    def batches(self, batch_size: int) -> list[Any]:
        """Batches of its DataLoader, in storage order."""
        return list(self.oracle.call("batches", handle=self.handle, batch_size=batch_size))

    def raw_items(self, indices: Sequence[int]) -> list[Any]:
        """Rows of `hf_dataset` after the reference's transform."""
        return list(self.oracle.call("raw_items", handle=self.handle, indices=list(indices)))


class Oracle:
    """One long-lived process with lerobot imported."""

    def __init__(self, python: Path, home: Path, log: Path) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "LEROBOT_"))},
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(home),
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
            "PYTHONPATH": str(TESTS),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SVT_LOG": "1",
            "OMP_NUM_THREADS": "1",
        }
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [str(python), "-m", "oracle.lerobot_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            cwd=home,
        )
        self._log_path = log

    def call(self, command: str, **arguments: Any) -> Any:
        """Run one command of the worker; raises `OracleError` where lerobot raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((command, arguments), self._process.stdin)
        self._process.stdin.flush()
        try:
            answer = pickle.load(self._process.stdout)
        except EOFError:
            raise AssertionError(f"the lerobot process died:\n{self._log_path.read_text()[-4000:]}") from None
        if answer[0] == "error":
            raise OracleError(*answer[1:])
        return answer[1]

    @contextmanager
    def open(self, root: Path, **options: Any) -> Iterator[Opened]:
        """lerobot's `LeRobotDataset(repo, root=root, **options)`."""
        opened = Opened(self, self.call("open", root=str(root), **options))
        try:
            yield opened
        finally:
            self.call("close", handle=opened.handle)

    def record(self, recipe: str, root: Path, episodes: Sequence[int], **options: Any) -> int:
        """Record episodes with lerobot's writer; see `Worker.record`."""
        return int(self.call("record", recipe=recipe, root=str(root), episodes=list(episodes), **options))

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._log.close()
