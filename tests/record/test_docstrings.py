"""The examples in the docstrings of the simulation, the recording and the reports."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import rolltape.record
import rolltape.report
import rolltape.sim

MODULES = [
    found.name
    for folder in (rolltape.sim, rolltape.record, rolltape.report)
    for found in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
