"""Every measure: a function from a `Bench` to rows.

Repeats alternate between the sides, so that a slow minute hits both.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from benchmarks.side import Side
from benchmarks.sizes import Sizes

Call = Callable[[], Any]


@dataclass(frozen=True)
class Bench:
    """Both sides, the sizes and a folder to work in."""

    ours: Side
    reference: Side
    sizes: Sizes
    work: Path

    def root(self, name: str) -> str:
        """A dataset's folder."""
        return str(self.work / name)

    def paired(self, ours: Call, reference: Call) -> tuple[list[Any], list[Any]]:
        """Run both `repeats` times, taking turns in going first."""
        mine, theirs = [], []
        for turn in range(self.sizes.repeats):
            if turn % 2:
                theirs.append(reference())
                mine.append(ours())
            else:
                mine.append(ours())
                theirs.append(reference())
        return mine, theirs


def warm(bench: Bench) -> None:
    """Import and touch everything once on both sides, uncounted: what a first episode loads is not its speed."""
    for side in (bench.ours, bench.reference):
        side.call("record_tables", root=bench.root("warm"), episodes=2, frames=10)
        side.call("record_short", root=bench.root("warm"), episodes=2, frames=10, size=64)


def encoders(bench: Bench) -> list[Row]:
    """What the encoder alone does on each side."""
    mine, theirs = bench.paired(
        partial(bench.ours.call, "encoder", folder=bench.root("encoder-ours")),
        partial(bench.reference.call, "encoder", folder=bench.root("encoder-reference")),
    )
    note = "no dataset around it: the ceiling that each side's PyAV and SVT-AV1 set"
    return [
        Row("encoder alone, 2 cameras", "frames/s", _each(mine, "fps"), _each(theirs, "fps"), note=note),
        Row(
            "encoder alone, bytes of a frame",
            "bytes",
            _each(mine, "bytes_per_frame"),
            _each(theirs, "bytes_per_frame"),
            higher_is_better=False,
        ),
    ]


def recording(bench: Bench) -> list[Row]:
    """Two cameras 640x480 as fast as it goes, against the reference's streaming and default modes."""
    sizes = bench.sizes
    mine, streaming = bench.paired(
        partial(bench.ours.call, "record", root=bench.root("ours"), episodes=sizes.episodes),
        partial(bench.reference.call, "record", root=bench.root("streamed"), episodes=sizes.episodes, streaming=True),
    )
    again, default = bench.paired(
        partial(bench.ours.call, "record", root=bench.root("ours"), episodes=sizes.episodes),
        partial(bench.reference.call, "record", root=bench.root("staged"), episodes=sizes.episodes, streaming=False),
    )
    _, threaded = bench.paired(
        lambda: None,
        partial(
            bench.reference.call, "record", root=bench.root("staged"), episodes=1, streaming=False, writer_threads=8
        ),
    )
    lost = [run["dropped"] for run in mine + again]
    return [
        Row(
            "record 2 cameras, against streaming mode",
            "frames/s",
            _each(mine, "fps"),
            _each(streaming, "fps"),
            goal=1.4,
            note="its queue made long enough to drop nothing; ours commits durably after every episode",
            detail={"ours": mine, "reference": streaming},
        ),
        Row(
            "record 2 cameras, against default mode",
            "frames/s",
            _each(again, "fps"),
            _each(default, "fps"),
            goal=5.0,
            detail={"ours": again, "reference": default},
        ),
        Row(
            "record 2 cameras, against default mode with 8 image threads",
            "frames/s",
            _each(again, "fps"),
            _each(threaded, "fps"),
        ),
        Row("frames dropped, as fast as it goes", "frames", lost, goal=0),
    ]


