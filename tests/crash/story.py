"""The recording that is stopped everywhere, and what must be true of its folder at every stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import rolltape
from crash.identity import CAMERAS, SIZE, identities, picture
from crash.lanes import require
from rolltape import check
from rolltape.errors import RolltapeError
from rolltape.format import RGBEncoderConfig
from rolltape.read import Dataset
from rolltape.write import Writer

__all__ = ["ENCODERS", "FPS", "Progress", "Take", "Teller", "pictures_of", "read_takes", "tell", "verify"]

FPS = 10
STATE = "observation.state"
OPERATORS = {1: "ann", 3: "bo", 4: "cy"}
TASKS = ("lift the cube", "put it down", "połóż 置く")
FEATURES: Mapping[str, Any] = {
    STATE: {"dtype": "float32", "shape": [2], "names": ["take", "frame"]},
    "action": {"dtype": "float32", "shape": [2], "names": None},
    "note": {"dtype": "string", "shape": [1], "names": None},
    **{
        camera: {"dtype": "video", "shape": [SIZE, SIZE, 3], "names": ["height", "width", "channels"]}
        for camera in CAMERAS
    },
}
ENCODERS: Mapping[str, RGBEncoderConfig] = {
    "h264": RGBEncoderConfig(vcodec="h264", preset="ultrafast", crf=20),
    "av1": RGBEncoderConfig(vcodec="libsvtav1", preset=12, crf=30),
    "hevc": RGBEncoderConfig(vcodec="hevc", preset="ultrafast", crf=20, g=4),
}


@dataclass(frozen=True)
class Take:
    """A take of the story: its number is in every row and every picture."""

    number: int
    frames: int


@dataclass(frozen=True)
class Progress:
    """How far a recording has come.

    Attributes:
        saved: The takes whose `save_episode` has returned, in order: they may never be lost.
        saving: The take whose `save_episode` is running: whole or not there.
        taken: The open take with the frames whose `add_frame` has returned.
        gone: The numbers of takes that were discarded: they may never be seen.
        group: Episodes in one commit: all but one of a group may wait in memory.
    """

    saved: tuple[Take, ...] = ()
    saving: Take | None = None
    taken: Take | None = None
    gone: frozenset[int] = frozenset()
    group: int = 1

    @property
    def possible(self) -> list[tuple[Take, ...]]:
        """What a reader may see."""
        found = [self.saved[: len(self.saved) - missing] for missing in range(min(self.group, len(self.saved) + 1))]
        return [*found, (*self.saved, self.saving)] if self.saving else found


@dataclass
class Teller:
    """Records takes, and always knows how far it has come.

    Attributes:
        progress: How far it has come.
        told: Called whenever that changes.
    """

    progress: Progress = field(default_factory=Progress)
    told: Callable[[Progress], None] | None = None

    def _now(self, **changes: Any) -> None:
        self.progress = replace(self.progress, **changes)
        if self.told is not None:
            self.told(self.progress)

    def record(self, writer: Writer, take: Take, *, save: bool = True, fields: Mapping[str, Any] | None = None) -> None:
        """Record a take, and save or discard it."""
        for number in range(take.frames):
            if number == 0:
                self._now(taken=Take(take.number, 0))
            writer.add_frame(frame(take.number, number), task=task(take.number, number))
            self._now(taken=Take(take.number, number + 1))
        if save:
            self.save(writer, fields)
        else:
            self.discard(writer)

    def save(self, writer: Writer, fields: Mapping[str, Any] | None = None) -> None:
        """Save the open take."""
        take = self.progress.taken
        assert take is not None
        self._now(saving=take)
        writer.save_episode(fields)
        self._now(saved=(*self.progress.saved, take), saving=None, taken=None)

    def discard(self, writer: Writer) -> None:
        """Discard the open take."""
        take = self.progress.taken
        if take is not None:
            writer.discard_episode()
            self._now(gone=self.progress.gone | {take.number}, taken=None, saving=None)


def frame(take: int, number: int) -> dict[str, Any]:
    """Return one frame; every value in it says where it belongs."""
    return {
        STATE: np.array([take, number], np.float32),
        "action": np.array([take / 3, -number / 7], np.float32),
        "note": f"take {take} frame {number}",
        **{camera: picture(take, number, camera) for camera in CAMERAS},
    }


def task(take: int, number: int) -> str:
    """Return the task of a frame: it changes with the take, and within it after three frames."""
    return TASKS[(take + number // 3) % len(TASKS)]


def tell(root: Path, teller: Teller, encoder: str = "h264", **options: Any) -> None:
    """Record the story: three episodes of two cameras, a discard, a resume with a new field, and packing."""
    config = ENCODERS[encoder]
    teller.progress = replace(teller.progress, group=options.get("commit_every", 1))
    writer = Writer.create(
        root, FPS, FEATURES, rgb_encoder=config, robot_type="bench", episode_fields={"operator": "string"}, **options
    )
    try:
        teller.record(writer, Take(1, 5), fields={"operator": OPERATORS[1]})
        teller.record(writer, Take(2, 3), save=False)
        teller.record(writer, Take(3, 4), fields={"operator": OPERATORS[3]})
    finally:
        writer.close()
    options.pop("episode_fields", None)
    writer = Writer.resume(root, rgb_encoder=config, **options)
    try:
        teller.record(writer, Take(4, 6), fields={"operator": OPERATORS[4], "score": 0.5})
        writer.pack(keep_old=True)
        writer.finalize()
    finally:
        writer.close()


def read_takes(dataset: Dataset) -> tuple[Take, ...]:
    """Return the takes of a dataset's episodes, after comparing every value and every decoded picture of every frame.

    Raises:
        AssertionError: If a frame is not where it belongs, or episodes hold parts of takes.
    """
    if len(dataset) == 0:
        return ()
    batch = dataset.batch(range(len(dataset)))
    state = batch[STATE]
    episodes, numbers = batch["episode_index"], batch["frame_index"]
    assert batch["index"].tolist() == list(range(len(dataset)))
    takes: list[Take] = []
    for episode in range(dataset.num_episodes):
        inside = np.flatnonzero(episodes == episode)
        assert len(inside), f"episode {episode} has no rows"
        assert numbers[inside].tolist() == list(range(len(inside)))
        assert state[inside, 1].tolist() == list(range(len(inside)))
        take = int(state[inside[0], 0])
        assert (state[inside, 0] == take).all()
        takes.append(Take(take, len(inside)))
    places = [(int(take), int(number)) for take, number in state]
    assert np.array_equal(batch["action"], np.array([[t / 3, -n / 7] for t, n in places], np.float32))
    assert np.array_equal(batch["timestamp"], (numbers / dataset.fps).astype(np.float32))
    assert list(batch["note"]) == [f"take {t} frame {n}" for t, n in places]
    assert list(batch["task"]) == [task(t, n) for t, n in places]
    if "operator" in dataset.meta.episodes.field_names:
        recovered = [bool(dataset.meta.episodes.row(k).get("rolltape/recovered")) for k in range(len(takes))]
        for one, name, back in zip(takes, dataset.meta.episodes.field("operator").to_pylist(), recovered, strict=True):
            # A take that was not saved when its process was killed has nobody's fields.
            assert name == OPERATORS.get(one.number) or (back and name is None), (one, name)
    for camera in CAMERAS:
        assert identities(np.asarray(batch[camera])) == [(t, n, camera) for t, n in places], camera
    return tuple(takes)


def pictures_of(root: Path) -> dict[int, dict[str, np.ndarray[Any, Any]]]:
    """Return the decoded pictures of every take, by take number and camera, to compare bit for bit."""
    dataset = rolltape.open(root)
    batch = dataset.batch(range(len(dataset)))
    takes = batch[STATE][:, 0]
    return {
        int(take): {camera: np.array(batch[camera])[takes == take] for camera in CAMERAS} for take in np.unique(takes)
    }


Truth = Mapping[int, Mapping[str, np.ndarray[Any, Any]]]


def verify(
    root: Path, possible: Sequence[tuple[Take, ...]], truth: Truth | None = None, *, checked: bool = False
) -> tuple[Take, ...]:
    """Open a folder, and return what it holds.

    Args:
        root: The folder.
        possible: What it may hold. With nothing in it, a folder that is not a dataset yet is right too.
        truth: The decoded pictures of whole takes.
        checked: Whether `check` must be content as well.

    Raises:
        AssertionError: If it holds anything else, or a frame is wrong.
    """
    try:
        dataset = rolltape.open(root)
    except RolltapeError as error:
        require(() in possible, f"committed episodes cannot be opened: {error}")
        return ()
    takes = read_takes(dataset)
    assert takes in possible, f"found {takes}, possible {possible}"
    if truth is not None and takes:
        found = pictures_of(root)
        for take in takes:
            for camera in CAMERAS:
                if take.number in truth and len(truth[take.number][camera]) == take.frames:
                    assert np.array_equal(found[take.number][camera], truth[take.number][camera]), (take, camera)
    if checked:
        assert_content(root)
    return takes


def assert_content(root: Path) -> None:
    """`check` has nothing to say above a note."""
    report = check.run(root)
    assert report.ok, report
    left = [one for one in root.rglob("*") if one.name.endswith(".tmp") and ".rolltape" not in one.parts]
    assert not left, left
