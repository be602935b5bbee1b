"""A small robot without a simulator, and short ways to record in tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from rolltape.format import RGBEncoderConfig
from rolltape.record import DatasetConfig, RecordConfig, RobotConfig

H264 = RGBEncoderConfig(vcodec="h264", preset="ultrafast")
SMALL = {"front": {"width": 64, "height": 48}}


class FakeRobot:
    """A robot in real time: its state counts the observations since the reset, its reading takes a while."""

    name = "fake"
    simulated = False

    def __init__(self, fps: float = 30, read_s: float = 0.0, camera: bool = False) -> None:
        self.fps, self.read_s, self.camera = fps, read_s, camera
        self.resets: list[tuple[int, int]] = []
        self.observed = 0
        self.closed = False

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        features: dict[str, dict[str, Any]] = {
            "observation.state": {"dtype": "float32", "shape": (2,), "names": ["episode", "tick"]},
            "action": {"dtype": "float32", "shape": (1,), "names": ["push"]},
        }
        if self.camera:
            names = ["height", "width", "channels"]
            features["observation.images.front"] = {"dtype": "video", "shape": (32, 32, 3), "names": names}
        return features

    def reset(self, episode: int = 0, attempt: int = 0) -> None:
        self.resets.append((episode, attempt))
        self.observed = 0

    def observe(self) -> dict[str, np.ndarray]:
        time.sleep(self.read_s)
        observation = {"observation.state": np.array([self.resets[-1][0], self.observed], dtype=np.float32)}
        if self.camera:
            observation["observation.images.front"] = np.full((32, 32, 3), 8 * (self.observed % 30), dtype=np.uint8)
        self.observed += 1
        return observation

    def act(self, action: Any) -> np.ndarray:
        return np.asarray(action, dtype=np.float32)

    def advance(self) -> None:
        return None

    def success(self) -> bool | None:
        return None

    def close(self) -> None:
        self.closed = True


class FastRobot(FakeRobot):
    """The same, but it keeps its own time."""

    simulated = True


def push(observation: Any) -> np.ndarray:
    """Give the tick's number as the action."""
    return np.array([observation["observation.state"][1]], dtype=np.float32)


def config(root: Path, *, robot: RobotConfig | None = None, **dataset: Any) -> RecordConfig:
    """Return a config with little to do."""
    settings: dict[str, Any] = {"num_episodes": 2, "single_task": "push", "rgb_encoder": H264} | dataset
    return RecordConfig(robot or RobotConfig(cameras={}), dataset=DatasetConfig("me/test", root=root, **settings))
