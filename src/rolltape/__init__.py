"""Robot episodes, from the first camera frame to the training batch.

The names below are imported on use, so that `import rolltape` stays light: it loads neither torch,
pandas, av nor a simulator.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rolltape._version import __version__

if TYPE_CHECKING:
    from rolltape.format import DepthEncoderConfig, RGBEncoderConfig
    from rolltape.lerobot import LeRobotDataset, LeRobotDatasetMetadata
    from rolltape.read import Dataset, open
    from rolltape.write import Writer

_HOMES = {
    "Dataset": "rolltape.read",
    "DepthEncoderConfig": "rolltape.format",
    "LeRobotDataset": "rolltape.lerobot",
    "LeRobotDatasetMetadata": "rolltape.lerobot",
    "RGBEncoderConfig": "rolltape.format",
    "Writer": "rolltape.write",
    "open": "rolltape.read",
}
_FOLDERS = (
    "check",
    "errors",
    "format",
    "lerobot",
    "read",
    "record",
    "report",
    "sim",
    "store",
    "torch",
    "video",
    "write",
)

__all__ = [
    "Dataset",
    "DepthEncoderConfig",
    "LeRobotDataset",
    "LeRobotDatasetMetadata",
    "RGBEncoderConfig",
    "Writer",
    "__version__",
    "open",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _FOLDERS:
        value = importlib.import_module(f"rolltape.{name}")
    else:
        raise AttributeError(f"module 'rolltape' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_FOLDERS})
