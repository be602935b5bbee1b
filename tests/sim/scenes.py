"""Small scenes for tests, as MJCF text."""

from __future__ import annotations

from pathlib import Path

SLIDER = """
<mujoco model="slider">
  <option timestep="0.005"/>
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <camera name="eye" pos="0 -2 0" xyaxes="1 0 0 0 0 1" fovy="45"/>
    <geom name="backdrop" type="box" pos="0 1 0" size="4 0.1 4" rgba="0 0 0 1" contype="0" conaffinity="0"/>
    <body name="ball">
      <joint name="slide" type="slide" axis="1 0 0" damping="2" range="-0.6 0.6"/>
      <geom name="ball" type="sphere" size="0.08" mass="1" rgba="1 1 1 1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><position name="push" joint="slide" kp="40" ctrlrange="-0.6 0.6"/></actuator>
</mujoco>
"""
"""A white ball that slides left and right before a backdrop; no keyframe, one camera, one actuator."""

MIXED = """
<mujoco model="mixed">
  <option timestep="0.002"/>
  <worldbody>
    <body name="arm">
      <joint name="hinge" type="hinge" axis="0 0 1"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
      <body name="hand" pos="0.2 0 0">
        <joint name="free_running" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.1 0 0" size="0.02"/>
      </body>
    </body>
    <body name="other" pos="1 0 0">
      <joint name="other" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.05"/>
    </body>
    <body name="loose" pos="0 1 0"><freejoint/><geom type="sphere" size="0.05"/></body>
  </worldbody>
  <tendon><fixed name="pull"><joint joint="hinge" coef="0.5"/></fixed></tendon>
  <actuator>
    <motor name="torque" joint="hinge"/>
    <velocity name="spin" joint="hinge" kv="2"/>
    <position tendon="pull" kp="3"/>
  </actuator>
</mujoco>
"""
"""Every kind of actuator, a joint without one, a body that is no robot, and a loose body."""


def write(folder: Path, text: str) -> Path:
    """Write a scene and return its file."""
    path = folder / "scene.xml"
    path.write_text(text)
    return path
