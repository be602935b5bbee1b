"""`rolltape record`: episodes of a robot, with lerobot-record's flags."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path  # noqa: F401  # the inherited annotations are read with this module's names
from typing import Annotated, Any, Literal  # noqa: F401  # as above

from cyclopts import Group, Parameter, Token

from rolltape.cli.flags import Json, Mapping, Number, Values, Whole
from rolltape.cli.printing import print_error, print_json, print_text, seconds_text
from rolltape.format import DepthEncoderConfig, RGBEncoderConfig
from rolltape.record import (
    Control,
    DatasetConfig,
    Ended,
    Event,
    RecordConfig,
    RobotConfig,
    StatusLine,
    Summary,
    TeleopConfig,
    refuse_unknown_robot,
    stopping_on_signals,
)

__all__ = ["record"]

_ROBOT = Group("Robot", sort_key=1)
_TELEOP = Group("What drives it", sort_key=2)
_DATASET = Group("Dataset", sort_key=3)
_RUN = Group("Run", sort_key=4)
_ENCODERS = Group("Encoders", sort_key=5)

_Hidden = Parameter(show=False)


def _known_robot(type_: Any, tokens: Sequence[Token]) -> str:
    """Refuse other robots before their flags, which are unknown here, are looked at."""
    refuse_unknown_robot(tokens[0].value)
    return tokens[0].value


@dataclass(frozen=True)
class RGBEncoderFlags(RGBEncoderConfig):
    """As `RGBEncoderConfig`, its mapping read as YAML and its numbers not rounded."""

    g: Whole | None = RGBEncoderConfig.g
    crf: Number | None = RGBEncoderConfig.crf
    fast_decode: Whole = RGBEncoderConfig.fast_decode
    extra_options: Mapping = field(default_factory=dict)


@dataclass(frozen=True)
class DepthEncoderFlags(DepthEncoderConfig):
    """As `DepthEncoderConfig`, its mapping read as YAML and its numbers not rounded."""

    g: Whole | None = DepthEncoderConfig.g
    crf: Number | None = DepthEncoderConfig.crf
    fast_decode: Whole = DepthEncoderConfig.fast_decode
    extra_options: Mapping = field(default_factory=lambda: {"x265-params": "lossless=1"})


@dataclass(frozen=True)
class RobotFlags(RobotConfig):
    """As `RobotConfig`, its mapping read as YAML and its numbers not rounded."""

    type: Annotated[str, Parameter(converter=_known_robot)] = "mujoco"
    cameras: Mapping | None = None
    seed: Whole = 0
    samples: Whole = 0


@dataclass(frozen=True)
class DatasetFlags(DatasetConfig):
    """As `DatasetConfig`, in the help's groups, its list read as YAML and its numbers not rounded."""

    fps: Whole | None = None
    num_episodes: Whole = 50
    encoder_queue_maxsize: Whole = 30
    encoder_threads: Whole | None = None
    rgb_encoder: Annotated[RGBEncoderFlags, Parameter(group=_ENCODERS)] = field(default_factory=RGBEncoderFlags)
    depth_encoder: Annotated[DepthEncoderFlags, Parameter(group=_ENCODERS)] = field(default_factory=DepthEncoderFlags)
    tags: Values | None = None
    num_image_writer_processes: Annotated[int, _Hidden] = 0
    num_image_writer_threads_per_camera: Annotated[int, _Hidden] = 4
    video_encoding_batch_size: Annotated[int, _Hidden] = 1


@dataclass(frozen=True)
class RecordFlags(RecordConfig):
    """As `RecordConfig`, in the help's groups."""

    robot: Annotated[RobotFlags, Parameter(group=_ROBOT)] = field(default_factory=RobotFlags)
    teleop: Annotated[TeleopConfig, Parameter(group=_TELEOP)] = field(default_factory=TeleopConfig)
    dataset: Annotated[DatasetFlags, Parameter(group=_DATASET)] = field(default_factory=DatasetFlags)
    display_mode: Annotated[str, _Hidden] = "rerun"
    display_ip: Annotated[str | None, _Hidden] = None
    display_port: Annotated[int | None, _Hidden] = None
    display_compressed_images: Annotated[bool, _Hidden] = False


def record(
    *,
    config: Annotated[RecordFlags, Parameter(name="*", group=_RUN, negative="")] | None = None,
    json: Annotated[Json, Parameter(group=_RUN)] = False,
) -> int:
    """Record episodes into a dataset, with a simulated robot.

    The dataset is whole after every episode. Ctrl-C (or SIGTERM) stops: the open episode is thrown away (or saved, with
    --dataset.interrupted=save), all episodes before it stay, and the exit code is 130 (143). A second Ctrl-C breaks
    off.

    The exit code is 1 when the disk does not hold what was recorded, or fewer episodes than asked for.

    Examples:
        rolltape record --robot.type=mujoco --dataset.repo_id=me/demo --dataset.single_task="Lift the cube"

    Args:
        config: What to record.
        json: Print the summary as one JSON object.
    """
    config = config or RecordFlags()
    from rolltape.record import record as run

    control, display = Control(), StatusLine(sys.stderr, bell=config.play_sounds)

    def show(event: Event) -> None:
        if not isinstance(event, Ended):
            display(event)

    with stopping_on_signals(control):
        try:
            summary = run(config, on_event=show, control=control)
        finally:
            display.clear()
    if json:
        print_json(summary.to_json())
    else:
        print_text(_lines(summary))
    for problem in summary.problems:
        print_error(f"error: {problem}")
    return exit_code(summary)


def exit_code(summary: Summary) -> int:
    """Return 0 when all was recorded, 128 + n after signal n, and 1 otherwise."""
    if summary.problems:
        return 1
    if (number := _signal(summary)) is not None:
        return 128 + number
    return 0 if summary.ok or summary.stopped_by == "finish" else 1


def _signal(summary: Summary) -> int | None:
    """Return the number of the signal that stopped the run, or None."""
    found = signal.Signals.__members__.get(summary.stopped_by or "")
    return None if found is None else int(found)


def _lines(summary: Summary) -> list[str]:
    done = len(summary.episodes)
    judged = "" if summary.successes is None else f", {summary.successes} successful"
    frames = f"{summary.frames} frames at {summary.fps:g} Hz"
    lines = [f"{done} of {summary.asked} episodes, {frames}{judged}, in {seconds_text(summary.seconds)}"]
    if summary.discarded:
        lines.append(f"{summary.discarded} thrown away")
    if _signal(summary) is not None:
        lines.append(f"stopped by {summary.stopped_by}")
    if summary.total_episodes:
        lines.append(f"dataset: {summary.root} ({summary.total_episodes} episodes, {summary.total_frames} frames)")
    else:
        lines.append("no dataset was left")
    return lines
