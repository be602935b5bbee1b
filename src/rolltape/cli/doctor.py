"""`rolltape doctor`: look at this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltape.cli.flags import Json
from rolltape.cli.printing import bytes_text, columns_text, print_json, print_text

__all__ = ["doctor", "examine"]

_PACKAGES = (
    "numpy",
    "pyarrow",
    "av",
    "Pillow",
    "huggingface_hub",
    "tqdm",
    "cyclopts",
    "PyYAML",
    "torch",
    "pandas",
    "mujoco",
    "mink",
    "lerobot",
)
_CORE = _PACKAGES[:8]
_CAMERAS, _FPS, _PICTURE_BYTES = 2, 30, 15_000
"""What the minutes of recording assume: a picture of 640x480 with the default encoder settings takes about so much."""
_RENDER = """
import os, sys
os.environ.setdefault("MUJOCO_GL", "egl") if sys.platform.startswith("linux") else None
import mujoco
model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><light pos="0 0 3"/><geom size=".1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 48, 64) as renderer:
    renderer.update_scene(data)
    seen = int(renderer.render().max())
print("drew" if seen else "black")
"""


def doctor(*, json: Json = False) -> int:
    """Look at this machine: versions, codecs that really work, rendering, cameras, disk, token.

    The exit code is 1 only when something that every recording needs is missing.

    Args:
        json: Print one JSON object and nothing else.
    """
    found = examine()
    if json:
        print_json(found)
    else:
        print_text(_text(found))
    return 0 if found["ok"] else 1


def examine() -> dict[str, Any]:
    """Return everything that is known about this machine. A part that cannot be looked at says why."""
    parts: dict[str, Callable[[], Any]] = {
        "system": _system,
        "packages": _packages,
        "ffmpeg": _ffmpeg,
        "codecs": _codecs,
        "rendering": _rendering,
        "cameras": _cameras,
        "disk": _disk,
        "hub": _hub,
    }
    found: dict[str, Any] = {}
    for name, look in parts.items():
        try:
            found[name] = look()
        except Exception as error:  # a broken part of the machine is what this command is for
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    found["problems"] = _problems(found)
    found["ok"] = not found["problems"]
    return found


def _system() -> dict[str, Any]:
    import platform
    import sys

    from rolltape._version import __version__
    from rolltape.read.threads import thread_count

    return {
        "rolltape": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "cpus": thread_count(),
    }


def _packages() -> dict[str, str | None]:
    import importlib.metadata

    found: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _ffmpeg() -> dict[str, Any]:
    import ctypes.util

    import av

    libraries = {name: ".".join(str(part) for part in version) for name, version in av.library_versions.items()}
    shared = {name: ctypes.util.find_library(name) for name in ("avcodec", "EGL", "GL", "OSMesa")}
    return {
        "bundled": libraries,
        "license": str(getattr(av, "library_meta", {}).get("libavcodec", {}).get("license", "")),
        "shared": shared,
    }


def _codecs() -> list[dict[str, Any]]:
    import dataclasses

    from rolltape.video.codecs import available

    return [dataclasses.asdict(one) for one in available()]


def _rendering() -> dict[str, Any]:
    import importlib.util
    import os
    import subprocess
    import sys
    import tempfile

    if importlib.util.find_spec("mujoco") is None:
        return {"mujoco": False, "works": None, "fix": 'pip install "rolltape[sim]"'}
    # In a process of its own: a graphics library that is broken may end the process that loads it.
    # Its folder is a temporary one, since MuJoCo leaves a log where it runs.
    command = [sys.executable, "-c", _RENDER]
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return {"mujoco": True, "works": False, "error": "it did not answer within two minutes"}
    chosen = os.environ.get("MUJOCO_GL") or ("egl" if sys.platform.startswith("linux") else "the system's")
    if done.returncode == 0 and done.stdout.strip() == "drew":
        return {"mujoco": True, "works": True, "gl": chosen}
    lines = (done.stderr or done.stdout).strip().splitlines()
    why = lines[-1] if lines else f"exit code {done.returncode}"
    return {
        "mujoco": True,
        "works": False,
        "gl": chosen,
        "error": why,
        "fix": "apt-get install libegl1 libgl1-mesa-dri",
    }


def _cameras() -> list[dict[str, Any]]:
    import os
    from pathlib import Path

    found = []
    for path in sorted(Path("/dev").glob("video*")):
        label = Path("/sys/class/video4linux") / path.name / "name"
        name = label.read_text(errors="replace").strip() if label.is_file() else ""
        found.append({"device": str(path), "name": name, "readable": os.access(path, os.R_OK | os.W_OK)})
    return found


def _disk() -> dict[str, Any]:
    import shutil

    from rolltape.read import hub_home

    home = hub_home()
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    return {
        "datasets": str(home),
        "free_bytes": free,
        "minutes_of_recording": free / (_CAMERAS * _FPS * _PICTURE_BYTES * 60),
        "assuming": f"{_CAMERAS} cameras of 640x480 at {_FPS} fps, default settings, {_PICTURE_BYTES // 1000} kB each",
    }


def _hub() -> dict[str, Any]:
    import os

    from huggingface_hub import get_token

    return {
        "token": get_token() is not None,
        "HF_LEROBOT_HOME": os.environ.get("HF_LEROBOT_HOME"),
        "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE"),
        "HF_ENDPOINT": os.environ.get("HF_ENDPOINT"),
    }


def _problems(found: dict[str, Any]) -> list[str]:
    """Return what keeps every recording from working; missing extras, cameras and tokens are no problem."""
    packages = found["packages"]
    problems = [f"the package {name} is missing" for name in _CORE if packages.get(name, "") is None]
    codecs = found["codecs"]
    if isinstance(codecs, dict):
        problems.append(f"the codecs cannot be tried: {codecs['error']}")
    elif not any(one.get("encodes") for one in codecs):
        problems.append("no video codec can encode here")
    if isinstance(found["disk"], dict) and found["disk"].get("minutes_of_recording", 1e9) < 5:
        problems.append("the disk has room for less than five minutes of recording")
    return problems


def _text(found: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, part in found.items():
        if name in ("problems", "ok"):
            continue
        lines.append(name)
        if isinstance(part, dict) and "error" in part and name != "rendering":
            lines.append(f"  cannot be looked at: {part['error']}")
        else:
            lines += _SHOWN[name](part)
    problems = found["problems"]
    lines += ["", *(f"problem: {text}" for text in problems)] if problems else ["", "Recording can start."]
    return lines


def _plain_rows(part: dict[str, Any]) -> list[str]:
    return columns_text([[name, "not set" if value is None else str(value)] for name, value in part.items()])


def _package_rows(part: dict[str, Any]) -> list[str]:
    return columns_text([[name, version or "not installed"] for name, version in part.items()])


def _ffmpeg_rows(part: dict[str, Any]) -> list[str]:
    bundled = ", ".join(f"{name} {version}" for name, version in part["bundled"].items())
    shared = ", ".join(f"{name} {'found' if path else 'missing'}" for name, path in part["shared"].items())
    return columns_text([["inside PyAV", bundled], ["shared libraries", shared]])


def _codec_rows(part: list[dict[str, Any]]) -> list[str]:
    return columns_text(
        [
            [
                str(one.get("name")),
                str(one.get("kind", "")),
                "encodes" if one.get("encodes") else "does not encode",
                "decodes" if one.get("decodes") else "does not decode",
            ]
            for one in part
        ]
    )


def _rendering_rows(part: dict[str, Any]) -> list[str]:
    if not part.get("mujoco"):
        return [f"  MuJoCo is not installed ({part.get('fix', '')})"]
    if part.get("works"):
        return [f"  MuJoCo draws without a screen ({part.get('gl')})"]
    return [f"  MuJoCo cannot draw: {part.get('error')}", *([f"  do: {part['fix']}"] if "fix" in part else [])]


def _camera_rows(part: list[dict[str, Any]]) -> list[str]:
    rows = [[one["device"], one["name"], "" if one["readable"] else "no permission"] for one in part]
    return columns_text(rows) or ["  none"]


def _disk_rows(part: dict[str, Any]) -> list[str]:
    return [
        f"  {part['datasets']}: {bytes_text(part['free_bytes'])} free",
        f"  about {part['minutes_of_recording']:,.0f} minutes of recording ({part['assuming']})",
    ]


def _hub_rows(part: dict[str, Any]) -> list[str]:
    shown = {**part, "token": "there is one" if part["token"] else "none (only needed for the Hub)"}
    return _plain_rows(shown)


_SHOWN: dict[str, Callable[[Any], list[str]]] = {
    "system": _plain_rows,
    "packages": _package_rows,
    "ffmpeg": _ffmpeg_rows,
    "codecs": _codec_rows,
    "rendering": _rendering_rows,
    "cameras": _camera_rows,
    "disk": _disk_rows,
    "hub": _hub_rows,
}
