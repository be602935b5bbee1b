"""`rolltape.open`: from a source and options to a `Dataset`."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from rolltape.errors import CodecError, DamagedFileError, UsageError
from rolltape.format.features import Feature
from rolltape.read.dataset import Dataset, make_view
from rolltape.read.episodes import listed
from rolltape.read.forms import PictureFormat
from rolltape.read.metadata import Metadata
from rolltape.read.pictures import Pictures
from rolltape.read.places import local_root
from rolltape.read.selection import Where, choose_cameras, choose_columns, choose_episodes, unknown_feature
from rolltape.read.tables import FrameTable
from rolltape.read.windows import parse_windows

__all__ = ["open", "open_metadata"]

Int64s = npt.NDArray[np.int64]

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$", re.IGNORECASE)


def open(
    source: str | os.PathLike[str],
    *,
    episodes: Iterable[int] | None = None,
    where: Where | None = None,
    split: str | None = None,
    robot: str | None = None,
    delta_timestamps: Mapping[str, Iterable[float]] | None = None,
    delta_steps: Mapping[str, Iterable[int]] | None = None,
    columns: Iterable[str] | None = None,
    cameras: Iterable[str] | None = None,
    dtype: str | Mapping[str, str] = "uint8",
    layout: str = "CHW",
    pixels: str = "rgb",
    resize: tuple[int, int] | None = None,
    depth_unit: str = "m",
    decoder: str = "pyav",
    table_memory: str | int = "1GiB",
    open_files: int = 64,
    allow_damaged: bool = False,
) -> Dataset:
    """Open a dataset for reading. Nothing is created, and nothing but `meta/` is read before an item is asked for.

    Args:
        source: A folder, or a repo id whose folder is under `$HF_LEROBOT_HOME` or was downloaded before.
        episodes: Episode numbers to read, in the order wanted; all by default.
        where: A condition on episode fields, such as `"success and length > 100"`, or a function of an episode's row.
        split: A name in the splits of info.json.
        robot: For sources with several robots; datasets in this version have one.
        delta_timestamps: Windows in seconds by key, such as `{"action": [0.0, 0.1, 0.2]}`. Offsets outside the episode
            repeat its nearest frame and are true in `<key>_is_pad`.
        delta_steps: The same in whole frames.
        columns: Columns of the tables; all by default. `task` is the task's text.
        cameras: Cameras; all by default. The last part of a name is enough.
        dtype: "uint8", or "float32" (value / 255 in [0, 1]), for all cameras or by camera. Depth is always float32.
        layout: "CHW" or "HWC".
        pixels: Only "rgb".
        resize: (height, width) of the pictures: areas averaged when they shrink, linear when they grow; depth: nearest.
        depth_unit: "m" or "mm".
        decoder: Only "pyav".
        table_memory: How much memory encoded pictures from data tables may take, such as "1GiB".
        open_files: How many video files to keep open.
        allow_damaged: Leave out episodes whose rows cannot be read, with a warning, instead of failing.

    Raises:
        DatasetNotFoundError: There is no dataset, or only an unfinished recording.
        UnsupportedFormatError: The source or layout is known by name but not read in this version.
        FormatError: The description is malformed or contradicts itself.
        DamagedFileError: A file is missing, cut off, empty, or a Git LFS pointer.
        SelectionError: An episode, a split or a condition is wrong.
        UnknownFeatureError: A column or camera does not exist.
        WindowError: An offset is not on the frame grid.
        CodecError: Video cannot be decoded on this machine (`cameras=[]` reads the tables).

    Example:
        >>> ds = rolltape.open("datasets/lift", delta_timestamps={"action": [0.0, 0.1]})  # doctest: +SKIP
        >>> ds[0]["action"].shape, ds[0]["action_is_pad"]  # doctest: +SKIP
        ((2, 6), array([False, False]))
    """
    _choice("pixels", pixels, ("rgb",))
    _choice("decoder", decoder, ("pyav",))
    _choice("layout", layout, ("CHW", "HWC"))
    _choice("depth_unit", depth_unit, ("m", "mm"))
    memory = _bytes(table_memory)
    if isinstance(open_files, bool) or not isinstance(open_files, int) or open_files < 1:
        raise UsageError("open_files is out of range.", expected="1 or more", found=repr(open_files))
    if robot is not None:
        raise UsageError("A LeRobotDataset has one robot.", where="robot=", found=repr(robot), fix="Leave robot= out.")
    meta = Metadata.load(local_root(source), allow_damaged=allow_damaged)
    chosen_columns, task = choose_columns(meta.features, columns)
    chosen_cameras = choose_cameras(meta.features, cameras)
    windows = parse_windows(meta.info.rate, delta_timestamps, delta_steps)
    form = _form(meta.features, dtype, layout, resize, depth_unit)
    view = make_view(meta, chosen_columns, task, chosen_cameras, windows, form)
    places = choose_episodes(meta, episodes, where, split)
    return open_metadata(
        meta, places, view_cameras=chosen_cameras, open_files=open_files, memory=memory, allow_damaged=allow_damaged
    ).with_view(view)


def open_metadata(
    meta: Metadata,
    places: Int64s,
    *,
    view_cameras: tuple[str, ...] = (),
    open_files: int = 64,
    memory: int = 1 << 30,
    allow_damaged: bool = False,
) -> Dataset:
    """Return the dataset of some episodes, given as positions in `meta.episodes`, after a look at its files.

    Raises:
        DamagedFileError: A data file is missing, cut off, empty, or a Git LFS pointer.
        CodecError: There are videos among `view_cameras`, and none can be decoded on this machine.
    """
    if any(meta.features[name].is_video for name in view_cameras):
        require_decoder()
    table = FrameTable(meta, np.sort(places))
    if allow_damaged:
        places, table = _without_damaged(meta, places, table)
    else:
        table.check()
    view = make_view(meta, *choose_columns(meta.features, None), view_cameras, {}, PictureFormat())
    return Dataset(meta, places, view, table, Pictures(table, open_files, memory))


def require_decoder() -> None:
    """Make sure that the decoder can be loaded: here, not in a worker at the first batch.

    Raises:
        CodecError: It cannot; the message has the cause.
    """
    try:
        import av  # noqa: F401  # whether its shared libraries load is the question
    except (ImportError, OSError, RuntimeError) as error:
        raise CodecError(
            "Video cannot be decoded: PyAV does not load.",
            found=f"{type(error).__name__}: {error}",
            fix="Reinstall it (pip install --force-reinstall av), or open with cameras=[] to read the tables alone.",
        ) from error


def _without_damaged(meta: Metadata, places: Int64s, table: FrameTable) -> tuple[Int64s, FrameTable]:
    lost: list[int] = []
    files = []
    for file in table.files:
        try:
            table.rows_of(file)
        except DamagedFileError as error:
            lost += file.places.tolist()
            files.append(error.path)
    if not lost:
        return places, table
    numbers = listed(meta.episodes.index[sorted(lost)])
    warnings.warn(
        f"Data files cannot be read ({', '.join(files)}); episodes left out: {numbers}", RuntimeWarning, stacklevel=4
    )
    places = places[~np.isin(places, lost)]
    return places, FrameTable(meta, np.sort(places))


def _form(
    features: Mapping[str, Feature],
    dtype: str | Mapping[str, str],
    layout: str,
    resize: tuple[int, int] | None,
    depth_unit: str,
) -> PictureFormat:
    single: dict[str, Any] = {}
    if isinstance(dtype, Mapping):
        for name, one in dtype.items():
            _choice(f"dtype of {name}", one, ("uint8", "float32"))
            found = choose_cameras(features, [name])
            if not found:
                raise unknown_feature(name, list(features), "dtype=")
            single[found[0]] = one
        dtype = "uint8"
    _choice("dtype", dtype, ("uint8", "float32"))
    if resize is not None:
        try:
            height, width = (int(one) for one in resize)
        except (TypeError, ValueError):
            raise UsageError("resize is not a size.", expected="(height, width)", found=repr(resize)) from None
        if not (1 <= height <= 1 << 14 and 1 <= width <= 1 << 14):
            raise UsageError("resize is out of range.", expected="1 to 16384 pixels", found=repr(resize))
        resize = (height, width)
    return PictureFormat(
        cast("Literal['uint8', 'float32']", dtype),
        single,
        cast("Literal['CHW', 'HWC']", layout),
        resize,
        cast("Literal['m', 'mm']", depth_unit),
    )


def _choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} is unknown.", expected=" or ".join(known), found=repr(value))


def _bytes(size: str | int) -> int:
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _SIZE.match(size) if isinstance(size, str) else None
    if found is None:
        raise UsageError("table_memory is not a size.", expected='such as "1GiB"', found=repr(size))
    return int(float(found[1]) * _UNITS[found[2].lower()])
