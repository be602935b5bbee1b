"""One way down: imports point only to earlier layers, and never in a circle."""

from __future__ import annotations

import tomllib
from graphlib import CycleError, TopologicalSorter

import pytest

from house.layers import LAYERS, ROOT, SOURCE, TOP, imports, layer, modules

FORBIDDEN = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "manager",
    "managers",
    "tools",
    "core",
    "base",
    "lib",
}


def test_every_folder_has_its_layer() -> None:
    found = {layer(name) for name in modules()}
    assert found <= {*LAYERS, *TOP}


def test_imports_point_down() -> None:
    upward = []
    for name, path in modules().items():
        here = layer(name)
        if here in TOP:
            continue
        for target, _ in imports(name, path):
            there = layer(target)
            if target == "rolltape" or there in TOP or LAYERS.index(there) > LAYERS.index(here):
                upward.append(f"{name} imports {target}")
    assert not upward, "\n".join(upward)


def test_there_is_no_circle_when_modules_are_loaded() -> None:
    graph: dict[str, set[str]] = {}
    for name, path in modules().items():
        graph[name] = {target for target, loading in imports(name, path) if loading and target != name}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_import_linter_knows_the_same_layers() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    listed = [name.strip("()").split(" ")[0] for name in contract["layers"]]
    assert listed == list(reversed([name for name in LAYERS if name != "_version"]))


def test_names_say_what_is_inside() -> None:
    names = {part for path in SOURCE.rglob("*.py") for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not names & FORBIDDEN
