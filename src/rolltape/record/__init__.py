"""Recording episodes: the loop, its robots and what drives them, and the summary that is read back from the disk.

Real arms, leader arms, keyboards and OpenCV cameras will stand here: a robot is anything of the shape of `Robot`, and
is made known by an import string in `robots.py`.
"""

from __future__ import annotations

from rolltape.record.cadence import Cadence, Pace
from rolltape.record.config import DatasetConfig, RecordConfig, RobotConfig, TeleopConfig
from rolltape.record.display import StatusLine
from rolltape.record.drivers import make_driver
from rolltape.record.events import (
    Began,
    Control,
    Ended,
    EpisodeBegan,
    EpisodeDiscarded,
    EpisodeSaved,
    Event,
    Noted,
    OnEvent,
    Ticked,
    Warned,
)
from rolltape.record.interruption import stopping_on_signals
from rolltape.record.loop import record
from rolltape.record.recorder import Recorder
from rolltape.record.robots import Robot, make_robot, refuse_unknown_robot
from rolltape.record.summary import EpisodeResult, Summary, read_back

__all__ = [
    "Began",
    "Cadence",
    "Control",
    "DatasetConfig",
    "Ended",
    "EpisodeBegan",
    "EpisodeDiscarded",
    "EpisodeResult",
    "EpisodeSaved",
    "Event",
    "Noted",
    "OnEvent",
    "Pace",
    "RecordConfig",
    "Recorder",
    "Robot",
    "RobotConfig",
    "StatusLine",
    "Summary",
    "TeleopConfig",
    "Ticked",
    "Warned",
    "make_driver",
    "make_robot",
    "read_back",
    "record",
    "refuse_unknown_robot",
    "stopping_on_signals",
]
