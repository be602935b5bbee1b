"""The layers, from the ground up: a folder imports only from those that stand earlier in this list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/rolltape"

LAYERS = (
    "_version",
    "errors",
    "format",
    "store",
    "video",
    "read",
    "write",
    "engine",
    "edit",
    "migrate",
    "check",
    "typed",
    "lance",
    "stream",
    "transforms",
    "torch",
    "sim",
    "record",
    "report",
    "lerobot",
    "view",
    "cli",
)
TOP = ("__init__", "__main__", "demo")
"""What stands on top of all layers."""


def modules() -> dict[str, Path]:
    """Return all modules of the package, dotted name to file."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path) -> Iterator[tuple[str, bool]]:
    """Yield every module of the package that a module imports, and whether it does so when it is loaded.

    Imports inside functions, and those for type checking, come later or never.
    """
    known = modules()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    later = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        or (isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute here"
            base = node.module or ""
            targets = [f"{base}.{one.name}" if f"{base}.{one.name}" in known else base for one in node.names]
        for target in targets:
            if target == "rolltape" or target.startswith("rolltape."):
                yield target, node not in later


def layer(module: str) -> str:
    """Return the layer of a module, or `__init__` for the root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"
