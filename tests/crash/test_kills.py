"""A recording at 30 frames a second is killed at random times. 20 kills in `make test`; `make soak` has 1,000.

What `save_episode` returned from is there, every picture stands beside its row, and the open take comes back but for
what the writer had said at the start: 0.2 s with the spool, the encoder's delay more without it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crash.children import start
from crash.kills import RATE, Board, record_until_killed
from crash.lanes import SEED, note
from crash.stops import recover_once
from crash.story import Progress, verify

KILLS = int(os.environ.get("ROLLTAPE_KILLS", "20"))
KINDS = [("av1", 0.0), ("av1", 4.0), ("h264", 0.0), ("h264", 4.0)]


@dataclass
class Losses:
    """What the open takes lost, in frames beyond and within what was stated."""

    kills: int = 0
    in_takes: int = 0
    while_saving: int = 0
    committed: int = 0
    frames_lost: list[int] = field(default_factory=list)
    stated: set[float] = field(default_factory=set)
    beyond_stated: int = 0

    def add(self, progress: Progress, takes: tuple[Any, ...], waiting: int, stated: float, late: float) -> None:
        """Compare one kill's outcome with what was promised."""
        self.kills += 1
        self.committed += len(progress.saved)
        self.stated.add(round(stated, 3))
        taken = progress.taken
        self.while_saving += progress.saving is not None
        if taken is None or taken.number in progress.gone:
            return
        back = takes[-1].frames if takes and takes[-1].number == taken.number else 0
        self.in_takes += 1
        self.frames_lost.append(taken.frames - back)
        self.beyond_stated += taken.frames - back > stated * RATE + 1
        # What a busy machine kept from the encoder and from the flushing thread is not the writer's loss.
        allowed = stated * RATE + waiting + late * RATE + 1
        assert taken.frames - back <= allowed, (
            f"{taken.frames - back} of {taken.frames} frames lost; stated {stated:.2f} s, {waiting} frames waited for "
            f"the encoder, frames came {late:.2f} s late"
        )


@pytest.mark.parametrize(("encoder", "spool"), KINDS, ids=[f"{e}-{'spool' if s else 'plain'}" for e, s in KINDS])
def test_killed_at_random_times(tmp_path: Path, encoder: str, spool: float) -> None:
    began = time.monotonic()
    rng = random.Random(f"{SEED} {encoder} {spool}")
    losses = Losses()
    for number in range(-(-KILLS // len(KINDS))):
        root, board_path = tmp_path / "set", tmp_path / "board"
        board = Board(board_path, create=True)
        seed = rng.randrange(1 << 30)
        process = start(record_until_killed, root, board_path, encoder, spool, seed)
        try:
            wait_for_frames(process, board, board_path)
            time.sleep(rng.uniform(0.0, 4.0))
        finally:
            process.kill()
            process.join()
        progress, waiting, stated, worst = board.read()
        board.close()
        shutil.copytree(root, tmp_path / "as-killed")
        try:
            verify(root, progress.possible)
            takes = recover_once(root, progress, recover="keep", encoder=encoder)
            losses.add(progress, takes, waiting, 0.2 if spool else stated, max(0.0, worst - 1 / RATE))
        except BaseException as error:
            error.add_note(f"kill {number}, seed {seed}, {progress}, folder as it was killed: {tmp_path / 'as-killed'}")
            raise
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "as-killed")
    report(f"soak-kills-{encoder}-{'spool' if spool else 'plain'}", began, losses)


def report(lane: str, began: float, losses: Losses) -> None:
    lost = sorted(losses.frames_lost)
    note(
        lane,
        began,
        kills=losses.kills,
        within_open_takes=losses.in_takes,
        while_saving=losses.while_saving,
        committed_episodes=losses.committed,
        committed_episodes_lost=0,
        misaligned_frames=0,
        beyond_stated_on_a_busy_machine=losses.beyond_stated,
        stated_loss_s=sorted(losses.stated),
        frames_lost={"median": lost[len(lost) // 2], "most": lost[-1], "rate": RATE} if lost else None,
    )


def wait_for_frames(process: Any, board: Board, log: Path) -> None:
    """Wait until the recording has begun."""
    for _ in range(600):
        if board.read() is not None:
            return
        assert process.is_alive(), log.with_suffix(".log").read_text()
        time.sleep(0.05)
    raise AssertionError("the recording did not begin")
