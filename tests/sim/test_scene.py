"""Scenes: clock, resets, names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rolltape.errors import FormatError, RecordError, UsageError
from rolltape.sim import Scene, tabletop_path
from sim.scenes import MIXED, SLIDER, write


@pytest.fixture(scope="module")
def tabletop() -> Scene:
    return Scene()


def test_the_shipped_scene_has_an_arm_a_gripper_a_cube_and_two_cameras(tabletop: Scene) -> None:
    names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "forearm_roll", "wrist_flex", "wrist_roll", "gripper")
    assert tabletop.controls.action_names == tuple(f"{name}.pos" for name in names)
    assert tabletop.controls.state_names == tabletop.controls.action_names
    assert tabletop.camera_names == ("front", "wrist")
    assert tabletop.model.nmesh == 0, "primitives only"
    assert [rule.body for rule in tabletop.lifts] == ["cube"]
    assert tabletop_path().is_file()


def test_a_tick_is_a_whole_number_of_physics_steps(tabletop: Scene) -> None:
    assert (tabletop.timestep, tabletop.steps_per_tick(25), tabletop.steps_per_tick(50)) == (0.002, 20, 10)
    assert tabletop.default_fps() == 25
    with pytest.raises(UsageError, match="25 or 50") as caught:
        tabletop.steps_per_tick(30)
    proposed = float(str(caught.value.fix).partition("timestep=")[2].rstrip(")."))
    assert Scene(timestep=proposed).steps_per_tick(30) == 17
    assert 30 in Scene(timestep=1 / 600).whole_rates()
    for wrong in (0, -5, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            tabletop.steps_per_tick(wrong)


def test_time_does_not_drift(tabletop: Scene) -> None:
    tabletop.reset()
    for _ in range(500):
        tabletop.advance(20)
    assert tabletop.time == pytest.approx(20.0, abs=1e-9)


def test_a_reset_is_a_function_of_seed_episode_and_attempt(tabletop: Scene) -> None:
    def place(*numbers: int) -> tuple[float, ...]:
        tabletop.reset(*numbers)
        return tuple(tabletop.data.qpos[:7])

    first = {numbers: place(*numbers) for numbers in ((0, 0), (0, 1), (0, 2), (5, 1), (0, 1, 1))}
    assert len(set(first.values())) == len(first)
    # In another order, after moving, and in another scene object: the same.
    tabletop.advance(200)
    assert {numbers: place(*numbers) for numbers in reversed(first)} == first
    other = Scene()
    other.reset(5, 1)
    assert tuple(other.data.qpos[:7]) == first[5, 1]


def test_objects_lie_within_their_declared_range(tabletop: Scene) -> None:
    places = []
    for episode in range(60):
        tabletop.reset(3, episode)
        places.append(tabletop.data.qpos[:7].copy())
    poses = np.array(places)
    yaw = 2 * np.arctan2(poses[:, 6], poses[:, 3])
    for values, (low, high) in zip((poses[:, 0], poses[:, 1], yaw), ((0.24, 0.37), (-0.15, 0.15), (-0.75, 0.75))):
        assert values.min() >= low
        assert values.max() <= high
        assert np.ptp(values) > 0.7 * (high - low)


def test_what_is_derived_belongs_to_the_present_time(tabletop: Scene) -> None:
    """After a step MuJoCo's body places are those of the step before; here they are brought up to date."""
    tabletop.reset()
    tabletop.data.qvel[:3] = (0.5, 0.0, 1.0)
    tabletop.advance(10)
    assert np.array_equal(tabletop.data.body("cube").xpos, tabletop.data.qpos[:3])


def test_names_of_any_actuators_and_joints(tmp_path: Path) -> None:
    path = write(tmp_path, MIXED)
    controls = Scene(path).controls
    assert controls.action_names == ("torque.ctrl", "spin.vel", "actuator_2.pos")
    assert controls.state_names == ("torque.pos", "spin.pos", "actuator_2.pos")
    assert np.isinf(controls.low).all()
    joints = Scene(path, state="joints")
    assert joints.controls.state_names == ("hinge.pos", "free_running.pos"), "of the roots that hold actuators, all"
    scene = Scene(path)
    scene.data.qpos[0] = 0.25
    scene.mujoco.mj_forward(scene.model, scene.data)
    assert scene.state().tolist() == [0.25, 0.25, 0.125]


def test_a_scene_without_keyframe_starts_at_its_reference(tmp_path: Path) -> None:
    scene = Scene(write(tmp_path, SLIDER))
    assert scene.name == "slider"
    assert scene.state().tolist() == [0.0]
    with pytest.raises(UsageError, match="keyframe"):
        Scene(write(tmp_path, SLIDER), keyframe="rest")


def test_hooks_run_in_every_reset(tmp_path: Path) -> None:
    seen: list[float] = []
    scene = Scene(write(tmp_path, SLIDER), on_reset=[lambda scene, random: seen.append(random.uniform())])
    scene.reset(0, 1)
    scene.reset(0, 2)
    scene.reset(0, 1)
    assert seen[1] == seen[3] != seen[2]


@pytest.mark.parametrize(
    ("numeric", "says"),
    [
        ('<numeric name="rolltape.place.ball" data="0 1 0 1 0 1"/>', "no free joint"),
        ('<numeric name="rolltape.lift.nobody" data="0.1 0.2"/>', "a body that it does not have"),
        ('<numeric name="rolltape.lift.ball" data="0.1 0.2 0.3"/>', "wrong number of values"),
    ],
)
def test_wrong_rules_are_refused(tmp_path: Path, numeric: str, says: str) -> None:
    text = SLIDER.replace("<worldbody>", f"<custom>{numeric}</custom><worldbody>")
    with pytest.raises(FormatError, match=says):
        Scene(write(tmp_path, text))


def test_files_that_are_no_scene_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no scene file"):
        Scene(tmp_path / "missing.xml")
    with pytest.raises(FormatError, match="cannot compile"):
        Scene(write(tmp_path, "<mujoco><worldbody><body><geom type='cube'/></body></worldbody></mujoco>"))
    with pytest.raises(FormatError, match="no actuator"):
        Scene(write(tmp_path, "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"))


def test_a_simulation_that_explodes_is_said(tmp_path: Path) -> None:
    scene = Scene(write(tmp_path, SLIDER.replace('damping="2"', 'damping="-4000"')))
    scene.apply(np.array([0.5]))
    with pytest.raises(RecordError, match="unstable"):
        scene.advance(2000)
