"""The lane against the real lerobot: `make test-lerobot` sets `ROLLTAPE_ORACLE_PYTHON`, its environment's interpreter.

In any other run these tests are deselected (pytest's summary counts them), unless asked for by path or marker: then a
missing interpreter is a failure, never a skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.client import Oracle

HERE = Path(__file__).parent
VARIABLE = "ROLLTAPE_ORACLE_PYTHON"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark this folder's tests, and take them out of runs that did not ask for them."""
    mine = [item for item in items if item.path.is_relative_to(HERE)]
    for item in mine:
        item.add_marker("oracle")
        item.add_marker(pytest.mark.timeout(600))
        item.add_marker(pytest.mark.filterwarnings("ignore:.*were clipped"))  # the recipes' depth leaves its range
    if not _asked_for(config):
        items[:] = [item for item in items if item not in mine]
        config.hook.pytest_deselected(items=mine)


def _asked_for(config: pytest.Config) -> bool:
    if os.environ.get(VARIABLE):
        return True
    expression = str(config.getoption("markexpr", default=""))
    if "oracle" in expression and "not oracle" not in expression:
        return True
    here = config.invocation_params.dir
    return any((here / argument.partition("::")[0]).resolve().is_relative_to(HERE) for argument in config.args)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """The real lerobot 0.6.1 in its own process."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.fail(
            f"{VARIABLE} is not set: run `make test-lerobot`, which builds lerobot's environment and sets it",
            pytrace=False,
        )
    python = Path(named).expanduser()
    if not python.exists():
        pytest.fail(f"{VARIABLE} names {python}, which does not exist: run `make test-lerobot`", pytrace=False)
    import torch

    torch.set_num_threads(1)  # the pictures are small: more threads only wait for each other
    home = tmp_path_factory.mktemp("lerobot-home")
    process = Oracle(python, home, home / "worker.log")
    version = process.call("facts")["lerobot"]
    if not version.startswith("0.6.1"):
        pytest.fail(f"the oracle is lerobot {version}, these tests judge by 0.6.1", pytrace=False)
    yield process
    process.stop()
