"""`rolltape info`: what a dataset holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rolltape.cli.flags import Json, Source
from rolltape.cli.printing import bytes_text, columns_text, count_text, print_json, print_text, seconds_text

if TYPE_CHECKING:
    from rolltape.format.features import Feature
    from rolltape.read.metadata import Metadata

__all__ = ["info"]

_LOOKED_AT = 8
"""Video files of each camera whose table of frames is looked at."""
_NAMES_SHOWN = 8
_TASKS_SHOWN = 20


def info(source: Source, /, *, json: Json = False) -> int:
    """Say what a dataset holds: episodes, features, cameras, tasks, statistics, sizes.

    Args:
        source: The dataset: a folder, or a repo id below $HF_LEROBOT_HOME.
        json: Print one JSON object and nothing else.
    """
    from rolltape.read import Metadata, find_root

    described = describe(Metadata.load(find_root(source)))
    if json:
        print_json(described)
    else:
        print_text(_text(described))
    return 0


def describe(meta: Metadata) -> dict[str, Any]:
    """Return all that the command says, as plain values and arrays."""
    from rolltape.store.local import tree_size

    fps = meta.info.rate
    return {
        "root": str(meta.root),
        "version": meta.info.codebase_version,
        "robot_type": meta.info.robot_type,
        "fps": meta.info.fps,
        "episodes": len(meta.episodes),
        "frames": meta.num_frames,
        "seconds": float(fps.seconds(meta.num_frames)),
        "bytes": tree_size(meta.root),
        "bytes_by_folder": {
            name: tree_size(meta.root / name) for name in ("data", "videos", "meta") if (meta.root / name).is_dir()
        },
        "episode_length": _lengths(meta),
        "splits": dict(meta.info.splits),
        "features": {
            name: {"dtype": one.dtype, "shape": list(one.shape), "names": one.names}
            for name, one in meta.features.items()
        },
        "cameras": {name: _camera(meta, name, one) for name, one in meta.info.camera_features.items()},
        "tasks": _tasks(meta),
        "episode_fields": {name: str(meta.episodes.field(name).type) for name in meta.episodes.field_names},
        "stats": meta.stats or {},
    }


def _lengths(meta: Metadata) -> dict[str, float] | None:
    length = meta.episodes.length
    if not len(length):
        return None
    return {"min": int(length.min()), "mean": float(length.mean()), "max": int(length.max())}


def _tasks(meta: Metadata) -> list[dict[str, Any]]:
    from collections import Counter

    counts = Counter(text for texts in meta.episodes.tasks for text in set(texts))
    return [
        {"task_index": number, "task": text, "episodes": counts[text]}
        for number, text in sorted(meta.tasks.texts.items())
    ]


def _camera(meta: Metadata, name: str, feature: Feature) -> dict[str, Any]:
    height, width, channels = feature.hwc
    camera: dict[str, Any] = {
        "kind": feature.dtype,
        "height": height,
        "width": width,
        "channels": channels,
        "depth": feature.is_depth,
        "depth_unit": feature.depth_unit,
    }
    if feature.is_video:
        camera |= _video(meta, name, feature)
    return camera


def _video(meta: Metadata, name: str, feature: Feature) -> dict[str, Any]:
    """Return what the tables of frames of a camera's first files say."""
    import numpy as np

    from rolltape.format.paths import by_file, video_file
    from rolltape.video.index import index_file

    spans = meta.episodes.video(name)
    numbers = [number for number, _ in by_file(spans.chunk[spans.valid], spans.file[spans.valid])]
    indexes = [index_file(meta.root / video_file(meta.info, name, *number)) for number in numbers[:_LOOKED_AT]]
    frames = sum(one.n for one in indexes)
    distances = [np.diff(np.append(np.flatnonzero(one.key[one.order]), one.n)) for one in indexes]
    every = np.concatenate(distances) if distances else np.zeros(0, np.int64)
    stored = sum(int(one.size.sum()) for one in indexes)
    return {
        "files": len(numbers),
        "files_looked_at": len(indexes),
        "codec": sorted({one.codec for one in indexes}),
        "pix_fmt": (feature.info or {}).get("video.pix_fmt"),
        "resolution": sorted({f"{one.width}x{one.height}" for one in indexes}),
        "gop": {"median": float(np.median(every)), "max": int(every.max())} if len(every) else None,
        "bytes_per_frame": stored / frames if frames else None,
        "episodes_without_footage": int((~spans.valid).sum()),
    }


