"""Writing: frames in, episodes committed one by one, a valid dataset at every moment."""

from __future__ import annotations

from rolltape.write.frames import NonFinite
from rolltape.write.options import Durability, WriterOptions
from rolltape.write.rig import StatedLoss
from rolltape.write.ring import OnFull
from rolltape.write.statistics import DatasetStatistics, EpisodeStatistics, PictureStats
from rolltape.write.takes import OpenTake, RecoveredTake, Recovery, find_takes, recover_takes
from rolltape.write.writer import Writer

__all__ = [
    "DatasetStatistics",
    "Durability",
    "EpisodeStatistics",
    "NonFinite",
    "OnFull",
    "OpenTake",
    "PictureStats",
    "RecoveredTake",
    "Recovery",
    "StatedLoss",
    "Writer",
    "WriterOptions",
    "find_takes",
    "recover_takes",
]
