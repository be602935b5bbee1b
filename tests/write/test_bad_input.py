"""Input that a recording refuses: at once, by name, and without losing what was recorded before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltape
from rolltape.errors import (
    ClosedError,
    DamagedFileError,
    DatasetExistsError,
    EpisodeError,
    FormatError,
    FrameError,
    UsageError,
)
from rolltape.write import Writer
from sample import FRONT, cut_off, f1
from write.recordings import (
    ONE_CAMERA,
    STATE,
    TABLES,
    add,
    camera,
    check_whole,
    create,
    files,
    info,
    record,
    rows,
    snapshot,
    vector,
)

HALF = "caf\udce9"
"""What a file name in another encoding becomes in Python: UTF-8 cannot hold it."""


@pytest.mark.parametrize(
    ("features", "options", "error", "text"),
    [
        ({"x": {"dtype": "float32", "shape": [1], "unit": object()}}, {}, FormatError, "feature x"),
        ({"x": {"dtype": "float32", "shape": [2], "names": {"a", "b"}}}, {}, FormatError, "feature x"),
        ({"x": {"dtype": "float32", "shape": [1], "limit": float("nan")}}, {}, FormatError, "feature x"),
        ({"x": {"dtype": "float32", "shape": [1], "names": [HALF]}}, {}, FormatError, "feature x"),
        ({HALF: {"dtype": "float32", "shape": [1]}}, {}, FormatError, "UTF-8"),
        ({"x": {"dtype": "string", "shape": [2]}}, {}, FormatError, "A text is one value"),
        ({"task": {"dtype": "float32", "shape": [2]}}, {}, FormatError, "feature task"),
        (camera("x" * 201), {}, FormatError, "200 bytes"),
        (camera("é" * 101), {}, FormatError, "202 bytes"),
        (TABLES, {"robot_type": 5}, FormatError, "robot_type"),
        (TABLES, {"tools": [object()]}, FormatError, "tools"),
        (TABLES, {"tools": "a tool"}, FormatError, "tools"),
        (TABLES, {"chunks_size": 1.5}, FormatError, "chunks_size"),
        (TABLES, {"chunks_size": "1000"}, UsageError, "size limits"),
        (TABLES, {"data_files_size_in_mb": float("nan")}, UsageError, "size limits"),
        (TABLES, {"data_files_size_in_mb": float("inf")}, FormatError, "data_files_size_in_mb"),
        (TABLES, {"commit_every": float("nan")}, UsageError, "commit_every"),
        (TABLES, {"commit_every": 1.5}, UsageError, "commit_every"),
        (TABLES, {"queue_frames": "30"}, UsageError, "queue_frames"),
        (TABLES, {"episode_fields": ["operator"]}, FormatError, "not a mapping"),
        (TABLES, {"episode_fields": {HALF: "string"}}, FormatError, "name"),
        (camera(), {"rgb_encoder": "h264"}, UsageError, "RGBEncoderConfig"),
        (camera(), {"depth_encoder": "hevc"}, UsageError, "DepthEncoderConfig"),
    ],
)
def test_a_description_that_cannot_be_written_is_refused_before_the_first_frame(
    tmp_path: Path, features: dict[str, Any], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        create(tmp_path / "set", features, **options)
    assert not (tmp_path / "set").exists()


def test_the_longest_camera_name_is_recorded(tmp_path: Path) -> None:
    name = "é" * 100
    root = record(tmp_path / "set", [2], {**TABLES, **camera(name)})
    assert rolltape.open(root)[1][name].shape == (3, 32, 32)


def test_what_info_json_holds_is_what_the_writer_goes_on_with(tmp_path: Path) -> None:
    names = ("x", "y")
    with create(tmp_path / "set", {"x": {"dtype": "float32", "shape": (2,), "names": names}}) as writer:
        assert writer.features["x"].names == ["x", "y"]
    assert info(tmp_path / "set")["features"]["x"]["names"] == ["x", "y"]


@pytest.mark.parametrize(
    ("values", "task", "text"),
    [
        ({"note": HALF}, "t", "note: wanted a text that UTF-8 can hold"),
        ({"note": "x"}, HALF, "task: wanted a text that UTF-8 can hold"),
        ({STATE: np.ma.masked_array(np.zeros(2, np.float32), [True, False])}, "t", "masked"),
    ],
)
def test_values_that_cannot_be_stored_are_refused_frame_by_frame(
    tmp_path: Path, values: dict[str, Any], task: str, text: str
) -> None:
    features = {**vector(STATE), "note": {"dtype": "string", "shape": [1], "names": None}}
    good = {STATE: np.zeros(2, np.float32), "note": "é 🤖\0"}
    with create(tmp_path / "set", features) as writer:
        writer.add_frame(good, task="é 🤖")
        with pytest.raises(FrameError, match=text):
            writer.add_frame({**good, **values}, task=task)
        writer.add_frame({**good, STATE: np.ma.masked_array(np.ones(2, np.float32), False)}, task="é 🤖")
        writer.save_episode()
    dataset = rolltape.open(tmp_path / "set")
    assert (len(dataset), dataset[1]["note"], dataset[1]["task"]) == (2, "é 🤖\0", "é 🤖")


def test_a_tensor_without_values_is_refused() -> None:
    torch = pytest.importorskip("torch")
    from rolltape.format import parse_features, with_defaults
    from rolltape.write.frames import FrameForm

    form = FrameForm(with_defaults(parse_features(vector("x"))))
    with pytest.raises(FrameError, match="x: the tensor cannot become an array"):
        form.read({"x": torch.zeros(2, device="meta")}, "t", 0)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, HALF])
def test_a_field_that_cannot_be_stored_changes_nothing(tmp_path: Path, value: Any) -> None:
    root = tmp_path / "set"
    with create(root, TABLES) as writer:
        add(writer, 3, TABLES)
        writer.save_episode()
        add(writer, 3, TABLES)
        with pytest.raises(EpisodeError, match="score"):
            writer.save_episode({"operator": "ann", "score": value})
        assert writer.episode_fields == {}
        with pytest.raises(FormatError, match="name"):
            writer.save_episode({"operator": "ann", HALF: 1})
        with pytest.raises(EpisodeError, match="not a mapping"):
            writer.save_episode(["ann"])  # type: ignore[arg-type]
        assert writer.episode_fields == {}
        writer.save_episode({"operator": "ann"})
    assert rows(root).column("operator").to_pylist() == [None, "ann"]
    check_whole(root, 2, 6, ())


def test_recover_is_one_of_three_words(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2], TABLES)
    with pytest.raises(UsageError, match="recover"):
        Writer.resume(root, recover="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "videos/notes.md",
        f"videos/{FRONT}/chunk-000/best.mp4",
        "data/chunk-000/mine.csv",
        "data/extra.parquet",
        "meta/modality.json",
        "meta/episodes/chunk-000/file-000.parquet.bak",
        "images/logo.png",
        ".git/HEAD",
        ".cache/mine.bin",
    ],
)
def test_A27_overwriting_never_removes_what_is_no_part_of_the_dataset(tmp_path: Path, name: str) -> None:
    root = record(tmp_path / "set", [2])
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("years of work")
    before = snapshot(root)
    with pytest.raises(DatasetExistsError, match="Nothing was removed") as caught:
        create(root, overwrite=True)
    assert name.split("/")[0] in str(caught.value)
    assert snapshot(root) == before


def test_A27_overwriting_removes_all_that_a_dataset_may_have(tmp_path: Path) -> None:
    root = record(tmp_path / "set", [2])
    for name in (
        "README.md",
        ".gitattributes",
        ".cache/huggingface/download/x.metadata",
        f"images/{FRONT}/episode-000000/frame-000000.png",
        "meta/episodes.jsonl",
        "data/chunk-000/episode_000000.parquet",
        "data/chunk-000/file-000.parquet.tmp",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    elsewhere = tmp_path / "elsewhere"
    (root / "videos").rename(elsewhere)
    (root / "videos").symlink_to(elsewhere)
    record(root, [3], overwrite=True)
    check_whole(root, 1, 3)
    assert [name for name in files(root) if not name.startswith(("meta/", "data/", "videos/"))] == []
    assert files(elsewhere), "a link is removed, and not what it leads to"


def test_frames_of_two_threads_are_all_there(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, {**vector("x"), **camera()}, queue_frames=4) as writer:

        def go(who: int) -> None:
            for number in range(50):
                writer.add_frame({"x": [who, number], FRONT: np.zeros((32, 32, 3), np.uint8)}, task="t")

        threads = [threading.Thread(target=go, args=(who,)) for who in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        writer.save_episode()
    values = rolltape.open(root).batch(range(100))["x"]
    assert {tuple(value) for value in values.tolist()} == {(who, number) for who in range(2) for number in range(50)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_refused_at_once(tmp_path: Path) -> None:
    root = tmp_path / "set"
    with create(root, queue_frames=2) as writer:
        add(writer, 1)
        child = os.fork()
        if child == 0:  # without encoder threads, the third frame would wait for ever
            refused = 0
            calls: tuple[Callable[[], None], ...] = (
                lambda: add(writer, 3),
                writer.save_episode,
                writer.discard_episode,
            )
            for call in calls:
                try:
                    call()
                except ClosedError:
                    refused += 1
            os._exit(0 if refused == 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        writer.save_episode()
    check_whole(root, 1, 1)
    assert set(info(root)["features"]) >= set(ONE_CAMERA)


@pytest.mark.parametrize("ours", [True, False])
def test_A11_a_damaged_data_file_is_named_when_a_dataset_is_continued(tmp_path: Path, ours: bool) -> None:
    root = record(tmp_path / "set", [2, 3], TABLES) if ours else f1(tmp_path / "set", cameras={}).root
    cut_off(root / "data/chunk-000/file-000.parquet")
    before = snapshot(root)
    with pytest.raises(DamagedFileError, match=r"data/chunk-000/file-000\.parquet[\s\S]*episodes affected: 0, 1"):
        Writer.resume(root)
    assert snapshot(root) == before