def pacing(bench: Bench) -> list[Row]:
    """One episode at 30 frames a second: what `add_frame` costs the control loop, and what is lost."""
    mine, theirs = bench.paired(
        partial(bench.ours.call, "record", root=bench.root("paced-ours"), episodes=1, pace=30.0),
        partial(
            bench.reference.call, "record", root=bench.root("paced"), episodes=1, pace=30.0, streaming=True, queue=30
        ),
    )
    _, flooded = bench.paired(
        lambda: None,
        partial(bench.reference.call, "record", root=bench.root("flooded"), episodes=1, streaming=True, queue=30),
    )
    rows = [
        Row(
            f"add_frame at 30 fps, {label}",
            "ms",
            _each(mine, key),
            _each(theirs, key),
            higher_is_better=False,
            detail={"ours": mine, "reference": theirs} if key == "add_max_ms" else {},
        )
        for label, key in (("median", "add_median_ms"), ("99th percentile", "add_p99_ms"), ("largest", "add_max_ms"))
    ]
    worst = Row(
        "add_frame at 30 fps, 99th percentile in itself",
        "ms",
        _each(mine, "add_p99_ms"),
        goal=2.0,
        note="the queue has room throughout; two encoders share the cores with the caller",
    )
    note = "the reference: streaming mode with its own default queue of 30"
    return [
        *rows,
        worst,
        Row(
            "frames dropped at 30 fps",
            "frames",
            _each(mine, "dropped"),
            goal=0,
            note=f"reference {_each(theirs, 'dropped')}",
        ),
        Row(
            "frames the reference drops when fed faster",
            "frames",
            [0.0] * len(flooded),
            _each(flooded, "dropped"),
            higher_is_better=False,
            note=note,
        ),
    ]


def tables(bench: Bench) -> list[Row]:
    """200-frame episodes of 14+14 floats, no cameras, durable commits on our side."""
    episodes = bench.sizes.table_episodes
    mine, theirs = bench.paired(
        partial(bench.ours.call, "record_tables", root=bench.root("tables-ours"), episodes=episodes, frames=200),
        partial(bench.reference.call, "record_tables", root=bench.root("tables"), episodes=episodes, frames=200),
    )
    grouped, again = bench.paired(
        partial(
            bench.ours.call,
            "record_tables",
            root=bench.root("tables-ours"),
            episodes=episodes,
            frames=200,
            commit_every=episodes,
        ),
        partial(bench.reference.call, "record_tables", root=bench.root("tables"), episodes=episodes, frames=200),
    )
    return [
        Row(
            "record tables, a durable commit an episode",
            "frames/s",
            _each(mine, "fps"),
            _each(theirs, "fps"),
            goal=6.0,
            detail={"ours": mine, "reference": theirs},
        ),
        Row("record tables, commits grouped", "frames/s", _each(grouped, "fps"), _each(again, "fps")),
    ]


def commits(bench: Bench) -> list[Row]:
    """Whether `save_episode` stays as fast and writes as little after 300 episodes."""
    sizes = bench.sizes
    found = bench.ours.call(
        "commits", root=bench.root("commits"), episodes=sizes.commit_episodes, frames=sizes.commit_frames, size=64
    )
    cycles = _cycles(found["files"])
    whole = cycles[:-1] if len(cycles) > 1 and len(cycles[-1]) < len(cycles[-2]) else cycles
    early, middle, late = (
        [n for cycle in part for n in cycle] for part in (whole[1:3], whole[4:6] or whole[1:3], whole[-2:])
    )
    seconds, written = found["seconds"], found["bytes"]
    slower = statistics.median(seconds[n] for n in late) / statistics.median(seconds[n] for n in early)
    more = statistics.mean(written[n] for n in late) / statistics.mean(written[n] for n in middle)
    return [
        Row("save_episode, last two hot-file cycles over cycles two and three", "times", [slower], goal=1.3),
        Row("save_episode, median", "ms", [1e3 * statistics.median(seconds)]),
        Row(
            "bytes written by a commit, largest",
            "MiB",
            [max(written) / 2**20],
            goal=1.0,
            note="whole process, encoder output included; two hot files may hold 0.5 MiB each",
            detail={"seconds": seconds, "bytes": written, "cycles": [len(cycle) for cycle in cycles]},
        ),
        Row(
            "bytes written by a commit, last cycles over cycles five and six",
            "times",
            [more],
            goal=1.3,
            note="the quantile sketches have grown to their bound by cycle five",
        ),
    ]


