"""Reading: datasets, batches and episodes as numpy arrays. No torch here."""

from __future__ import annotations

from rolltape.read.batch import Batch
from rolltape.read.dataset import Dataset, View
from rolltape.read.episode import EpisodeView
from rolltape.read.episodes import Episodes, VideoColumns
from rolltape.read.metadata import Metadata
from rolltape.read.opening import open, open_metadata
from rolltape.read.places import find_root, hub_home, local_root
from rolltape.read.tables import FrameTable

__all__ = [
    "Batch",
    "Dataset",
    "EpisodeView",
    "Episodes",
    "FrameTable",
    "Metadata",
    "VideoColumns",
    "View",
    "find_root",
    "hub_home",
    "local_root",
    "open",
    "open_metadata",
]
