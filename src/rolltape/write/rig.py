"""What the takes of one writer have in common: rings or spools, threads, and the folders of the takes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rolltape.format import Feature, Info
from rolltape.write.cameras import CameraTake, EncoderSettings
from rolltape.write.change import staging_name
from rolltape.write.frames import FrameForm
from rolltape.write.journal import Journal, Keeper
from rolltape.write.options import WriterOptions
from rolltape.write.ring import FrameCount, Ring
from rolltape.write.row_log import RowLog
from rolltape.write.spool import FLUSH_S, Spool
from rolltape.write.take import Take
from rolltape.write.take_note import TAKES_FOLDER, CameraNote, TakeNote, take_numbers

__all__ = ["Rig", "StatedLoss"]


class StatedLoss(dict[str, float]):
    """How many seconds of the open take a killed process loses at most: for each camera, and under `rows`."""

    @property
    def max(self) -> float:
        """The largest of them: that much is missing from the recovered episode."""
        return max(self.values())


class Rig:
    """Opens the takes of a writer.

    Args:
        root: The dataset's folder, whose lock is held.
        form: What a frame looks like.
        settings: How the cameras are encoded.
        options: How the writer works.
        schema: The schema of the data files.

    Raises:
        CommitError: If there is no room for the spools.
    """

    def __init__(
        self, root: Path, form: FrameForm, settings: EncoderSettings, options: WriterOptions, schema: pa.Schema
    ) -> None:
        self._root = root
        self._form = form
        self._settings = settings
        self._options = options
        self._schema = schema
        self._pool: ThreadPoolExecutor | None = None
        self._keeper = Keeper(durable=options.is_durable)
        self._number = max(take_numbers(root), default=-1) + 1
        self._rings: dict[str, Ring] = {}
        _load(form)
        if options.spool_seconds:
            try:
                for feature in form.cameras:
                    self._rings[feature.name] = self._spool(feature)
            except BaseException:
                self.close()
                raise

    @property
    def stated_loss(self) -> StatedLoss:
        """What a killed process loses at most of an open take whose encoders keep up.

        That is the frame on its way to the encoder, those that the encoder holds, and what its file holds back.
        """
        fps = float(self._settings.rate.fps)
        flush = max(FLUSH_S, 1 / fps)
        stated = StatedLoss(rows=flush)
        for feature in self._form.cameras:
            stated[feature.name] = flush + (0 if self._options.spool_seconds else (self._held(feature) + 1) / fps)
        return stated

    def _held(self, feature: Feature) -> int:
        return self._settings.delay_frames(feature) if feature.is_video else 0

    def _spool(self, feature: Feature) -> Spool:
        return Spool(
            feature,
            self._root / staging_name(f"{feature.name}.spool"),
            seconds=self._options.spool_seconds,
            fps=float(self._settings.rate.fps),
            held=self._held(feature),
            on_full=self._options.on_full,
        )

    def open(
        self, *, episode_index: int, from_index: int, info: Info, fields: Mapping[str, str], values: list[Any]
    ) -> Take:
        """Return a new take.

        Args:
            episode_index: The number its episode would get.
            from_index: The global number of its first frame.
            info: The description of the dataset.
            fields: The user's per-episode fields.
            values: The first frame, as `FrameForm.read` gives it.

        Raises:
            OSError: If its folder cannot be made.
        """
        folder = self._root / TAKES_FOLDER / str(self._number)
        self._number += 1
        count = FrameCount()
        frames = dict(zip((one.name for one in self._form.cameras), values[len(values) - len(self._form.cameras) :]))
        started = datetime.now().astimezone().isoformat(timespec="seconds")

        def note() -> TakeNote:
            return TakeNote(
                episode_index=episode_index,
                from_index=from_index,
                info=info,
                fields=fields,
                cameras={feature.name: self._camera_note(feature) for feature in self._form.cameras},
                spool={name: ring.note() for name, ring in self._rings.items() if isinstance(ring, Spool)},
                pid=os.getpid(),
                host=socket.gethostname(),
                started=started,
            )

        journal = Journal(folder, note, self._log, durable=self._options.is_durable)
        cameras: dict[str, CameraTake] = {}
        try:
            for feature in self._form.cameras:
                self._ready_ring(feature, count, frames[feature.name])
            if self._form.cameras:
                journal.make_folder()
                for ring in self._rings.values():
                    if isinstance(ring, Spool):
                        ring.move(folder / f"{ring.feature.name}.spool")
                journal.open()
            for feature in self._form.cameras:
                cameras[feature.name] = self._camera(feature, folder)
        except BaseException:
            for camera in cameras.values():
                camera.abort()
            self.take_back()
            journal.remove()
            raise
        take = Take(self._form, count, cameras, journal)
        self._keeper.watch(journal)
        return take

    def take_back(self) -> None:
        """Take the spools out of the folder of a take that does not need them any more."""
        for ring in self._rings.values():
            if isinstance(ring, Spool):
                with contextlib.suppress(OSError):
                    ring.move(self._root / staging_name(f"{ring.feature.name}.spool"))

    def give_away(self) -> None:
        """Leave the spools to the take whose folder they are in; the next take gets others."""
        for name, ring in list(self._rings.items()):
            if isinstance(ring, Spool):
                ring.close()
                del self._rings[name]

    def close(self) -> None:
        """End the threads and let go of the spools."""
        self._keeper.close()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self.give_away()
        self._rings.clear()

    def _log(self, path: Path) -> RowLog:
        return RowLog(path, self._form.columns, self._form.texts, self._schema)

    def _ready_ring(self, feature: Feature, count: FrameCount, frame: np.ndarray[Any, Any]) -> None:
        ring = self._rings.get(feature.name)
        if isinstance(ring, Spool) and not ring.path.exists():
            ring.close()
            ring = None
        if ring is None:
            options = self._options
            ring = self._rings[feature.name] = (
                self._spool(feature) if options.spool_seconds else Ring(count, options.queue_frames, options.on_full)
            )
        if isinstance(ring, Spool):
            ring.begin(count, frame.dtype)
        else:
            ring.reset(count)

    def _camera(self, feature: Feature, folder: Path) -> CameraTake:
        if feature.is_image and self._pool is None:
            self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="pictures")
        return CameraTake(
            feature,
            folder / _file_name(feature),
            self._root / staging_name(f"{feature.name}.mp4"),
            self._rings[feature.name],
            self._settings,
            self._pool if feature.is_image else None,
        )

    def _camera_note(self, feature: Feature) -> CameraNote:
        return CameraNote(
            file=_file_name(feature),
            kind="pictures" if feature.is_image else "video",
            encoder=self._settings.of(feature) if feature.is_video else None,
            delay_frames=self._settings.delay_frames(feature),
            depth_unit=self._form.depth_units.get(feature.name),
        )


def _file_name(feature: Feature) -> str:
    return f"{feature.name}.pictures" if feature.is_image else f"{feature.name}.mp4"


def _load(form: FrameForm) -> None:
    """Import now what the take's threads need: later it could be a second in which nothing gets to the disk."""
    pa.array([], pa.string())  # pyarrow's first array imports pandas, where that is installed
    if form.cameras:
        pass
    if any(feature.is_image for feature in form.cameras):
        import PIL.Image

        PIL.Image.init()
