"""Record in simulation: the shipped arm lifts a cube. Needs rolltape[sim]; no screen.

The same from a shell:
rolltape record --robot.type=mujoco --dataset.repo_id=me/demo --dataset.single_task="Lift the cube"
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import rolltape
from rolltape.record import DatasetConfig, RecordConfig, RobotConfig, record
from rolltape.report import contact_sheet

folder = Path(tempfile.mkdtemp())
cameras = {"front": {"width": 160, "height": 120}, "wrist": {"width": 160, "height": 120}}
config = RecordConfig(
    robot=RobotConfig(cameras=cameras, seed=1),
    dataset=DatasetConfig(repo_id="me/lift", root=folder / "lift", single_task="Lift the cube", num_episodes=2),
)

summary = record(config)
print(f"{summary.successes} of {len(summary.episodes)} episodes lifted the cube; {summary.total_frames} frames")

dataset = rolltape.open(folder / "lift")
for number in dataset.episodes:
    episode = dataset.episode(number)
    gripper = episode.batch()["observation.state"][:, 6]
    print(f"episode {number}: {len(episode)} frames, fields {episode.fields}, gripper ends at {gripper[-1]:.3f} m")

print("contact sheet:", contact_sheet(dataset, folder / "lift.png"))
