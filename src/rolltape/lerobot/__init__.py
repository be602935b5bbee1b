"""The drop-in face: lerobot's names, arguments, items and attributes. torch is imported when an item is asked for."""

from __future__ import annotations

from rolltape.lerobot.dataset import LeRobotDataset
from rolltape.lerobot.metadata import LeRobotDatasetMetadata

__all__ = ["LeRobotDataset", "LeRobotDatasetMetadata"]
