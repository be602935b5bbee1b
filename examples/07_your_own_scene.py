"""Any MJCF file, driven by any function, and judged by one: a cart that balances a pole. Needs rolltape[sim]."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import rolltape
from rolltape.record import DatasetConfig, RecordConfig, record
from rolltape.sim import CameraView, MujocoRobot, Scene

SCENE = """
<mujoco model="cart and pole">
  <option timestep="0.005"/>
  <worldbody>
    <light pos="0 -2 3" dir="0 0.5 -1"/>
    <camera name="side" pos="0 -3 0.4" xyaxes="1 0 0 0 0 1" fovy="45"/>
    <geom type="capsule" fromto="-1.5 0 0 1.5 0 0" size="0.02" rgba="0.5 0.5 0.5 1" contype="0"/>
    <body name="cart">
      <joint name="cart" type="slide" axis="1 0 0" range="-1.4 1.4" damping="0.5"/>
      <geom type="box" size="0.12 0.08 0.06" mass="1" rgba="0.1 0.5 0.6 1" contype="0"/>
      <body name="pole">
        <joint name="pole" axis="0 1 0" damping="0.01"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.8" size="0.025" mass="0.1" rgba="0.9 0.4 0.2 1" contype="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="cart" ctrlrange="-20 20"/></actuator>
</mujoco>
"""


class Balance:
    """A proportional and derivative controller; the speeds come from the last two states."""

    def __init__(self) -> None:
        self.before = np.zeros(2)

    def reset(self, episode: int) -> None:
        self.before = np.zeros(2)

    def __call__(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        state = observation["observation.state"].astype(float)
        speed, self.before = (state - self.before) * 50, state
        return np.clip([1.5 * state[0] + 3 * speed[0] + 40 * state[1] + 8 * speed[1]], -20, 20)


def tilt(scene: Scene, random: np.random.Generator) -> None:
    """Start each episode with another tilt: a function of (seed, episode)."""
    scene.data.qpos[1] = random.uniform(-0.15, 0.15)


def upright(scene: Scene) -> bool:
    return abs(scene.data.qpos[1]) < 0.1


folder = Path(tempfile.mkdtemp())
(folder / "cart.xml").write_text(SCENE)
dataset = DatasetConfig("me/cart", "Balance the pole", folder / "cart", num_episodes=3, episode_time_s=3)

with MujocoRobot(
    folder / "cart.xml",
    fps=50,
    cameras={"side": CameraView(128, 96)},
    state="joints",
    on_reset=[tilt],
    success=upright,
) as robot:
    summary = record(RecordConfig(dataset=dataset), robot=robot, policy=Balance())

print(f"{summary.successes} of {len(summary.episodes)} stayed upright")
for number in range(3):
    angles = rolltape.open(folder / "cart").episode(number).batch()["observation.state"][:, 1]
    print(f"episode {number}: the pole went from {angles[0]:+.3f} to {angles[-1]:+.3f} rad")
