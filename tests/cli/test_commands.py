"""Commands as users type them: exit codes, JSON, messages."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from cyclopts import App, Parameter

import sample
from rolltape.cli import COMMANDS, main
from rolltape.cli.doctor import examine
from rolltape.cli.flags import Mapping, Number, Values, Whole, join_booleans, read_yaml
from rolltape.errors import UsageError

GOLDEN = str(Path(__file__).parents[1] / "data/golden/v30/video_h264")


def run(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    code = main(tokens)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_help_is_quick_and_loads_no_heavy_module() -> None:
    script = (
        "import sys; from rolltape.cli import main; code = main(['--help']);"
        "heavy = {'av', 'torch', 'mujoco', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules);"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert name in done.stdout


def test_every_command_has_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        code, out, _ = run(capsys, name, "--help")
        assert code == 0, name
        assert f"Usage: rolltape {name}" in out


def test_python_m_rolltape() -> None:
    done = subprocess.run([sys.executable, "-m", "rolltape", "version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(".") >= 2


def test_check_exit_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "check", GOLDEN)[0] == 0
    sample.f1(tmp_path / "warned", task_rows=[1, 0])
    assert run(capsys, "check", str(tmp_path / "warned"))[0] == 0
    assert run(capsys, "check", str(tmp_path / "warned"), "--fail-on", "warning")[0] == 1
    assert run(capsys, "check", str(tmp_path / "warned"), "--fail-on=warning", "--ignore=tasks.order")[0] == 0
    assert run(capsys, "check", str(tmp_path / "warned"), "--fail_on=warning", "--select", "video,files")[0] == 0
    sample.f1(tmp_path / "wrong")
    sample.edit_info(tmp_path / "wrong", lambda info: info.update(total_frames=17))
    code, out, err = run(capsys, "check", str(tmp_path / "wrong"))
    assert (code, err) == (1, "")
    assert "info.total_frames" in out


def test_A63_exit_code_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sample.f1(tmp_path / "set")
    sample.cut_off(tmp_path / f"set/videos/{sample.FRONT}/chunk-000/file-000.mp4", 300)
    code, out, err = run(capsys, "check", str(tmp_path / "set"), "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["findings"][0]["id"] == "video.container"


@pytest.mark.parametrize(
    "tokens",
    [
        ("check",),
        ("check", GOLDEN, "--nope"),
        ("check", GOLDEN, "--fail-on", "nothing"),
        ("check", GOLDEN, "--select", "nothing.known"),
        ("nothing",),
    ],
)
def test_a_command_line_that_makes_no_sense(capsys: pytest.CaptureFixture[str], tokens: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *tokens)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


def test_a_failed_run_says_why_and_shows_no_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "info", str(tmp_path / "nowhere"))
    assert (code, out) == (1, "")
    assert err.startswith("error: There is no such folder.")
    assert "Traceback" not in err
    code, out, err = run(capsys, "info", str(tmp_path / "nowhere"), "--json")
    assert code == 1
    assert json.loads(out)["error"]["type"] == "DatasetNotFoundError"


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Traceback" in run(capsys, "info", str(tmp_path / "nowhere"), "--debug")[2]
    monkeypatch.setenv("ROLLTAPE_DEBUG", "1")
    assert "Traceback" in run(capsys, "info", str(tmp_path / "nowhere"))[2]


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "info", GOLDEN)
    assert (code, err) == (0, "")
    for part in (
        "16 at 10 fps",
        "golden_arm",
        "observation.images.front",
        "h264",
        "keyframe every 4",
        "place the cube",
    ):
        assert part in out
    code, out, _ = run(capsys, "info", GOLDEN, "--json")
    found = json.loads(out)
    camera = found["cameras"]["observation.images.front"]
    assert (found["episodes"], found["frames"], camera["codec"], camera["gop"]["max"]) == (3, 16, ["h264"], 4)
    assert camera["bytes_per_frame"] > 0
    assert [(one["task"], one["episodes"]) for one in found["tasks"]] == [("place the cube", 2), ("wave", 1)]
    assert found["features"]["action"] == {"dtype": "float32", "shape": [2], "names": ["x", "y"]}
    assert found["stats"]["action"]["min"] == [0.0, -15.0]


@pytest.mark.parametrize("name", ["depth_mm", "images_png", "tabular_types", "two_cameras_resumed"])
def test_info_of_every_kind(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = run(capsys, "info", str(Path(GOLDEN).parent / name))
    assert code == 0
    assert "16 at 10 fps" in out


def test_info_shows_episode_fields(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sample.f1(tmp_path / "set", episode_fields={"operator": ["ann", "bob", "ann"]})
    out = run(capsys, "info", str(tmp_path / "set"), "--json")[1]
    assert json.loads(out)["episode_fields"] == {"operator": "string"}


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecretsecret")
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "home"))
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert "hf_secret" not in out
    for part in ("rolltape", "pyarrow", "libx264", "minutes of recording", "there is one"):
        assert part in out
    assert not (tmp_path / "home").exists()


def test_doctor_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltape.cli.doctor._rendering", lambda: {"mujoco": False, "works": None})
    found = examine()
    assert found["ok"]
    assert found["hub"]["token"] in (True, False)
    assert any(one["encodes"] and one["decodes"] for one in found["codecs"])
    assert found["disk"]["free_bytes"] > 0


def test_doctor_names_what_is_broken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("libavcodec.so: cannot open shared object file")

    monkeypatch.setattr("rolltape.cli.doctor._rendering", lambda: {"mujoco": False, "works": None})
    monkeypatch.setattr("rolltape.cli.doctor._codecs", fail)
    code, out, _ = run(capsys, "doctor")
    assert code == 1
    assert "problem: the codecs cannot be tried" in out


# LeRobot's flags, on a configuration of the same shape as `record`'s


@dataclass
class Dataset:
    repo_id: str
    num_episodes: int = 50
    push_to_hub: bool = True


@dataclass
class Robot:
    type: str = "mujoco"
    cameras: Mapping = field(default_factory=dict)
    order: Values = field(default_factory=list)


@dataclass
class Config:
    dataset: Dataset
    robot: Robot = field(default_factory=Robot)
    display_data: bool = False


def parse(*tokens: str) -> Config:
    app = App(result_action="return_value")
    seen: list[Config] = []

    @app.default
    def take(config: Annotated[Config, Parameter(name="*")]) -> None:
        seen.append(config)

    app(join_booleans(tokens), exit_on_error=False, print_error=False)
    return seen[0]


@pytest.mark.parametrize(
    "tokens",
    [
        ("--dataset.repo_id=me/x", "--display_data=true", "--dataset.push_to_hub=false", "--dataset.num_episodes=5"),
        (
            "--dataset.repo-id",
            "me/x",
            "--display-data",
            "--dataset.push-to-hub",
            "False",
            "--dataset.num-episodes",
            "5",
        ),
        (
            "--dataset.repo_id",
            "me/x",
            "--display_data",
            "true",
            "--dataset.push_to_hub=False",
            "--dataset.num_episodes=5",
        ),
    ],
)
def test_flags_as_lerobots_users_type_them(tokens: tuple[str, ...]) -> None:
    assert parse(*tokens) == Config(Dataset("me/x", 5, False), Robot(), True)


def test_mappings_and_lists_are_yaml() -> None:
    config = parse(
        "--dataset.repo_id=me/x",
        "--robot.cameras={front_cam: {type: opencv, index_or_path: 0, width: 640, fps: 29.97}}",
        "--robot.order=[a, 2]",
    )
    assert config.robot.cameras == {"front_cam": {"type": "opencv", "index_or_path": 0, "width": 640, "fps": 29.97}}
    assert config.robot.order == ["a", 2]
    with pytest.raises(UsageError, match="not a mapping"):
        read_yaml("[1]", dict, "--robot.cameras")
    with pytest.raises(UsageError, match="not YAML"):
        read_yaml("{a: [", dict)


def test_what_follows_two_dashes_is_left_alone() -> None:
    assert join_booleans(["--a", "true", "--", "--b", "true"]) == ["--a=true", "--", "--b", "true"]


@pytest.mark.parametrize(
    ("flag", "value", "text"),
    [
        ("--dataset.fps", "29.97", "not a whole number"),
        ("--dataset.num_episodes", "1.5", "not a whole number"),
        ("--robot.seed", "0.5", "not a whole number"),
        ("--dataset.rgb_encoder.g", "2.5", "not a whole number"),
        ("--dataset.fps", "abc", "unable to convert"),
        ("--dataset.fps", "a.b", "unable to convert"),
    ],
)
def test_A14_a_fraction_is_never_rounded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str, value: str, text: str
) -> None:
    needed = (
        "--robot.type=mujoco",
        "--dataset.repo_id=me/x",
        "--dataset.single_task=x",
        f"--dataset.root={tmp_path}/x",
    )
    code, out, err = run(capsys, "record", *needed, f"{flag}={value}")
    assert (code, out) == (2, "")
    assert flag in err
    assert text in err
    assert not (tmp_path / "x").exists()


def test_numbers_keep_their_kind() -> None:
    app = App(result_action="return_value")

    @app.default
    def show(*, a: Whole | None = None, b: Number | None = None) -> tuple[Any, Any]:
        return a, b

    for tokens, wanted in (
        (["--a=30.0", "--b=28.5"], (30, 28.5)),
        (["--a=-3", "--b=28"], (-3, 28)),
        ([], (None, None)),
    ):
        found = app(tokens, exit_on_error=False)
        assert [(one, type(one)) for one in found] == [(one, type(one)) for one in wanted]


def test_a_command_line_that_makes_no_sense_is_one_json_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "info", "--json")
    assert code == 2
    assert "PATH" in json.loads(out)["error"]["message"]
    assert "PATH" in err
