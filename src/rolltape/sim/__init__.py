"""MuJoCo scenes: robots, cameras, runners and policies. Needs `rolltape[sim]`; importing this folder alone does not.

The shipped scene is a table with a six-joint arm, a cube to lift, and a `front` and a `wrist` camera. Any MJCF file
works the same way.

The Observer and the sensor models of simulator sessions will stand here, beside `robot.py` and `camera.py`.
"""

from __future__ import annotations

from rolltape.sim.camera import CameraView, Renderer
from rolltape.sim.controls import Controls, StateKind
from rolltape.sim.expert import LiftExpert
from rolltape.sim.gl import load_mujoco
from rolltape.sim.policy import Hold, Observation, Policy, Trajectory, load_policy
from rolltape.sim.robot import MujocoRobot
from rolltape.sim.rules import Lift, Placement
from rolltape.sim.runner import Tick, rollout
from rolltape.sim.scene import OnReset, Scene, tabletop_path

__all__ = [
    "CameraView",
    "Controls",
    "Hold",
    "Lift",
    "LiftExpert",
    "MujocoRobot",
    "Observation",
    "OnReset",
    "Placement",
    "Policy",
    "Renderer",
    "Scene",
    "StateKind",
    "Tick",
    "Trajectory",
    "load_mujoco",
    "load_policy",
    "rollout",
    "tabletop_path",
]
