"""What a recording is told, with the names that LeRobot's users type as flags."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from rolltape.errors import UsageError
from rolltape.format import DepthEncoderConfig, RGBEncoderConfig
from rolltape.read.places import hub_home

__all__ = ["DatasetConfig", "RecordConfig", "RobotConfig", "TeleopConfig"]

_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")


@dataclass(frozen=True)
class RobotConfig:
    """The robot, its scene and its cameras.

    Attributes:
        type: The kind of robot. `mujoco` is a simulated one; real arms come with a later version.
        id: Which robot of its kind, for real ones. A simulated one needs none.
        scene: An MJCF file to simulate; the shipped tabletop when left out.
        cameras: Cameras by name, each a mapping: `width`, `height`, `camera` (its name in the scene), `use_rgb`,
            `use_depth`. All named cameras of the scene at 320x240 when left out; `{}` for none.
        seed: Decides with the episode's number where objects lie.
        timestep: Seconds in one physics step; the scene's own when left out.
        keyframe: The keyframe that an episode starts from; `home`, else the first.
        state: What the state holds: one position per actuator, or all joints of the robot.
        success: `module:function` that takes the scene and judges an episode; the scene's own rules when left out.
        realtime: Simulate no faster than the clock on the wall, and measure the rate.
        shadows: Draw shadows; slow without a graphics card.
        samples: Samples a pixel against jagged edges; slow without a graphics card.
    """

    type: str = "mujoco"
    id: str | None = None
    scene: Path | None = None
    cameras: Mapping[str, Any] | None = None
    seed: int = 0
    timestep: float | None = None
    keyframe: str | None = None
    state: Literal["actuators", "joints"] = "actuators"
    success: str | None = None
    realtime: bool = False
    shadows: bool = False
    samples: int = 0

    def check(self) -> None:
        """Raise where a value is out of range.

        Raises:
            UsageError: The seed or the samples are.
        """
        if self.seed < 0:
            raise UsageError("A seed is a whole number from 0 on.", where="robot.seed", found=self.seed)
        if self.samples not in (0, 2, 4, 8, 16):
            raise UsageError("Samples a pixel are 0, 2, 4, 8 or 16.", where="robot.samples", found=self.samples)


@dataclass(frozen=True)
class TeleopConfig:
    """What drives the robot.

    Attributes:
        type: `expert` (scripted: lifts the scene's object), `policy`, `trajectory` or `none` (holds still). When left
            out: `policy` or `trajectory` where one is given, else `expert`.
        id: Which device of its kind, for real ones.
        policy: `module:function` that takes the observation of a tick and gives an action, or None to end the episode.
        path: A trajectory: `.npy`, `.npz` or `.csv`, one row a tick.
    """

    type: str | None = None
    id: str | None = None
    policy: str | None = None
    path: Path | None = None

    @property
    def kind(self) -> str:
        """The type, decided where it was left out."""
        if self.type is not None:
            return self.type
        return "policy" if self.policy else "trajectory" if self.path else "expert"


@dataclass(frozen=True)
class DatasetConfig:
    """The dataset that is written.

    Attributes:
        repo_id: The dataset's name, `user/name`.
        single_task: What the robot does, in words.
        root: The dataset's folder; `$HF_LEROBOT_HOME/REPO_ID` when left out.
        fps: Frames a second. For a simulated robot a frame is a whole number of physics steps; the scene's own rate
            (25 at steps of 2 ms) when left out.
        episode_time_s: The longest an episode may last. The expert and trajectories end by themselves.
        reset_time_s: Seconds between two episodes to put things back. A simulator resets at once and does not wait.
        num_episodes: Episodes to record in this run.
        video: Encode pictures as video; otherwise they are PNG images inside the tables.
        push_to_hub: Upload when done; not in this version.
        private: For the upload.
        tags: For the upload.
        rgb_encoder: How colour pictures are encoded.
        depth_encoder: How depth pictures are encoded.
        streaming_encoding: Encode while recording. Always so here.
        encoder_queue_maxsize: Frames per camera that may wait in memory for the encoder, where there is no spool. When
            it is full, a simulator waits, and a robot's episode ends with an error.
        spool_seconds: Seconds of pictures that may wait on the disk for the encoder instead; a killed process does not
            lose them. 10 for a real robot and 0, none, for a simulated one, when left out.
        encoder_threads: Threads of each encoder; the codec's own choice when left out.
        no_stamp: Leave the name as it is. Set it to false to append date and time, as lerobot-record does.
        interrupted: What becomes of an episode that Ctrl-C cuts short: `discard` it or `save` it.
        wall_time: Keep in a column `wall_time` when each row was observed, in seconds since 1970.
        strict_rate: End the run when the loop cannot keep the rate (only in real time).
        num_image_writer_processes: Not needed here; accepted.
        num_image_writer_threads_per_camera: Not needed here; accepted.
        video_encoding_batch_size: Not needed here; accepted.
    """

    repo_id: str = ""
    single_task: str = ""
    root: Path | None = None
    fps: int | None = None
    episode_time_s: float = 60
    reset_time_s: float = 60
    num_episodes: int = 50
    video: bool = True
    push_to_hub: bool = False
    private: bool | None = None
    tags: list[str] | None = None
    rgb_encoder: RGBEncoderConfig = field(default_factory=RGBEncoderConfig)
    depth_encoder: DepthEncoderConfig = field(default_factory=DepthEncoderConfig)
    streaming_encoding: bool = True
    encoder_queue_maxsize: int = 30
    spool_seconds: float | None = None
    encoder_threads: int | None = None
    no_stamp: bool = True
    interrupted: Literal["discard", "save"] = "discard"
    wall_time: bool = False
    strict_rate: bool = False
    num_image_writer_processes: int = 0
    num_image_writer_threads_per_camera: int = 4
    video_encoding_batch_size: int = 1

    def check(self) -> None:
        """Raise where a value is missing or out of range.

        Raises:
            UsageError: The first one that is.
        """
        _require(
            bool(_REPO_ID.fullmatch(self.repo_id)), "dataset.repo_id", "a name like me/lift", self.repo_id or "nothing"
        )
        _require(bool(self.single_task.strip()), "dataset.single_task", "what the robot does, in words", "nothing")
        _require(self.num_episodes >= 1, "dataset.num_episodes", "1 or more", self.num_episodes)
        _require(self.fps is None or self.fps >= 1, "dataset.fps", "1 or more", self.fps)
        lasting = math.isfinite(self.episode_time_s) and self.episode_time_s > 0
        _require(lasting, "dataset.episode_time_s", "seconds above 0", self.episode_time_s)
        _require(self.reset_time_s >= 0, "dataset.reset_time_s", "seconds, 0 or more", self.reset_time_s)
        _require(
            self.encoder_queue_maxsize >= 1, "dataset.encoder_queue_maxsize", "1 or more", self.encoder_queue_maxsize
        )
        threads = self.encoder_threads
        _require(threads is None or threads >= 1, "dataset.encoder_threads", "1 or more", threads)
        spool = self.spool_seconds
        _require(spool is None or 0 <= spool <= 3600, "dataset.spool_seconds", "seconds, 0 to 3600", spool)
        if self.push_to_hub:
            raise UsageError(
                "This version records to the disk and does not upload.",
                where="dataset.push_to_hub",
                fix="Leave the flag out, and upload the folder afterwards (hf upload REPO FOLDER --repo-type dataset).",
            )

    @property
    def folder(self) -> Path:
        """The dataset's folder."""
        if self.root is not None:
            return Path(self.root).expanduser()
        return hub_home() / self.repo_id

    def stamped(self, now: datetime) -> DatasetConfig:
        """Return the config with date and time appended to the name, unless `no_stamp` is set."""
        return self if self.no_stamp else replace(self, repo_id=f"{self.repo_id}_{now:%Y%m%d_%H%M%S}")


@dataclass(frozen=True)
class RecordConfig:
    """A recording: which robot, driven by what, into which dataset.

    Attributes:
        robot: The robot, its scene and its cameras.
        teleop: What drives the robot.
        dataset: The dataset that is written.
        resume: Add episodes to a dataset that is there.
        display_data: Show the frames while recording; not in this version (a contact sheet shows them afterwards).
        display_mode: Where to show them; not in this version.
        display_ip: Where to show them; not in this version.
        display_port: Where to show them; not in this version.
        display_compressed_images: How to show them; not in this version.
        play_sounds: Ring the terminal's bell after each episode.

    Example:
        >>> config = RecordConfig(dataset=DatasetConfig(repo_id="me/lift", single_task="Lift the cube", num_episodes=5))
        >>> config.robot.type, config.teleop.kind
        ('mujoco', 'expert')
    """

    robot: RobotConfig = field(default_factory=RobotConfig)
    teleop: TeleopConfig = field(default_factory=TeleopConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    resume: bool = False
    display_data: bool = False
    display_mode: str = "rerun"
    display_ip: str | None = None
    display_port: int | None = None
    display_compressed_images: bool = False
    play_sounds: bool = False

    def check(self) -> None:
        """Raise where a value is missing or out of range.

        Raises:
            UsageError: The first one that is.
        """
        self.robot.check()
        self.dataset.check()

    def notes(self) -> list[str]:
        """Return a line for each flag that was given and that changes nothing here."""
        dataset, defaults, notes = self.dataset, DatasetConfig.__dataclass_fields__, []
        idle = ("num_image_writer_processes", "num_image_writer_threads_per_camera", "video_encoding_batch_size")
        notes += [
            f"dataset.{name} is not needed: pictures go straight to the encoder."
            for name in idle
            if getattr(dataset, name) != defaults[name].default
        ]
        if not dataset.streaming_encoding:
            notes.append("dataset.streaming_encoding=false has no effect: pictures are always encoded while recording.")
        if dataset.tags or dataset.private is not None:
            notes.append("dataset.tags and dataset.private matter for an upload, which is not part of this version.")
        if self.display_data:
            notes.append("display_data has no effect yet: a contact sheet shows the episodes afterwards.")
        return notes


def _require(fine: bool, where: str, expected: str, found: object) -> None:
    if not fine:
        raise UsageError(f"{where} is missing or wrong.", where=f"--{where}", expected=expected, found=found)
