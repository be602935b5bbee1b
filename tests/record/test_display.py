"""What is written while recording: one live line on a terminal, whole lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from rolltape.record import (
    Began,
    EpisodeBegan,
    EpisodeDiscarded,
    EpisodeResult,
    EpisodeSaved,
    Event,
    Noted,
    StatusLine,
    Ticked,
    Warned,
)

EVENTS: list[Event] = [
    Noted("a note"),
    Began(Path("out/set"), "me/set", 25, ("observation.images.front",), 5, 2),
    EpisodeBegan(2, 0, 5, 0, 100),
    Ticked(1, 0, 0),
    Ticked(50, 3, 7),
    EpisodeSaved(EpisodeResult(2, 50, True, 24.9, 0.06, 3)),
    EpisodeBegan(3, 1, 5, 1, 100),
    Ticked(9, 0, 0),
    EpisodeDiscarded(3, 9, "to be recorded again"),
    Warned("a warning"),
]


def shown(live: bool) -> str:
    stream, seconds = io.StringIO(), iter(range(1000))
    line = StatusLine(stream, live=live, clock=lambda: float(next(seconds)), bell=True)
    for event in EVENTS:
        line(event)
    line.clear()
    return stream.getvalue()


def test_whole_lines_where_there_is_no_terminal() -> None:
    assert shown(live=False).splitlines() == [
        "note: a note",
        "recording 5 episodes at 25 Hz, after 2 that are there; cameras: front; into out/set",
        "episode 2: 50 frames, 24.9 Hz, 3 late, success",
        "episode 3: thrown away after 9 frames (to be recorded again)",
        "warning: a warning",
    ]


def test_what_a_kill_costs_is_said_at_the_start() -> None:
    stream = io.StringIO()
    began = Began(Path("out/set"), "me/set", 25, ("observation.images.front",), 5, 2, loss_s=0.8)
    StatusLine(stream, live=False)(began)
    StatusLine(stream, live=False)(replace(began, loss_s=0.2, spool_s=10))
    lines = stream.getvalue().splitlines()
    assert "at most 0.8 s of the open episode" in lines[1]
    assert "at most 0.2 s of the open episode" in lines[3]
    assert "10 s of room" in lines[3]


def test_a_live_line_on_a_terminal() -> None:
    text = shown(live=True)
    assert "\r\x1b[Kepisode 2 [1/5]  frame 50  2.0 s" in text
    assert "late 3  encoder queue 7" in text
    assert "episode 3 [2/5] (attempt 2)  frame 9" in text
    assert "success\a\n" in text
    assert text.endswith("warning: a warning\n")


def test_a_real_terminal_shows_the_live_line(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    flags = ["--dataset.repo_id=me/tty", "--dataset.single_task=x", "--robot.cameras={}", "--dataset.num_episodes=1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rolltape", "record", *flags, f"--dataset.root={tmp_path / 'set'}"],
        stdout=subprocess.DEVNULL,
        stderr=follower,
    )
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(leader)
    assert process.wait(timeout=60) == 0
    text = b"".join(parts).decode()
    assert "episode 0 [1/1]  frame " in text
    assert "encoder queue 0" in text


def test_a_terminal_that_was_closed_is_no_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    line = StatusLine(Closed(), live=True)
    for event in EVENTS:
        line(event)
    line.clear()
