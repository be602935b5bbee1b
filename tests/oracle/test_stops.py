"""The real lerobot opens what a stop of our writer left, before any recovery, and reads the committed episodes right.

The stops are those of `tests/crash`: a recording of three episodes with two cameras, a discard, a resume and packing,
stopped at every operation of the file system. All stops within packing are looked at, and a seeded sample of the rest.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from crash.identity import CAMERAS, identities
from crash.lanes import note, require, sampled
from crash.stops import Stop, Sweep, fresh_names, resume, stop_everywhere
from crash.story import STATE, Progress, Take, Teller, frame, task, tell, verify
from oracle.client import Oracle, OracleError
from rolltape import check
from rolltape.errors import RolltapeError
from rolltape.read import Dataset

FOREIGN = Take(40, 7)
"""What lerobot records after a stop."""
OUTSIDE_PACKING = 50


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    room = tmp_path_factory.mktemp("told")
    teller = Teller()
    fresh_names()
    return stop_everywhere(room / "set", room / "copies", lambda: tell(room / "set", teller), lambda: teller.progress)


def chosen(sweep: Sweep, most: int) -> list[Stop]:
    """Stops with something committed: all different ones within packing, and a sample."""
    stops = [stop for stop in sweep.distinct if stop.progress.saved]
    return sampled(stops, most, always=[stop for stop in stops if stop.operation.is_packing])


def lerobots_takes(oracle: Oracle, root: Path) -> tuple[Take, ...]:
    """The takes that lerobot finds, after a look at every value and picture it gives."""
    with oracle.open(root, return_uint8=True) as theirs:
        items = theirs.items()
        assert theirs.facts["total_frames"] == len(items) == len(theirs)
    places = []
    for index, item in enumerate(items):
        take, number = (int(one) for one in item[STATE].array)
        places.append((int(item["episode_index"].array), take))
        expected = frame(take, number)
        at = f"item {index}, take {take}, frame {number}"
        assert int(item["index"].array) == index, at
        assert int(item["frame_index"].array) == number, at
        assert np.array_equal(item["action"].array, expected["action"]), at
        assert item["note"] == expected["note"], at
        assert item["task"] == task(take, number), at
        for camera in CAMERAS:
            assert identities(item[camera].array[None]) == [(take, number, camera)], f"{at} {camera}"
    found = tuple(Take(take, places.count((episode, take))) for episode, take in dict.fromkeys(places))
    assert [episode for episode, _ in dict.fromkeys(places)] == list(range(len(found)))
    return found


def test_lerobot_reads_what_stops_left(oracle: Oracle, sweep: Sweep) -> None:
    began = time.monotonic()
    stops = chosen(sweep, OUTSIDE_PACKING)
    assert len(stops) >= 60
    for stop in stops:
        try:
            assert lerobots_takes(oracle, stop.folder) in stop.progress.possible
            with oracle.open(stop.folder, episodes=[0], return_uint8=True) as one:
                assert len(one) == stop.progress.saved[0].frames
                assert [int(item["index"].array) for item in one.items()] == list(range(len(one)))
        except BaseException as error:
            error.add_note(f"stopped {stop}")
            raise
    packing = sum(stop.operation.is_packing for stop in stops)
    note("soak-stops-lerobot", began, stops=len(stops), within_packing=packing, episodes_lost=0, misaligned_frames=0)


def test_lerobot_resumes_after_stops(oracle: Oracle, sweep: Sweep, tmp_path: Path) -> None:
    """lerobot goes on with a folder without our recovery; what it makes is right, or is refused with a reason.

    Afterwards our writer goes on with it as well, whose notes of the stop are out of date then.
    """
    began = time.monotonic()
    outcomes: dict[str, int] = {}
    stops = [stop for stop in sweep.distinct if stop.progress.saved]
    always = [stop for stop in stops if stop.operation.is_packing or is_put_in_place(stop)]
    for number, stop in enumerate(sampled(stops, 12, always=always)):
        root = tmp_path / str(number)
        shutil.copytree(stop.folder, root)
        try:
            outcome = resumed_by_lerobot(oracle, root, stop.progress)
        except BaseException as error:
            error.add_note(f"stopped {stop}")
            raise
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        shutil.rmtree(root)
    print(outcomes)
    assert outcomes.get("right", 0) > sum(outcomes.values()) // 2
    note("soak-resume-lerobot", began, outcomes=outcomes)


def is_put_in_place(stop: Stop) -> bool:
    """Whether the stop is between the renames of a commit."""
    return stop.operation.name == "rename" and stop.operation.within[-1].endswith("Change.apply")


def resumed_by_lerobot(oracle: Oracle, root: Path, progress: Progress) -> str:
    before = verify(root, progress.possible)
    frames = [{**frame(FOREIGN.number, k), "task": task(FOREIGN.number, k)} for k in range(FOREIGN.frames)]
    try:
        oracle.call("append", root=str(root), frames=frames, rgb={"vcodec": "h264"})
    except OracleError as error:
        require(error.trace)
        verify(root, progress.possible)
        return "refused by lerobot"
    possible = [(*one, FOREIGN) for one in progress.possible]
    try:
        takes = verify(root, possible)
    except (AssertionError, RolltapeError) as error:
        # Silently wrong for lerobot: then at least ours says so, and says where.
        require(not check.run(root).ok, error)
        with pytest.raises(RolltapeError):
            whole(rolltape.open(root))
        with pytest.raises(RolltapeError):
            resume(root, "drop")
        return "damaged by lerobot, refused by us"
    assert takes[: len(before)] == before or before[-1] == progress.saving
    right = lerobot_agrees(oracle, root, takes)
    if not right:
        # Rows of a commit that was stopped stand in a file that lerobot does not write again. Ours reads by the
        # episodes table and is right; check says what is wrong, and our recovery takes the rows away.
        assert "tables.orphan_rows" in check.run(root).ids
    writer = resume(root, "drop")
    writer.close()
    verify(root, [takes], checked=True)
    assert lerobots_takes(oracle, root) == takes
    return "right" if right else "right for us at once, for lerobot after our recovery"


def lerobot_agrees(oracle: Oracle, root: Path, takes: tuple[Take, ...]) -> bool:
    """Whether lerobot reads these takes."""
    try:
        return lerobots_takes(oracle, root) == takes
    except AssertionError:
        return False


def whole(dataset: Dataset) -> Any:
    """Read everything."""
    return dataset.batch(range(len(dataset)))


def test_kept_progress_is_not_changed(sweep: Sweep) -> None:
    """A stop's progress is what it was at that moment."""
    assert replace(sweep.stops[0].progress) == Progress()
    assert sweep.stops[-1].progress.saved == (Take(1, 5), Take(3, 4), Take(4, 6))
