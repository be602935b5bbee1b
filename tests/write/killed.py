"""Recordings in a process of their own that is killed, and what is known of them. Frames carry their identity."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rolltape
from sample import FRONT, WRIST, level, read_level
from write.recordings import STATE, TABLES, camera, picture

HERE = Path(__file__).parents[1]
DEPTH = "observation.images.depth"
NOTE = {"note": {"dtype": "string", "shape": [1], "names": None}}
TASKS = ("lift", "put it down")
FPS = 30

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from write.killed import run
run(*sys.argv[2:])
"""


def depth_camera(name: str = DEPTH, dtype: str = "video", size: int = 32) -> dict[str, Any]:
    """One depth camera."""
    return {name: {"dtype": dtype, "shape": [size, size, 1], "names": None, "info": {"is_depth_map": True}}}


CASES: dict[str, dict[str, Any]] = {
    "tables": {**TABLES, **NOTE},
    "video": {**TABLES, **NOTE, **camera(FRONT), **camera(WRIST)},
    "image": {**TABLES, **camera(FRONT, "image"), **camera(WRIST)},
    "depth": {**TABLES, **camera(FRONT), **depth_camera()},
    "depth image": {**TABLES, **depth_camera(dtype="image")},
}


def frame(case: str, episode: int, number: int) -> dict[str, Any]:
    """One frame; every value in it says where it belongs."""
    code = 7 * episode + number
    values: dict[str, Any] = {}
    for name, feature in CASES[case].items():
        if name == DEPTH:
            values[name] = np.full((32, 32), 500 + 40 * (code % 100), np.uint16)
        elif feature["dtype"] in ("image", "video"):
            values[name] = picture(code + (3 if name == WRIST else 0))
        elif feature["dtype"] == "string":
            values[name] = f"episode {episode} frame {number} ü"
        elif name == STATE:
            values[name] = np.array([episode, number], np.float32)
        else:
            values[name] = np.array([code, -code], np.float32)
    return values


def task(number: int) -> str:
    """The task of a frame changes within the episode."""
    return TASKS[number // 5 % 2]


def run(root: str, case: str, codec: str, spool: str, saved: str, slow: str) -> None:
    """Record for ever at 30 frames a second, after some saved episodes; every frame is told when it was added."""
    from rolltape.format import RGBEncoderConfig
    from rolltape.write import Writer, cameras

    if float(slow):
        real = cameras.CameraTake._prepared

        def late(self: cameras.CameraTake, picture: Any) -> Any:
            time.sleep(float(slow))
            return real(self, picture)

        setattr(cameras.CameraTake, "_prepared", late)  # noqa: B010  # an encoder that is too slow
    config = RGBEncoderConfig(vcodec=codec)
    writer = Writer.create(root, FPS, CASES[case], rgb_encoder=config, spool_seconds=float(spool))
    print("loss", writer.stated_loss_s.max, flush=True)
    for episode in range(int(saved)):
        for number in range(6):
            writer.add_frame(frame(case, episode, number), task=task(number))
        writer.save_episode()
    begin, number = time.perf_counter(), 0
    while True:
        time.sleep(max(0.0, begin + number / FPS - time.perf_counter()))
        writer.add_frame(frame(case, int(saved), number), task=task(number))
        number += 1
        print("frame", number, flush=True)


@dataclass(frozen=True)
class Killed:
    """What a killed recording had told.

    Attributes:
        sent: Frames of the open episode that were added.
        loss: The stated loss, in seconds.
    """

    sent: int
    loss: float


def record_and_kill(
    root: Path,
    case: str = "video",
    codec: str = "h264",
    *,
    after: float = 1.0,
    spool: float = 0,
    saved: int = 1,
    slow: float = 0,
) -> Killed:
    """Record in a process of its own, and kill it so many seconds after the first frame of the open episode."""
    arguments = [str(root), case, codec, str(spool), str(saved), str(slow)]
    log = root.with_name(f"{root.name}.log")
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(HERE), *arguments], stdout=out)
        end = time.monotonic() + 60
        while b"frame" not in log.read_bytes():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(after)
        process.kill()
        process.wait(60)
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return Killed(int(lines[-1][1]), float(lines[0][1]))


def check_frames(root: Path, case: str, lengths: list[int]) -> None:
    """Every value and every decoded picture of every frame is what was recorded there."""
    dataset = rolltape.open(root)
    assert [int(length) for length in dataset.meta.episodes.length] == lengths
    at = 0
    for episode, length in enumerate(lengths):
        for number in range(length):
            item = dataset[at]
            wanted = frame(case, episode, number)
            assert (item["episode_index"], item["frame_index"], item["index"]) == (episode, number, at)
            assert item["task"] == task(number)
            for name, value in wanted.items():
                if name == DEPTH:
                    found = np.asarray(item[name], np.float64) * 1000
                    assert abs(float(found.mean()) - float(value.mean())) < 4, (name, episode, number)
                elif isinstance(value, str):
                    assert item[name] == value
                elif value.ndim == 3:
                    assert read_level(item[name]) == level(7 * episode + number + (3 if name == WRIST else 0))
                else:
                    assert item[name].tolist() == value.tolist()
            at += 1
    assert at == len(dataset)
