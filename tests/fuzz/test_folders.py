"""Damaged files of a dataset and of its work folder: opening, checking and resuming give typed errors only.

Each try damages one or two files of a small dataset, then opens and reads it, checks it, and opens it for writing.
"""

from __future__ import annotations

import json
import random
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rolltape
from crash.faults import copy_tree
from crash.lanes import require
from crash.stops import fresh_names, stop_everywhere
from crash.story import ENCODERS, FEATURES, FPS, Take, Teller, frame, task, tell
from fuzz.lanes import fuzz
from fuzz.mutations import mutated
from rolltape import check
from rolltape.errors import RolltapeError
from rolltape.format import Tasks, parse_info
from rolltape.write import Writer, find_takes

OUTSIDE = "nothing may touch this"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The story's dataset."""
    root = tmp_path_factory.mktemp("finished") / "set"
    tell(root, Teller())
    return root


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders with an open take, and with the notes of changes under way."""
    room = tmp_path_factory.mktemp("left")
    teller = Teller()
    writer = Writer.create(
        room / "set",
        FPS,
        FEATURES,
        rgb_encoder=ENCODERS["h264"],
        episode_fields={"operator": "string"},
        spool_seconds=1,
    )
    teller.record(writer, Take(1, 5), fields={"operator": "ann"})
    for number in range(12):
        writer.add_frame(frame(9, number), task=task(9, number))
    time.sleep(0.4)
    copy_tree(room / "set", room / "killed")
    writer.discard_episode()
    writer.close()
    fresh_names()
    told = Teller()
    sweep = stop_everywhere(room / "told", room / "copies", lambda: tell(room / "told", told), lambda: told.progress)
    stops = [stop for stop in sweep.distinct if (stop.folder / ".rolltape/intent.json").exists()]
    return [room / "killed", *(stop.folder for stop in stops[:: max(1, len(stops) // 6)])]


def use(root: Path, rng: random.Random) -> str:
    """Do with a folder what people do; only the library's errors may come out."""
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for action in (opened, opened_damaged, checked, listed, resumed):
            try:
                action(root, rng)
                outcomes.append("fine")
            except RolltapeError as error:
                require(str(error))
                outcomes.append(type(error).__name__)
    assert (root.parent / "outside").read_text() == OUTSIDE
    return f"open {outcomes[0]}, resume {outcomes[-1]}"


def opened(root: Path, rng: random.Random) -> None:
    dataset = rolltape.open(root)
    if len(dataset):
        dataset.batch([0, len(dataset) - 1])
    _ = dataset.stats


def opened_damaged(root: Path, rng: random.Random) -> None:
    dataset = rolltape.open(root, allow_damaged=True)
    if len(dataset):
        dataset.batch([rng.randrange(len(dataset))])


def checked(root: Path, rng: random.Random) -> None:
    report = check.run(root)
    str(report)
    assert not report.of_id("check.failed") or not report.ok  # what a check did not foresee is said, as an error


def listed(root: Path, rng: random.Random) -> None:
    for take in find_takes(root):
        str(take)


def resumed(root: Path, rng: random.Random) -> None:
    fresh_names()
    recover: Any = rng.choice(("keep", "drop", "ask"))
    writer = Writer.resume(root, recover, rgb_encoder=ENCODERS["h264"])
    writer.close()


def fuzz_files(lane: str, seconds: float, folders: list[Path], names: Callable[[Path], list[Path]], room: Path) -> None:
    """Damage files of folders."""
    (room / "outside").write_text(OUTSIDE)

    def once(rng: random.Random) -> str:
        root = room / "set"
        shutil.copytree(rng.choice(folders), root)
        chosen = names(root)
        for path in rng.sample(chosen, min(len(chosen), rng.choice((1, 1, 2)))):
            path.write_bytes(mutated(path.name, path.read_bytes(), rng))
        try:
            return use(root, rng)
        finally:
            shutil.rmtree(root)

    fuzz(lane, seconds, once)


@pytest.mark.timeout(1200)
def test_damaged_info(finished: Path, tmp_path: Path) -> None:
    fuzz_files("info", 10, [finished], lambda root: [root / "meta/info.json"], tmp_path)


@pytest.mark.timeout(1200)
def test_damaged_episodes(finished: Path, tmp_path: Path) -> None:
    fuzz_files("episodes", 10, [finished], lambda root: sorted((root / "meta/episodes").rglob("*.parquet")), tmp_path)


@pytest.mark.timeout(1200)
def test_damaged_tasks_and_statistics(finished: Path, tmp_path: Path) -> None:
    names = ("tasks.parquet", "tasks.parquet", "stats.json", "quantiles.npz")
    fuzz_files("tasks", 8, [finished], lambda root: [root / "meta" / name for name in names], tmp_path)


@pytest.mark.timeout(1200)
def test_damaged_takes_and_intents(left: list[Path], tmp_path: Path) -> None:
    def names(root: Path) -> list[Path]:
        work = root / ".rolltape"
        return sorted(path for path in work.rglob("*") if path.is_file() and path.stat().st_size)

    fuzz_files("takes", 12, left, names, tmp_path)


@pytest.mark.timeout(1200)
def test_damaged_data(finished: Path, tmp_path: Path) -> None:
    fuzz_files("data", 8, [finished], lambda root: sorted((root / "data").rglob("*.parquet")), tmp_path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_INFO_KEYS = st.sampled_from(
    ["codebase_version", "fps", "features", "total_episodes", "chunks_size", "data_path", "video_path", "splits", "x"]
)


@settings(max_examples=150, deadline=None)
@given(_JSON | st.dictionaries(_INFO_KEYS, _JSON))
def test_any_json_as_info(document: Any) -> None:
    try:
        parse_info(json.dumps(document).encode(), where="meta/info.json")
    except RolltapeError as error:
        require(str(error))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.none() | st.integers(-3, 2**62), max_size=4),
    st.lists(st.none() | st.text(max_size=6), max_size=4),
    st.sampled_from(["task", "__index_level_0__", "other"]),
)
def test_any_table_as_tasks(numbers: list[int | None], texts: list[str | None], name: str) -> None:
    rows = min(len(numbers), len(texts))
    try:
        table = pa.table(
            {"task_index": pa.array(numbers[:rows], pa.int64()), name: pa.array(texts[:rows], pa.string())}
        )
    except (pa.ArrowException, UnicodeEncodeError):
        return
    try:
        Tasks.from_table(table, where="meta/tasks.parquet")
    except RolltapeError as error:
        require(str(error))