def _text(found: dict[str, Any]) -> list[str]:
    lengths = found["episode_length"]
    span = f", {lengths['min']} to {lengths['max']} frames each" if lengths else ""
    sizes = ", ".join(f"{name} {bytes_text(size)}" for name, size in found["bytes_by_folder"].items())
    lines = [
        str(found["root"]),
        *columns_text(
            [
                ["format", f"LeRobotDataset {found['version']}"],
                ["robot", str(found["robot_type"] or "not said")],
                ["episodes", f"{found['episodes']:,}{span}"],
                ["frames", f"{found['frames']:,} at {found['fps']} fps ({seconds_text(found['seconds'])})"],
                ["on disk", f"{bytes_text(found['bytes'])} ({sizes})"],
                ["splits", ", ".join(f"{name} {text}" for name, text in found["splits"].items()) or "none"],
            ]
        ),
        "",
        "features",
        *columns_text(
            [_feature_row(name, one, found["stats"].get(name, {})) for name, one in found["features"].items()]
        ),
    ]
    if found["cameras"]:
        lines += ["", "cameras", *columns_text([_camera_row(name, one) for name, one in found["cameras"].items()])]
    tasks = found["tasks"]
    lines += ["", f"tasks ({len(tasks)})"]
    lines += columns_text(
        [[str(one["task_index"]), count_text(one["episodes"], "episode"), one["task"]] for one in tasks[:_TASKS_SHOWN]]
    )
    if len(tasks) > _TASKS_SHOWN:
        lines.append(f"  and {len(tasks) - _TASKS_SHOWN} more")
    if found["episode_fields"]:
        lines += ["", "episode fields", *columns_text([[name, kind] for name, kind in found["episode_fields"].items()])]
    return lines


def _feature_row(name: str, feature: dict[str, Any], stats: dict[str, Any]) -> list[str]:
    names = feature["names"]
    labels = [str(one) for one in names] if isinstance(names, list) else ([] if names is None else [str(names)])
    more = f" and {len(labels) - _NAMES_SHOWN} more" if len(labels) > _NAMES_SHOWN else ""
    reach = ""
    if "min" in stats and "max" in stats and stats["min"].size and stats["max"].size:
        reach = f"{stats['min'].min():.4g} to {stats['max'].max():.4g}"
    return [name, feature["dtype"], str(feature["shape"]), reach, ", ".join(labels[:_NAMES_SHOWN]) + more]


def _camera_row(name: str, camera: dict[str, Any]) -> list[str]:
    kind = "depth" if camera["depth"] else "colour"
    size = f"{camera['width']}x{camera['height']}"
    if camera["kind"] == "image":
        return [name, f"{kind} {size}", "pictures in the tables"]
    gop = camera["gop"]
    parts = [
        "/".join(camera["codec"]),
        str(camera["pix_fmt"] or ""),
        f"keyframe every {gop['median']:g} (at most {gop['max']})" if gop else "",
        f"{camera['bytes_per_frame']:,.0f} bytes a frame" if camera["bytes_per_frame"] else "",
        count_text(camera["files"], "file"),
        f"{camera['episodes_without_footage']} episodes without footage" if camera["episodes_without_footage"] else "",
    ]
    return [name, f"{kind} {size}", ", ".join(part for part in parts if part)]
