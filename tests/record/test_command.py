"""`rolltape record` as users type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rolltape
from rolltape.cli import main
from rolltape.cli.record import exit_code
from rolltape.record import EpisodeResult, Summary

BASE = ["record", "--robot.type=mujoco", "--dataset.repo_id=me/demo", "--dataset.single_task=Lift the cube"]
QUICK = ["--robot.cameras={front: {type: mujoco, width: 48, height: 32}}", "--dataset.rgb_encoder.vcodec=h264"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def answer(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Any]:
    code = main([*BASE, *flags, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_command_of_the_readme(tmp_path: Path) -> None:
    """In a process of its own, with the shipped cameras and the reference's codec."""
    done = subprocess.run(
        [sys.executable, "-m", "rolltape", *BASE, "--dataset.num_episodes=1"],
        env={**os.environ, "HF_LEROBOT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "recording 1 episodes at 25 Hz; cameras: front, wrist" in done.stderr
    assert "success" in done.stderr
    assert "1 of 1 episodes" in done.stdout
    assert str(tmp_path / "me/demo") in done.stdout
    dataset = rolltape.open(tmp_path / "me/demo")
    assert dataset[0]["observation.images.wrist"].shape == (3, 240, 320)
    assert dataset.info.video_features["observation.images.front"].info["video.codec"] == "av1"  # type: ignore[index]


def test_flags_in_every_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, summary = answer(
        capsys,
        f"--dataset.root={tmp_path / 'set'}",
        "--dataset.num-episodes",
        "2",
        "--dataset.episode_time_s=0.4",
        '--robot.cameras={"wrist": {"width": 48, "height": 32, "use_depth": false}}',
        "--dataset.rgb_encoder.vcodec=h264",
        "--dataset.rgb-encoder.crf=23",
        "--dataset.rgb_encoder.extra_options={tune: zerolatency}",
        "--dataset.encoder_threads=1",
        "--dataset.encoder-queue-maxsize=4",
        "--robot.seed=3",
        "--dataset.fps=50",
        "--play_sounds",
        "true",
    )
    assert code == 0
    assert (summary["total_episodes"], summary["total_frames"], summary["fps"], summary["ok"]) == (2, 40, 50, True)
    info = rolltape.open(tmp_path / "set").features["observation.images.wrist"].info
    assert info is not None
    assert (info["video.codec"], info["video.crf"]) == ("h264", 23)


def test_the_name_is_kept_or_stamped_and_the_dataset_opened_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [*QUICK, "--dataset.num_episodes=1", "--dataset.episode_time_s=0.2"]
    code, summary = answer(capsys, *flags)
    assert (code, summary["repo_id"]) == (0, "me/demo")
    assert rolltape.open("me/demo").num_episodes == 1
    code = main([*BASE, *flags])
    assert code == 1
    assert "--resume=true" in capsys.readouterr().err
    code, summary = answer(capsys, *flags, "--dataset.no_stamp=false")
    assert code == 0
    assert summary["repo_id"].startswith("me/demo_20")
    assert len(summary["repo_id"]) == len("me/demo_YYYYmmdd_HHMMSS")
    assert rolltape.open(summary["repo_id"]).num_episodes == 1
    code, summary = answer(capsys, *flags, "--resume=true")
    assert (code, summary["total_episodes"]) == (0, 2)


def test_a_policy_drives(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wave_policy.py").write_text(
        "import numpy as np\n"
        "def wave(observation):\n"
        "    return observation['observation.state'] + np.float32(0.01)\n"
        "def high(scene):\n"
        "    return scene.time > 0.1\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, summary = answer(
        capsys,
        "--robot.cameras={}",
        "--teleop.policy=wave_policy:wave",
        "--robot.success=wave_policy:high",
        "--dataset.num_episodes=1",
        "--dataset.episode_time_s=0.4",
    )
    assert (code, summary["frames"], summary["successes"]) == (0, 10, 1)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--robot.type=so101_follower", "--robot.port=/dev/ttyACM0", "--teleop.port=/dev/ttyACM1"], "is a real robot"),
        (["--robot.type=toaster"], "no such type of robot"),
        (["--teleop.type=so101_leader"], "comes with a later version"),
        (["--teleop.type=magic"], "no such type of teleoperator"),
        (["--teleop.type=policy"], "--teleop.policy is missing"),
        (["--dataset.push_to_hub=true"], "does not upload"),
        (["--dataset.num_episodes=0"], "1 or more"),
        (["--dataset.repo_id=../evil"], "dataset.repo_id"),
        (["--dataset.single_task="], "dataset.single_task"),
        (["--dataset.fps=30"], "25 or 50"),
        (["--dataset.fps=fast"], "fps"),
        (["--robot.cameras={front: {type: opencv}}"], "simulated cameras"),
        (["--robot.cameras={front: {widht: 3}}"], "widht"),
        (["--robot.cameras={front: {width: wide}}"], "wrong kind"),
        (["--robot.cameras={front: ["], "not YAML"),
        (["--robot.cameras={top: {}}"], "front, wrist"),
        (["--robot.scene=missing.xml"], "no scene file"),
        (["--robot.samples=3"], "samples"),
        (["--dataset.num_episode=3"], "Did you mean"),
        (["--robot.keyframe=sleep"], "no keyframe"),
    ],
)
def test_wrong_flags_are_usage_errors(
    flags: list[str], says: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = [flag for flag in BASE if not (flag.startswith("--robot.type") and "--robot.type" in "".join(flags))]
    assert main([*base, *flags]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
    assert not home.exists(), "nothing is made"


def test_a_missing_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--dataset.single_task=x"]) == 2
    assert "--dataset.repo_id" in capsys.readouterr().err


def test_flags_that_change_nothing_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--display_data=true", "--dataset.streaming_encoding=false", "--dataset.video_encoding_batch_size=4"]
    flags += ["--dataset.tags=[a]", "--dataset.private=true", "--robot.cameras={}", "--dataset.num_episodes=1"]
    assert main([*BASE, *flags, f"--dataset.root={tmp_path / 'set'}", "--dataset.episode_time_s=0.2"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 4


def test_a_list_is_read_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--dataset.tags=lift"]) == 2
    assert "--dataset.tags is not a list" in capsys.readouterr().err


def test_a_dataset_that_differs_from_the_recording_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolltape.Writer, "save_episode", lambda self, **options: self.discard_episode())
    code = main([*BASE, "--robot.cameras={}", "--dataset.episode_time_s=0.2", "--dataset.num_episodes=2"])
    assert code == 1
    assert "error: The dataset holds 0 episodes where 2 were recorded." in capsys.readouterr().err


def test_exit_codes() -> None:
    def code(episodes: int = 2, stopped_by: str | None = None, problems: tuple[str, ...] = ()) -> int:
        results = tuple(EpisodeResult(k, 5) for k in range(episodes))
        parts: dict[str, Any] = {"warnings": (), "problems": problems, "stopped_by": stopped_by}
        return exit_code(Summary(Path("x"), "me/x", 25, 2, results, 0, episodes, 5 * episodes, 1.0, **parts))

    assert code() == 0
    assert code(1) == 1
    assert code(1, "SIGINT") == 130
    assert code(1, "SIGTERM") == 143
    assert code(1, "finish") == 0
    assert code(2, None, ("it differs",)) == 1
    assert code(1, "SIGINT", ("it differs",)) == 1


def test_the_help_names_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("--robot.scene", "--teleop.policy", "--dataset.num-episodes", "--resume", "--json"):
        assert flag in text
