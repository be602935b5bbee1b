"""The writer is stopped at every operation of the file system; nothing committed is lost, nothing is misaligned.

All stops are looked at by opening the folder and decoding every picture. Recovering, and stopping the recovery
everywhere, is done for a seeded sample and for all stops within packing; for all stops by `make soak`.
"""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from crash.children import EXIT, start, tell_and_exit
from crash.conftest import Told
from crash.lanes import note, sampled
from crash.stops import Stop, fresh_names, recover_everywhere, recover_once, stop_everywhere, tree_digest
from crash.story import Progress, Take, Teller, pictures_of, tell, verify

Find = Callable[..., Told]
SHARDS = range(2)
STORY = (Take(1, 5), Take(3, 4), Take(4, 6))
PAST_LAYER = (
    "rolltape.video.encode.VideoEncoder",  # makes the file that the muxer then writes
    "rolltape.video.packets.join",  # writes a staged video, which only a rename of the layer brings into the dataset
    "rolltape.write.picture_stats",  # pixels that wait on disk for their statistics
)


def share(items: list[Any], shard: int) -> list[Any]:
    """One of two parts, so that two workers can go through a list."""
    return items[shard :: len(SHARDS)]


def packing(told: Told) -> list[Stop]:
    return [stop for stop in told.sweep.distinct if stop.operation.is_packing]


def test_story_is_whole_and_covers_what_it_should(told: Find) -> None:
    story = told()
    assert verify(story.root, [STORY], story.truth, checked=True) == STORY
    assert not (story.root / ".rolltape").exists()
    names = {operation.name for operation in story.sweep.operations}
    assert {"write_file", "rename", "link", "remove_file", "make_folder", "fsync_file", "fsync_folder"} <= names
    within = {name.rsplit(".", 1)[-1] for operation in story.sweep.operations for name in operation.within}
    assert {"commit", "add_field", "pack_videos", "remove_unused_videos", "discard_episode", "acquire"} <= within
    assert len(story.sweep.operations) > 150
    assert len(packing(story)) > 20


def test_nothing_changes_the_folder_past_the_layer(told: Find) -> None:
    """Besides what PyAV's muxer writes, everything goes through `rolltape.store.local`; the exceptions are listed."""
    for operation in told().sweep.operations:
        if operation.past_layer:
            assert any(name.startswith(PAST_LAYER) for name in operation.within), str(operation)
            assert operation.path.startswith(".rolltape/"), str(operation)


@pytest.mark.parametrize("encoder", ["h264", "av1", "hevc"])
def test_every_stop_opens_with_all_committed_episodes(told: Find, encoder: str) -> None:
    began = time.monotonic()
    story = told(encoder)
    for stop in story.sweep.distinct:
        try:
            verify(stop.folder, stop.progress.possible, story.truth)
        except BaseException as error:
            error.add_note(f"stopped {stop}")
            raise
    note(
        f"soak-stops-{encoder}",
        began,
        operations=len(story.sweep.operations),
        stops=len(story.sweep.stops),
        different_folders=len(story.sweep.distinct),
        within_packing=sum(stop.operation.is_packing for stop in story.sweep.stops),
        committed_episodes_lost=0,
        misaligned_frames=0,
    )


@pytest.mark.parametrize("shard", SHARDS)
@pytest.mark.parametrize("options", [{}, {"encoder": "av1"}, {"commit_every": 2}], ids=["h264", "av1", "groups"])
def test_recovery_after_stops(told: Find, tmp_path: Path, options: dict[str, Any], shard: int) -> None:
    began = time.monotonic()
    story = told(**options)
    plain, encoder = not options, str(options.get("encoder", "h264"))
    chosen = sampled(story.sweep.distinct, 30 if plain else 12, always=packing(story) if plain else ())
    kept = 0
    for number, stop in enumerate(share(chosen, shard)):
        room = tmp_path / str(number)
        shutil.copytree(stop.folder, room)
        recover: Literal["keep", "drop"] = "keep" if number % 3 else "drop"
        try:
            takes = recover_once(room, stop.progress, story.truth, recover=recover, encoder=encoder)
        except BaseException as error:
            error.add_note(f"stopped {stop}")
            raise
        kept += len(takes) > len(stop.progress.saved)
        shutil.rmtree(room)
    name = "-".join(map(str, options.values())) or "h264"
    note(f"soak-recovery-{name}-{shard}", began, recovered=len(share(chosen, shard)), open_takes_kept=kept)


