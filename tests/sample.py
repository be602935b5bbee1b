"""Small datasets in the v3.0 layout, built with plain pyarrow and PyAV, independent of our own writer.

Every frame carries its identity: ``observation.state = [episode, frame]``, ``action = [index, -index]``, and each
picture is one flat grey level that codes the global index, ``12 + (12 * (index + shift)) % 240`` (``shift`` is 0 for
``front`` and 3 for ``wrist``). A wrong frame is seen at once: read the level back with ``read_level`` (within 4).

``f1`` to ``f4`` are the datasets that the case list names; ``build`` makes every variant of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

LENGTHS = (5, 7, 4)
TASKS = ("a", "b", "a")
FPS = 10
SIZE = 32
FRONT = "observation.images.front"
WRIST = "observation.images.wrist"
STATE = "observation.state"
ACTION = "action"

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"

Number = tuple[int, int]
Files = Sequence[Sequence[int]]
ValueOf = Callable[[int, int, int], Any]


@dataclass(frozen=True)
class Camera:
    """One camera of a sample.

    Attributes:
        kind: ``"video"`` or ``"image"`` (PNG bytes in the tables).
        files: which episodes lie in which video file, in order; ``None`` puts all into one.
        numbers: (chunk, file) of each video file; counted up from (0, 0) when ``None``.
        shift: added to the global index before it is coded as a grey level.
        missing: episodes without footage: their four video columns are null.
        codec, g, options: what PyAV encodes with.
        size: height and width.
        layout: how info.json declares the shape, ``"HWC"`` or ``"CHW"``.
    """

    kind: str = "video"
    files: Files | None = None
    numbers: Sequence[Number] | None = None
    shift: int = 0
    missing: Sequence[int] = ()
    codec: str = "libx264"
    g: int = 2
    options: Mapping[str, str] = field(default_factory=lambda: {"preset": "ultrafast", "crf": "12"})
    size: tuple[int, int] = (SIZE, SIZE)
    layout: str = "HWC"


@dataclass(frozen=True)
class Extra:
    """One more feature: its info.json entry and the value of a frame from (episode, frame, index)."""

    feature: Mapping[str, Any]
    value: ValueOf
    type: pa.DataType | None = None


@dataclass(frozen=True)
class Sample:
    """What was built, with everything a test needs to know about it."""

    root: Path
    lengths: tuple[int, ...]
    fps: float
    cameras: Mapping[str, Camera]
    tasks: tuple[str, ...]

    @property
    def num_frames(self) -> int:
        """All frames of all episodes."""
        return sum(self.lengths)

    @cached_property
    def starts(self) -> list[int]:
        """The first global index of each episode."""
        return [0, *accumulate(self.lengths)][:-1]

    def where(self, index: int) -> tuple[int, int]:
        """Episode and frame of a global index."""
        for episode, start in reversed(list(enumerate(self.starts))):
            if index >= start:
                return episode, index - start
        raise IndexError(index)

    def level(self, index: int, camera: str = FRONT) -> int:
        """The grey level that the camera shows at a global index."""
        return level(index + self.cameras[camera].shift)


def level(code: int) -> int:
    """The grey level that codes a number (20 levels, 12 apart)."""
    return 12 + (12 * code) % 240


def read_level(picture: npt.NDArray[Any] | Any) -> int:
    """The coded grey level nearest to a picture's mean; fails when none lies within 4.

    Takes uint8 in [0, 255] or float in [0, 1], numpy or torch, any layout.
    """
    array = np.asarray(picture)
    mean = float(array.mean()) * (255.0 if array.dtype.kind == "f" else 1.0)
    nearest = 12 + 12 * round((mean - 12) / 12)
    assert abs(mean - nearest) <= 4, f"no coded level near {mean}"
    return nearest


def build(
    root: Path,
    *,
    lengths: Sequence[int] = LENGTHS,
    fps: float = FPS,
    fps_fraction: tuple[int, int] | None = None,
    tasks: Sequence[str] | None = TASKS,
    cameras: Mapping[str, Camera] | None = None,
    extras: Mapping[str, Extra] | None = None,
    data_files: Files | None = None,
    data_numbers: Sequence[Number] | None = None,
    episode_files: Files | None = None,
    episode_numbers: Sequence[Number] | None = None,
    episode_fields: Mapping[str, Sequence[Any]] | None = None,
    task_rows: Sequence[int] | None = None,
    lists: str = "fixed",
    row_groups: str = "episode",
    info: Mapping[str, Any] | None = None,
    stats: bool = True,
) -> Sample:
    """Write one dataset to ``root`` and say what it holds.

    Args:
        root: the dataset's folder; made here.
        lengths: frames per episode.
        fps, fps_fraction: as info.json holds them.
        tasks: the task text of each episode; ``None`` gives all the text ``"a"``.
        cameras: by feature name; default one camera, ``observation.images.front``, as one video file.
        extras: more features.
        data_files, episode_files: which episodes lie in which file, in order; one file by default.
        data_numbers, episode_numbers: (chunk, file) of each; counted up from (0, 0) by default.
        episode_fields: columns of the user's own in the episodes table.
        task_rows: order of the rows in tasks.parquet (task indices); ascending by default.
        lists: ``"fixed"`` (what the reference records) or ``"variable"`` (what its edit tools leave).
        row_groups: ``"episode"`` or ``"one"``.
        info: keys to set in info.json at the end.
        stats: whether to write statistics (columns ``stats/*`` and ``meta/stats.json``).
    """
    lengths = tuple(lengths)
    texts = tuple(tasks) if tasks is not None else ("a",) * len(lengths)
    chosen = dict(cameras) if cameras is not None else {FRONT: Camera()}
    sample = Sample(root, lengths, fps, chosen, texts)
    root.mkdir(parents=True)
    rate = Fraction(*fps_fraction) if fps_fraction else Fraction(fps).limit_denominator(1_000_000)
    unique = list(dict.fromkeys(texts))
    every = list(range(len(lengths)))

    columns = _columns(sample, rate, unique, extras or {}, lists)
    data_at = _place(data_files or [every], data_numbers)
    _write_data(sample, columns, data_at, row_groups)
    video_at = {}
    for name, camera in chosen.items():
        if camera.kind == "video":
            video_at[name] = _write_videos(sample, name, camera, rate)
    _write_tasks(root, unique, task_rows)
    _write_episodes(
        sample, columns, data_at, video_at, episode_files or [every], episode_numbers, episode_fields, stats
    )
    _write_info(sample, fps_fraction, unique, extras or {}, info)
    if stats:
        everything = {name: _stats_of(column) for name, column in _numeric(columns).items()}
        everything |= {name: _picture_stats(sample, name, range(sample.num_frames)) for name in chosen}
        (root / "meta/stats.json").write_text(json.dumps(everything, indent=4))
    return sample


def f1(root: Path, **options: Any) -> Sample:
    """F1: fps 10, episodes of 5, 7 and 4 frames, one camera 32x32, one data file, one video file."""
    return build(root, **options)


def f2(root: Path, **options: Any) -> Sample:
    """F2: F1 with one video file per episode (the tables still in one file)."""
    return build(root, cameras={FRONT: Camera(files=[[0], [1], [2]])}, **options)


def f3(root: Path, **options: Any) -> Sample:
    """F3: F1 plus a wrist camera; front in three video files, wrist in two, tables in one, metadata in two."""
    front = Camera(files=[[0], [1], [2]])
    wrist = Camera(files=[[0, 1], [2]], shift=3)
    return build(root, cameras={FRONT: front, WRIST: wrist}, episode_files=[[0, 1], [2]], **options)


def f4(root: Path, **options: Any) -> Sample:
    """F4: F1 with pictures as PNG in the tables instead of video."""
    return build(root, cameras={FRONT: Camera(kind="image")}, **options)


def type_extras() -> dict[str, Extra]:
    """One feature of each kind beside the vectors: scalar, bool, string, tensor, integer."""
    return {
        "grip": Extra({"dtype": "float32", "shape": [1], "names": None}, lambda e, f, i: i / 10, pa.float32()),
        "next.done": Extra({"dtype": "bool", "shape": [1], "names": None}, lambda e, f, i: f == 3, pa.bool_()),
        "note": Extra({"dtype": "string", "shape": [1], "names": None}, lambda e, f, i: f"e{e}f{f}", pa.string()),
        "tactile": Extra(
            {"dtype": "float32", "shape": [2, 3], "names": None},
            lambda e, f, i: (np.arange(6.0).reshape(2, 3) + i).tolist(),
            pa.list_(pa.list_(pa.float32())),
        ),
        "counter": Extra({"dtype": "int64", "shape": [1], "names": None}, lambda e, f, i: 5 * i, pa.int64()),
    }


# Changes to a finished dataset, for tests of damage and disagreement.


def edit_info(root: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite info.json after ``change`` has worked on it in place."""
    path = root / "meta/info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info, indent=4))


def edit_table(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite one Parquet file as ``change`` returns it."""
    pq.write_table(change(pq.read_table(path)), path)


def set_column(table: pa.Table, name: str, values: Sequence[Any]) -> pa.Table:
    """The table with one column's values replaced (its type kept)."""
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(list(values), table.schema.field(at).type))


def cut_off(path: Path, count: int = 100) -> None:
    """Cut the last bytes off a file."""
    path.write_bytes(path.read_bytes()[:-count])


def make_pointer(path: Path) -> None:
    """Replace a file by the text that Git leaves where large content was not fetched."""
    digest = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 12345\n")


# How the parts are written.


def _place(files: Files, numbers: Sequence[Number] | None) -> dict[Number, list[int]]:
    chosen = numbers if numbers is not None else [(0, k) for k in range(len(files))]
    return {number: list(episodes) for number, episodes in zip(chosen, files, strict=True)}


def _columns(
    sample: Sample, rate: Fraction, unique: list[str], extras: Mapping[str, Extra], lists: str
) -> dict[str, pa.Array]:
    where = [(e, f) for e, length in enumerate(sample.lengths) for f in range(length)]
    episode = np.array([e for e, _ in where], np.int64)
    frame = np.array([f for _, f in where], np.int64)
    index = np.arange(len(where), dtype=np.int64)

    def vector(values: npt.NDArray[np.float32]) -> pa.Array:
        flat = pa.array(values.reshape(-1))
        if lists == "fixed":
            return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        return pa.ListArray.from_arrays(np.arange(len(values) + 1, dtype=np.int32) * values.shape[1], flat)

    columns: dict[str, pa.Array] = {
        STATE: vector(np.stack([episode, frame], 1).astype(np.float32)),
        ACTION: vector(np.stack([index, -index], 1).astype(np.float32)),
    }
    for name, extra in extras.items():
        columns[name] = pa.array([extra.value(e, f, i) for i, (e, f) in enumerate(where)], extra.type)
    for name, camera in sample.cameras.items():
        if camera.kind == "image":
            columns[name] = _pictures(sample, name, where)
    columns["timestamp"] = pa.array(np.array([float(f / rate) for f in frame.tolist()], np.float32))
    columns["frame_index"] = pa.array(frame)
    columns["episode_index"] = pa.array(episode)
    columns["index"] = pa.array(index)
    columns["task_index"] = pa.array([unique.index(sample.tasks[e]) for e in episode], pa.int64())
    return columns


def _pictures(sample: Sample, name: str, where: list[tuple[int, int]]) -> pa.Array:
    rows = []
    for index, (_, frame) in enumerate(where):
        buffer = io.BytesIO()
        Image.fromarray(picture(sample, index, name)).save(buffer, format="PNG")
        rows.append({"bytes": buffer.getvalue(), "path": f"frame-{frame:06d}.png"})
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def picture(sample: Sample, index: int, camera: str = FRONT) -> npt.NDArray[np.uint8]:
    """The flat picture, uint8 [H, W, 3], that was put in at a global index."""
    height, width = sample.cameras[camera].size
    return np.full((height, width, 3), sample.level(index, camera), np.uint8)


def _write_data(
    sample: Sample, columns: dict[str, pa.Array], data_at: dict[Number, list[int]], row_groups: str
) -> None:
    table = pa.table(columns)
    for (chunk, file), episodes in data_at.items():
        path = sample.root / DATA_PATH.format(chunk_index=chunk, file_index=file)
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = [table.slice(sample.starts[e], sample.lengths[e]) for e in episodes]
        if row_groups == "one":
            parts = [pa.concat_tables(parts)]
        with pq.ParquetWriter(path, table.schema, compression="snappy") as writer:
            for part in parts:
                writer.write_table(part)


def _write_videos(
    sample: Sample, name: str, camera: Camera, rate: Fraction
) -> dict[int, tuple[Number, float, float] | None]:
    present = [e for e in range(len(sample.lengths)) if e not in camera.missing]
    spans: dict[int, tuple[Number, float, float] | None] = dict.fromkeys(camera.missing)
    for number, episodes in _place(camera.files or [present], camera.numbers).items():
        path = sample.root / VIDEO_PATH.format(video_key=name, chunk_index=number[0], file_index=number[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        rank = 0
        frames = []
        for episode in episodes:
            if episode in camera.missing:
                continue
            length = sample.lengths[episode]
            start = sample.starts[episode]
            frames += [picture(sample, index, name) for index in range(start, start + length)]
            spans[episode] = (number, float(rank / rate), float((rank + length) / rate))
            rank += length
        encode(path, frames, rate, camera)
    return spans


def encode(
    path: Path,
    frames: Sequence[npt.NDArray[np.uint8]],
    rate: Fraction,
    camera: Camera,
    times: Sequence[Fraction] | None = None,
) -> None:
    """Encode uint8 [H, W, 3] frames into one MP4: on the exact grid k / rate, or at these times in seconds."""
    base = 1 / rate if times is None else Fraction(1, 90_000)
    with av.open(str(path), "w", format="mp4") as container:
        stream: Any = container.add_stream(camera.codec, rate=rate, options={**camera.options, "g": str(camera.g)})
        stream.height, stream.width = camera.size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = camera.g
        stream.codec_context.time_base = base
        for rank, array in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(array, format="rgb24")
            frame.pts = rank if times is None else int(times[rank] / base)
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _write_tasks(root: Path, unique: list[str], task_rows: Sequence[int] | None) -> None:
    rows = list(task_rows) if task_rows is not None else list(range(len(unique)))
    described = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_type, "metadata": None}
            for name, kind, numpy_type in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
        ],
        "pandas_version": "2.3.3",
    }
    table = pa.table({"task_index": pa.array(rows, pa.int64()), "task": pa.array([unique[k] for k in rows])})
    (root / "meta").mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(described)}), root / "meta/tasks.parquet")


def _numeric(columns: Mapping[str, pa.Array]) -> dict[str, npt.NDArray[np.float64]]:
    numeric = {}
    for name, column in columns.items():
        kind = column.type
        while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            numeric[name] = np.asarray(column.to_pylist(), np.float64).reshape(len(column), -1)
            shape = np.asarray(column[0].as_py()).shape
            numeric[name] = numeric[name].reshape((len(column), *(shape or (1,))))
    return numeric


def _stats_of(values: npt.NDArray[np.float64]) -> dict[str, Any]:
    return {
        "min": values.min(0).tolist(),
        "max": values.max(0).tolist(),
        "mean": values.mean(0).tolist(),
        "std": values.std(0).tolist(),
        "count": [len(values)],
    }


def _picture_stats(sample: Sample, name: str, indices: range) -> dict[str, Any]:
    levels = np.array([sample.level(i, name) for i in indices], np.float64).reshape(-1, 1, 1, 1) / 255
    return _stats_of(np.repeat(levels, 3, axis=1))


def _write_episodes(
    sample: Sample,
    columns: dict[str, pa.Array],
    data_at: dict[Number, list[int]],
    video_at: Mapping[str, Mapping[int, tuple[Number, float, float] | None]],
    files: Files,
    numbers: Sequence[Number] | None,
    fields: Mapping[str, Sequence[Any]] | None,
    stats: bool,
) -> None:
    number_of = {e: number for number, episodes in data_at.items() for e in episodes}
    numeric = _numeric(columns) if stats else {}
    for (chunk, file), episodes in _place(files, numbers).items():
        rows: dict[str, Any] = {
            "episode_index": pa.array(episodes, pa.int64()),
            "tasks": pa.array([[sample.tasks[e]] for e in episodes], pa.list_(pa.string())),
            "length": pa.array([sample.lengths[e] for e in episodes], pa.int64()),
            "data/chunk_index": pa.array([number_of[e][0] for e in episodes], pa.int64()),
            "data/file_index": pa.array([number_of[e][1] for e in episodes], pa.int64()),
            "dataset_from_index": pa.array([sample.starts[e] for e in episodes], pa.int64()),
            "dataset_to_index": pa.array([sample.starts[e] + sample.lengths[e] for e in episodes], pa.int64()),
        }
        for name, spans in video_at.items():
            of = [spans.get(e) for e in episodes]
            rows[f"videos/{name}/chunk_index"] = pa.array([s and s[0][0] for s in of], pa.int64())
            rows[f"videos/{name}/file_index"] = pa.array([s and s[0][1] for s in of], pa.int64())
            rows[f"videos/{name}/from_timestamp"] = pa.array([s and s[1] for s in of], pa.float64())
            rows[f"videos/{name}/to_timestamp"] = pa.array([s and s[2] for s in of], pa.float64())
        for name, values in (fields or {}).items():
            rows[name] = pa.array([values[e] for e in episodes])
        spans_of = [range(sample.starts[e], sample.starts[e] + sample.lengths[e]) for e in episodes]
        for name, column in numeric.items():
            found = [_stats_of(column[span.start : span.stop]) for span in spans_of]
            rows |= {f"stats/{name}/{key}": pa.array([one[key] for one in found]) for key in found[0]}
        for name in sample.cameras if stats else ():
            found = [_picture_stats(sample, name, span) for span in spans_of]
            rows |= {f"stats/{name}/{key}": pa.array([one[key] for one in found]) for key in found[0]}
        rows["meta/episodes/chunk_index"] = pa.array([chunk] * len(episodes), pa.int64())
        rows["meta/episodes/file_index"] = pa.array([file] * len(episodes), pa.int64())
        path = sample.root / EPISODES_PATH.format(chunk_index=chunk, file_index=file)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows), path)


def _camera_feature(camera: Camera) -> dict[str, Any]:
    height, width = camera.size
    hwc = camera.layout == "HWC"
    entry: dict[str, Any] = {
        "dtype": camera.kind,
        "shape": [height, width, 3] if hwc else [3, height, width],
        "names": ["height", "width", "channels"] if hwc else ["channels", "height", "width"],
    }
    if camera.kind == "video":
        entry["info"] = {"is_depth_map": False}
    return entry


def _write_info(
    sample: Sample,
    fps_fraction: tuple[int, int] | None,
    unique: list[str],
    extras: Mapping[str, Extra],
    changes: Mapping[str, Any] | None,
) -> None:
    features: dict[str, Any] = {
        STATE: {"dtype": "float32", "shape": [2], "names": ["episode", "frame"]},
        ACTION: {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
    }
    features |= {name: dict(extra.feature) for name, extra in extras.items()}
    features |= {name: _camera_feature(camera) for name, camera in sample.cameras.items()}
    for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        features[name] = {"dtype": "float32" if name == "timestamp" else "int64", "shape": [1], "names": None}
    info = {
        "codebase_version": "v3.0",
        "fps": sample.fps,
        **({"fps_fraction": list(fps_fraction)} if fps_fraction else {}),
        "features": features,
        "total_episodes": len(sample.lengths),
        "total_frames": sample.num_frames,
        "total_tasks": len(unique),
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if any(c.kind == "video" for c in sample.cameras.values()) else None,
        "robot_type": "tabletop",
        "splits": {"train": f"0:{len(sample.lengths)}"},
        **(changes or {}),
    }
    (sample.root / "meta/info.json").write_text(json.dumps(info, indent=4, ensure_ascii=False))
