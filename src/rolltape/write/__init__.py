"""Writing: frames in, episodes committed one by one, a valid dataset at every moment."""

from __future__ import annotations

from rolltape.write.frames import NonFinite
from rolltape.write.options import Durability, WriterOptions
from rolltape.write.statistics import DatasetStatistics, EpisodeStatistics, PictureStats
from rolltape.write.writer import Writer

__all__ = [
    "DatasetStatistics",
    "Durability",
    "EpisodeStatistics",
    "NonFinite",
    "PictureStats",
    "Writer",
    "WriterOptions",
]