@pytest.mark.parametrize("shard", SHARDS)
def test_recovery_is_stopped_everywhere(told: Find, tmp_path: Path, shard: int) -> None:
    began = time.monotonic()
    story = told()
    chosen = share(sampled(story.sweep.distinct, 14, always=packing(story)), shard)
    seen: set[tuple[str, Progress]] = set()
    stops = 0
    for number, stop in enumerate(chosen):
        room = tmp_path / str(number)
        stops += recover_everywhere(stop, room, story.truth, recover="keep" if number % 3 else "drop", seen=seen)
        shutil.rmtree(room)
    assert stops > 100
    note(f"soak-recovery-stopped-{shard}", began, recoveries=len(chosen), stops=stops, different_folders=len(seen))


@pytest.mark.parametrize("shard", SHARDS)
def test_real_exits_leave_what_the_copies_show(told: Find, tmp_path: Path, shard: int) -> None:
    """A copy of the folder is a fair picture of a stop: processes that really end at an operation leave the same."""
    began = time.monotonic()
    story = told()
    main = [operation for operation in story.sweep.operations if not operation.background]
    chosen = share(sampled(main, 16), shard)
    same = 0
    for operation in chosen:
        root, report = tmp_path / "set", tmp_path / "report"
        phase: Literal["half", "before"] = (
            "half" if operation.name == "write_file" and operation.number % 2 else "before"
        )
        process = start(tell_and_exit, root, report, operation.number, phase, False, "h264")
        process.join(60)
        assert process.exitcode == EXIT, report.with_suffix(".log").read_text()
        progress, at = pickle.loads(report.read_bytes())
        # How many operations a take needs while it is recorded is up to its threads, so numbers may differ a little.
        copies = [
            tree_digest(stop.folder, open_takes=False)
            for stop in story.sweep.stops
            if (stop.operation.name, stop.operation.path, stop.phase, stop.progress)
            == (at.name, at.path, phase, progress)
        ]
        if root.exists():
            assert not copies or tree_digest(root, open_takes=False) in copies, str(at)
            same += bool(copies)
            verify(root, progress.possible, story.truth)
            recover_once(root, progress, story.truth)
            shutil.rmtree(root)
    note(f"soak-exits-{shard}", began, processes=len(chosen), same_as_copies=same)
    assert same >= len(chosen) // 2


@pytest.mark.parametrize("cut", ["emptied", "zeroed"])
def test_power_cuts(tmp_path: Path, cut: Any) -> None:
    """The power is cut at every operation: files that were not fsynced since they were written have no content.

    That renames and removals are in order on the disk is taken for granted here.
    """
    began = time.monotonic()
    teller = Teller()
    fresh_names()
    root = tmp_path / "set"
    sweep = stop_everywhere(root, tmp_path / "copies", lambda: tell(root, teller), lambda: teller.progress, cut=cut)
    truth = pictures_of(root)
    recovered = 0
    chosen = sampled(sweep.distinct, 40)
    for stop in sweep.distinct:
        try:
            verify(stop.folder, stop.progress.possible, truth)
            if stop in chosen:
                shutil.copytree(stop.folder, tmp_path / "one")
                recover_once(tmp_path / "one", stop.progress, truth, recover="keep" if recovered % 2 else "drop")
                recovered += 1
                shutil.rmtree(tmp_path / "one")
        except BaseException as error:
            error.add_note(f"the power was cut {stop}")
            raise
    note(f"soak-power-{cut}", began, stops=len(sweep.stops), recovered=recovered, committed_episodes_lost=0)
