"""The code of the format's documentation, run as users have it: only the import is another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sample
from rolltape import LeRobotDataset
from sample import Camera

torch = pytest.importorskip("torch")

LOADING = """
import torch
from lerobot.datasets import LeRobotDataset

repo_id = "yaak-ai/L2D-v3"

# 1) Load from the Hub (cached locally)
dataset = LeRobotDataset(repo_id)

# 2) Random access by index
sample = dataset[100]
print(sample)
# {
#   'observation.state': tensor([...]),
#   'action': tensor([...]),
#   'observation.images.front_left': tensor([C, H, W]),
#   'timestamp': tensor(1.234),
#   ...
# }

# 3) Temporal windows via delta_timestamps (seconds relative to t)
delta_timestamps = {
    "observation.images.front_left": [-0.2, -0.1, 0.0]  # 0.2s and 0.1s before current frame
}

dataset = LeRobotDataset(repo_id, delta_timestamps=delta_timestamps)

# Accessing an index now returns a stack for the specified key(s)
sample = dataset[100]
print(sample["observation.images.front_left"].shape)  # [T, C, H, W], where T=3

# 4) Wrap with a DataLoader for training
batch_size = 16
data_loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size)

device = "cuda" if torch.cuda.is_available() else "cpu"
for batch in data_loader:
    observations = batch["observation.state"].to(device)
    actions = batch["action"].to(device)
    images = batch["observation.images.front_left"].to(device)
    # model.forward(batch)
"""

RECORDING = """
from lerobot.datasets import LeRobotDataset

# Create dataset and record episodes
dataset = LeRobotDataset.create(...)

for episode in range(num_episodes):
    # Record frames
    for frame in episode_data:
        dataset.add_frame(frame)
    dataset.save_episode()

# Call finalize() when done recording and before push_to_hub()
dataset.finalize()  # Closes parquet writers, writes metadata footers
"""

CAMERA = "observation.images.front_left"


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run the code with only the import changed."""
    assert code.count("from lerobot.datasets import") == 1
    names["__name__"] = "document"
    exec(compile(code.replace("from lerobot.datasets import", "from rolltape import"), "document", "exec"), names)
    return names


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_loading_windows_and_the_loader(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cameras = {CAMERA: Camera(), "observation.images.rear": Camera(shift=3)}
    made = sample.build(
        home / "yaak-ai/L2D-v3", lengths=[60, 50, 40], tasks=["drive", "turn", "drive"], cameras=cameras
    )
    names = run(LOADING)

    printed = capsys.readouterr().out
    assert "torch.Size([3, 3, 32, 32])" in printed
    assert "'timestamp': tensor(4.)" in printed
    assert names["sample"][CAMERA].shape == (3, 3, 32, 32)
    assert [sample.read_level(one) for one in names["sample"][CAMERA]] == [made.level(k, CAMERA) for k in (98, 99, 100)]
    assert len(names["data_loader"]) == 10
    assert names["observations"].shape == (6, 2)
    assert names["images"].shape == (6, 3, 3, 32, 32)
    assert sample.read_level(names["images"][-1, -1]) == made.level(149, CAMERA)


def test_recording(home: Path) -> None:
    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        CAMERA: {"dtype": "video", "shape": (32, 32, 3), "names": ["height", "width", "channels"]},
    }
    frames = [
        {
            "observation.state": np.array([0, k], np.float32),
            "action": np.array([k, -k], np.float32),
            CAMERA: np.full((32, 32, 3), sample.level(k), np.uint8),
            "task": "drive",
        }
        for k in range(12)
    ]
    filled_in = RECORDING.replace("create(...)", "create('me/recorded', fps=10, features=features)")
    run(filled_in, num_episodes=2, episode_data=frames, features=features)

    dataset = LeRobotDataset("me/recorded")
    assert (len(dataset), dataset.num_episodes) == (24, 2)
    for index in (0, 11, 12, 23):
        assert dataset[index]["action"].tolist() == [index % 12, -(index % 12)]
        assert sample.read_level(dataset[index][CAMERA]) == sample.level(index % 12)
        assert dataset[index]["task"] == "drive"
