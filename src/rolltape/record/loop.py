"""Recording episodes: the loop from the first reset to the summary."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rolltape.errors import RecordError
from rolltape.record.cadence import Cadence
from rolltape.record.config import DatasetConfig, RecordConfig
from rolltape.record.drivers import make_driver
from rolltape.record.events import (
    Began,
    Control,
    Ended,
    EpisodeBegan,
    EpisodeDiscarded,
    EpisodeSaved,
    Noted,
    OnEvent,
    Ticked,
    Warned,
)
from rolltape.record.recorder import Recorder
from rolltape.record.robots import Robot, make_robot
from rolltape.record.summary import EpisodeResult, Summary, read_back
from rolltape.store import local

__all__ = ["record"]

_SPOOL_S = 10
"""Seconds of pictures for which the spool of a real robot has room."""

_SUCCESS = {"success": "bool"}
_PACE = {"measured_fps": "float64", "worst_interval_s": "float64"}


def record(
    config: RecordConfig,
    *,
    robot: Robot | None = None,
    policy: Any = None,
    on_event: OnEvent = lambda event: None,
    control: Control | None = None,
) -> Summary:
    """Record episodes and return what is on the disk afterwards.

    Each episode is durable when it is saved, so whatever stops the run, the dataset is whole. A robot that keeps its
    own time (a simulator) is run as fast as it goes, unless `robot.realtime` is set; any other is paced by the clock
    on the wall, and the rate that was reached is kept with each episode (`measured_fps`, `worst_interval_s`).

    Args:
        config: What to record.
        robot: The robot; made from the config when left out. One that is passed is not closed.
        policy: What drives it: takes an observation, gives an action, or None at its end; made from the config when
            left out.
        on_event: Takes the events of the recording.
        control: The switches with which the recording can be told to stop.

    Returns:
        The summary, read back from the disk. Its `problems` are empty and its `ok` is true when all is well.

    Raises:
        UsageError: The config does not make sense.
        DatasetExistsError: There is a dataset already, and `resume` is not set.
        OpenTakeError: A recording that was killed left an open episode; `rolltape recover` keeps or drops it.
        EncodeError: A camera's encoder failed, or a robot's fell too far behind; what was recorded of the episode is
            left for `rolltape recover`.
        RecordError: An episode had no frames, or `strict_rate` is set and the rate was not kept.

    Example:
        >>> import tempfile
        >>> from rolltape.record import DatasetConfig, RecordConfig, RobotConfig, record
        >>> dataset = DatasetConfig("me/lift", "Lift the cube", tempfile.mkdtemp() + "/lift", num_episodes=2)
        >>> summary = record(RecordConfig(RobotConfig(cameras={}), dataset=dataset))
        >>> summary.ok, summary.successes, summary.total_episodes
        (True, 2, 2)
    """
    config.check()
    control = control or Control()
    for note in config.notes():
        on_event(Noted(note))
    with contextlib.ExitStack() as open_things:
        if robot is None:
            robot = make_robot(config)
            open_things.callback(robot.close)
        driver = make_driver(config.teleop, robot) if policy is None else policy
        return _Session(config, robot, driver, on_event, control).run()


class _Session:
    """One run: what the loop's parts share."""

    def __init__(self, config: RecordConfig, robot: Robot, driver: Any, on_event: OnEvent, control: Control) -> None:
        self.robot, self.driver, self.emit, self.control = robot, driver, on_event, control
        self.paced = config.robot.realtime or not robot.simulated
        dataset = config.dataset if config.resume else config.dataset.stamped(datetime.now())
        self.config = replace(config, dataset=dataset)
        self.cadence = Cadence(robot.fps, strict=dataset.strict_rate)
        self.results: list[EpisodeResult] = []
        self.warnings: list[str] = []
        self.discarded = 0
        self.existing = 0

    @property
    def dataset(self) -> DatasetConfig:
        return self.config.dataset

    @property
    def spool_seconds(self) -> float:
        """How long a spool there is: a robot does not wait for an encoder, a simulator can."""
        asked = self.dataset.spool_seconds
        return (0 if self.robot.simulated else _SPOOL_S) if asked is None else asked

    def run(self) -> Summary:
        began, root = time.perf_counter(), self.dataset.folder
        with self._writer(root) as writer:
            self.existing = writer.total_episodes
            features = self._features()
            cameras = tuple(name for name in features if features[name]["dtype"] in ("video", "image"))
            self.emit(
                Began(
                    root,
                    self.dataset.repo_id,
                    self.robot.fps,
                    cameras,
                    self.dataset.num_episodes,
                    self.existing,
                    loss_s=writer.stated_loss_s.max,
                    spool_s=self.spool_seconds,
                )
            )
            recorder = Recorder(
                self.robot,
                writer,
                self.dataset.single_task,
                auto_split=False,
                wait=self._wait,
                wall_time=self.dataset.wall_time,
            )
            with recorder:
                self._episodes(recorder)
        self._forget_empty(root)
        found = read_back(root, self.results, self.existing)
        summary = Summary(
            root=root,
            repo_id=self.dataset.repo_id,
            fps=self.robot.fps,
            asked=self.dataset.num_episodes,
            episodes=tuple(self.results),
            discarded=self.discarded,
            total_episodes=found.total_episodes,
            total_frames=found.total_frames,
            seconds=time.perf_counter() - began,
            stopped_by=self.control.stopped_by or ("finish" if self.control.finish else None),
            warnings=tuple(self.warnings),
            problems=found.problems,
        )
        self.emit(Ended(summary))
        return summary

    def _features(self) -> dict[str, dict[str, Any]]:
        features = {name: dict(feature) for name, feature in self.robot.features.items()}
        if not self.dataset.video:
            for feature in features.values():
                feature["dtype"] = "image" if feature["dtype"] == "video" else feature["dtype"]
        if self.dataset.wall_time:
            features["wall_time"] = {"dtype": "float64", "shape": (1,), "names": None}
        return features

    @contextlib.contextmanager
    def _writer(self, root: Path) -> Iterator[Any]:
        from rolltape.write import Writer

        dataset, features = self.dataset, self._features()
        options: dict[str, Any] = {
            "robot_type": self.robot.name,
            "rgb_encoder": dataset.rgb_encoder,
            "depth_encoder": dataset.depth_encoder,
            "encoder_threads": dataset.encoder_threads,
            "queue_frames": dataset.encoder_queue_maxsize,
            "spool_seconds": self.spool_seconds,
            "on_full": "wait" if self.robot.simulated else "error",
        }
        if self.config.resume:
            # Encoder settings that were not given are those of the dataset.
            for name in ("rgb_encoder", "depth_encoder"):
                if options[name] == type(options[name])():
                    del options[name]
            opened = Writer.resume(root, fps=self.robot.fps, features=features, **options)
        else:
            fields = _SUCCESS | (_PACE if self.paced else {})
            opened = Writer.create(root, self.robot.fps, features, episode_fields=fields, **options)
        with opened as writer:
            yield writer

    def _wait(self) -> None:
        if self.paced:
            self.cadence.tick(lambda: self.control.leaves_episode)

    def _episodes(self, recorder: Recorder) -> None:
        attempt = 0
        while len(self.results) < self.dataset.num_episodes and not self.control.stopped:
            saved = self._episode(recorder, self.existing + len(self.results), attempt)
            attempt = 0 if saved else attempt + 1
            if self.control.finish:
                return
            if saved and len(self.results) < self.dataset.num_episodes:
                self._reset_phase()

    def _episode(self, recorder: Recorder, episode: int, attempt: int) -> bool:
        """Record one episode and return whether it was saved."""
        control, most = self.control, max(1, round(self.dataset.episode_time_s * float(self.robot.fps)))
        control.end_episode = control.rerecord = False
        self.emit(EpisodeBegan(episode, len(self.results), self.dataset.num_episodes, attempt, most))
        self.cadence.begin()
        observation = recorder.reset(episode, attempt)
        reset = getattr(self.driver, "reset", None)
        if callable(reset):
            reset(episode)
        while recorder.frames < most and not control.leaves_episode:
            action = self.driver(observation)
            if action is None:
                break
            observation = recorder.step(action)
            self.emit(Ticked(recorder.frames, self.cadence.late, _queued(recorder.writer)))
        if control.stopped and self.dataset.interrupted == "discard":
            return self._discard(recorder, episode, f"stopped by {control.stopped_by}")
        if control.rerecord:
            return self._discard(recorder, episode, "to be recorded again")
        if not recorder.frames:
            if control.leaves_episode:
                return self._discard(recorder, episode, "it has no frames")
            raise RecordError(
                "An episode ended before its first frame.",
                where=f"episode {episode}",
                fix="Whatever drives the robot must give an action for at least one tick.",
            )
        self._save(recorder, episode)
        return True

    def _save(self, recorder: Recorder, episode: int) -> None:
        pace = self.cadence.pace()
        result = EpisodeResult(episode, recorder.frames, self.robot.success())
        if self.paced:
            result = replace(result, measured_fps=pace.hz, worst_interval_s=pace.worst_interval_s, late=pace.late)
        recorder.save(result.fields)
        self.results.append(result)
        self.emit(EpisodeSaved(result))
        if self.paced and not pace.kept:
            worst = f"longest tick {pace.worst_interval_s:.3f} s" if pace.worst_interval_s is not None else ""
            warning = (
                f"Episode {episode} was recorded at {pace.hz:.1f} Hz, but its frames are stamped {pace.fps:g} Hz apart "
                f"({pace.late} of {result.frames} ticks late, {worst})."
            )
            self.warnings.append(warning)
            self.emit(Warned(warning))

    def _discard(self, recorder: Recorder, episode: int, reason: str) -> bool:
        frames = recorder.discard()
        self.discarded += 1
        self.emit(EpisodeDiscarded(episode, frames, reason))
        return False

    def _reset_phase(self) -> None:
        """Give people the time to put things back; a simulator needs none."""
        if self.robot.simulated:
            return
        until = time.perf_counter() + self.dataset.reset_time_s
        self.control.end_episode = False
        while time.perf_counter() < until and not self.control.leaves_episode:
            time.sleep(0.02)

    def _forget_empty(self, root: Path) -> None:
        """Remove a new dataset into which no episode came, so that the same command can be run again."""
        if self.config.resume or self.results or not root.is_dir():
            return
        if all(path.name == "meta" for path in root.iterdir()):
            with contextlib.suppress(OSError):
                local.remove_tree(root / "meta")
                local.remove_folder_if_empty(root)


def _queued(writer: Any) -> int:
    return max(writer.waiting.values(), default=0)