def opening(bench: Bench) -> list[Row]:
    """Many short episodes after packing: lerobot opens ours and its own; each side opens its own."""
    sizes = bench.sizes
    made: dict[str, dict[str, Any]] = {}
    for side, name in ((bench.ours, "short-ours"), (bench.reference, "short-reference")):
        made[name] = side.call(
            "record_short",
            root=bench.root(name),
            episodes=sizes.short_episodes,
            frames=sizes.short_frames,
            size=32,
        )
    mine, theirs = bench.root("short-ours"), bench.root("short-reference")
    rows = []
    for label, cold in (("cold", True), ("warm", False)):
        of_ours, of_its_own = bench.paired(
            partial(bench.reference.call, "open", root=mine, cold=cold),
            partial(bench.reference.call, "open", root=theirs, cold=cold),
        )
        rows.append(
            Row(
                f"lerobot opens {sizes.short_episodes} episodes, {label}: our set against its own",
                "s",
                of_ours,
                of_its_own,
                higher_is_better=False,
                goal=1 / 1.3 if cold else None,
                note="at most 1.3 times as slow" if cold else "",
            )
        )
    opened, cold_opened = bench.paired(
        partial(bench.ours.call, "open", root=mine), partial(bench.reference.call, "open", root=mine, cold=True)
    )
    rows.append(Row("open, rolltape.open against lerobot cold", "s", opened, cold_opened, higher_is_better=False))
    rows.append(
        Row(
            "record short episodes with one camera",
            "frames/s",
            [made["short-ours"]["fps"]],
            [made["short-reference"]["fps"]],
        )
    )
    return rows


def reading(bench: Bench) -> list[Row]:
    """Random access to the dataset that `recording` left, both sides on the same files."""
    root = bench.root("ours")
    if not Path(root).exists():
        bench.ours.call("record", root=root, episodes=bench.sizes.episodes)
    rows = []
    for kind in ("uint8", "float32"):
        rows += _single_items(bench, root, kind)
        rows += _batches(bench, root, kind)
    return rows


def _single_items(bench: Bench, root: str, kind: str) -> list[Row]:
    wanted = {"root": root, "count": bench.sizes.items, "uint8": kind == "uint8"}
    rows = []
    for label, drop_in in (("LeRobotDataset", True), ("rolltape.open", False)):
        mine, theirs = bench.paired(
            partial(bench.ours.call, "items", drop_in=drop_in, **wanted),
            partial(bench.reference.call, "items", **wanted),
        )
        rows.append(Row(f"random items, {kind}: {label}", "items/s", mine, theirs))
    return rows


def _batches(bench: Bench, root: str, kind: str) -> list[Row]:
    wanted = {"root": root, "batch": 16, "uint8": kind == "uint8"}
    rows = []
    for workers in (0, 2):
        loader = {**wanted, "count": bench.sizes.loader_batches, "workers": workers}
        mine, theirs = bench.paired(
            partial(bench.ours.call, "batches", count=bench.sizes.batches, **wanted),
            partial(bench.reference.call, "loader", **loader),
        )
        rows.append(Row(f"batches of 16, {kind}: batch() against DataLoader({workers})", "items/s", mine, theirs))
        mine, theirs = bench.paired(
            partial(bench.ours.call, "loader", **loader), partial(bench.reference.call, "loader", **loader)
        )
        rows.append(Row(f"batches of 16, {kind}: DataLoader({workers}) on both", "items/s", mine, theirs))
    return rows


IMPORT = """
import json, time
begin = time.perf_counter()
import {module}
seconds = time.perf_counter() - begin
from benchmarks.workload import resident_mib
print(json.dumps({{"seconds": seconds, "mib": resident_mib()}}))
"""


def importing(bench: Bench) -> list[Row]:
    """Import time and memory in a fresh interpreter."""
    pairs = []
    for _ in range(bench.sizes.imports):
        pairs.append(
            (
                bench.ours.script(IMPORT.format(module="rolltape")),
                bench.reference.script(IMPORT.format(module="lerobot.datasets.lerobot_dataset")),
            )
        )
    mine, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return [
        Row("import", "s", _each(mine, "seconds"), _each(theirs, "seconds"), higher_is_better=False),
        Row("import rolltape in itself", "s", _each(mine, "seconds"), goal=0.2),
        Row("resident memory after import", "MiB", _each(mine, "mib"), _each(theirs, "mib"), higher_is_better=False),
    ]


MEASURES: dict[str, Callable[[Bench], list[Row]]] = {
    "importing": importing,
    "encoders": encoders,
    "recording": recording,
    "pacing": pacing,
    "reading": reading,
    "tables": tables,
    "commits": commits,
    "opening": opening,
}


def _each(runs: list[dict[str, Any]], key: str) -> list[float]:
    return [run[key] for run in runs]


def _cycles(files: list[int]) -> list[list[int]]:
    """Episodes grouped by the hot file they went to."""
    cycles: list[list[int]] = []
    for episode, count in enumerate(files):
        if not cycles or count != files[episode - 1]:
            cycles.append([])
        cycles[-1].append(episode)
    return cycles


def clean(work: Path) -> None:
    """Remove what was recorded."""
    shutil.rmtree(work, ignore_errors=True)
