"""The note of an open take, `take.json`: all that is needed to make an episode of what the take left on the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rolltape.errors import FormatError, RolltapeError
from rolltape.format import DepthEncoderConfig, Feature, Info, RGBEncoderConfig, VideoEncoderConfig, parse_info
from rolltape.format.paths import WORK_FOLDER
from rolltape.store import local

__all__ = [
    "NOTE",
    "SAVED",
    "TAKES_FOLDER",
    "CameraNote",
    "SpoolNote",
    "TakeNote",
    "read_saved",
    "remove_take",
    "take_numbers",
    "write_saved",
]

TAKES_FOLDER = f"{WORK_FOLDER}/takes"
"""Where open takes are, relative to the root: a folder for each, named by its number."""

NOTE = "take.json"
SAVED = "saved.json"
"""Present once `save_episode` was called: the user's fields."""

_VERSION = 1


@dataclass(frozen=True)
class CameraNote:
    """One camera of a take.

    Attributes:
        file: The file of its pictures in the take's folder.
        kind: "video" (fragmented MP4) or "pictures" (records of single encoded pictures).
        encoder: How its video is encoded.
        delay_frames: How many frames the encoder holds.
        depth_unit: For depth, the unit of what was recorded.
    """

    file: str
    kind: str
    encoder: VideoEncoderConfig | None = None
    delay_frames: int = 0
    depth_unit: str | None = None


@dataclass(frozen=True)
class SpoolNote:
    """The spool of one camera.

    Attributes:
        file: The file in the take's folder.
        slots: How many frames it holds.
        shape: Of a frame.
        dtype: Of a frame.
        generation: What the slots of this take are marked with.
    """

    file: str
    slots: int
    shape: tuple[int, ...]
    dtype: str
    generation: int


@dataclass(frozen=True)
class TakeNote:
    """What `take.json` holds.

    Attributes:
        episode_index: The number the episode would get when the take was opened.
        from_index: The global number of its first frame, likewise.
        info: The description of the dataset at that time.
        fields: The user's per-episode fields, name to type.
        cameras: The cameras by feature.
        spool: The spools by feature.
        pid: The process that recorded it.
        host: The machine.
        started: When it was opened, ISO 8601.
    """

    episode_index: int
    from_index: int
    info: Info
    fields: Mapping[str, str] = field(default_factory=dict)
    cameras: Mapping[str, CameraNote] = field(default_factory=dict)
    spool: Mapping[str, SpoolNote] = field(default_factory=dict)
    pid: int = 0
    host: str = ""
    started: str = ""

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        content = {
            "version": _VERSION,
            "episode_index": self.episode_index,
            "from_index": self.from_index,
            "info": self.info.to_json(),
            "fields": dict(self.fields),
            "cameras": {key: _camera_json(one) for key, one in self.cameras.items()},
            "spool": {key: asdict(one) for key, one in self.spool.items()},
            "pid": self.pid,
            "host": self.host,
            "started": self.started,
        }
        return json.dumps(content, ensure_ascii=False).encode()

    @classmethod
    def read(cls, folder: Path) -> TakeNote | None:
        """Return the note of a take, or None where there is none: the folder holds no take then.

        Raises:
            FormatError: If the note cannot be understood.
        """
        path = folder / NOTE
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not data.strip(b"\0"):
            return None  # its content never got to the disk: the power was cut in the take's first second
        try:
            content = json.loads(data)
            if content["version"] != _VERSION:
                raise FormatError(
                    "The take was recorded by another version of rolltape.",
                    where=path,
                    expected=f"version {_VERSION}",
                    found=content["version"],
                    fix="Recover it with that version.",
                )
            info = parse_info(content["info"], where=f"{path}, info")
            return cls(
                episode_index=int(content["episode_index"]),
                from_index=int(content["from_index"]),
                info=info,
                fields={str(name): str(kind) for name, kind in content["fields"].items()},
                cameras={key: _camera(info.features[key], one) for key, one in content["cameras"].items()},
                spool={key: _spool(one) for key, one in content["spool"].items()},
                pid=int(content["pid"]),
                host=str(content["host"]),
                started=str(content["started"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, RolltapeError):
                raise
            raise FormatError(
                "The note of an open take cannot be read.",
                where=path,
                found=f"{type(error).__name__}: {error}",
                fix="The take can only be dropped: rolltape recover PATH --drop.",
            ) from error


def _camera_json(camera: CameraNote) -> dict[str, Any]:
    encoder = None
    if camera.encoder is not None:
        encoder = asdict(camera.encoder)
        encoder["extra_options"] = dict(camera.encoder.extra_options)
    return {
        "file": camera.file,
        "kind": camera.kind,
        "encoder": encoder,
        "delay_frames": camera.delay_frames,
        "depth_unit": camera.depth_unit,
    }


def _camera(feature: Feature, content: Mapping[str, Any]) -> CameraNote:
    config = DepthEncoderConfig if feature.is_depth else RGBEncoderConfig
    return CameraNote(
        file=_plain_name(content["file"]),
        kind=str(content["kind"]),
        encoder=None if content["encoder"] is None else config(**content["encoder"]),
        delay_frames=int(content["delay_frames"]),
        depth_unit=content["depth_unit"],
    )


def _spool(content: Mapping[str, Any]) -> SpoolNote:
    note = SpoolNote(
        file=_plain_name(content["file"]),
        slots=int(content["slots"]),
        shape=tuple(int(size) for size in content["shape"]),
        dtype=str(content["dtype"]),
        generation=int(content["generation"]),
    )
    if note.slots < 1 or min(note.shape) < 1 or note.dtype not in ("uint8", "uint16", "float32"):
        raise ValueError(f"a spool of {note.slots} x {note.dtype} {note.shape}")
    return note


def _plain_name(name: Any) -> str:
    """Return a file name that stays in the take's folder."""
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or name in (".", ".."):
        raise ValueError(f"{name!r} is not the name of a file")
    return name


def write_saved(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write down that the take was saved, and with which fields; a stop before the commit does not lose them."""
    local.write_atomic(folder / SAVED, json.dumps({"fields": dict(fields)}).encode(), durable=False)


def read_saved(folder: Path) -> dict[str, Any] | None:
    """Return the fields with which a take was saved, or None where it was not, or where they cannot be read."""
    try:
        found = json.loads((folder / SAVED).read_bytes())["fields"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(found) if isinstance(found, dict) else None


def remove_take(folder: Path) -> None:
    """Remove a take, and the folder of all takes with the last of them: first the note, without which it is no take.

    Raises:
        OSError: As the file system gave it.
    """
    local.remove_file(folder / NOTE)
    local.remove_tree(folder)
    local.remove_folder_if_empty(folder.parent)


def take_numbers(root: Path) -> list[int]:
    """Return the numbers of the folders of takes, ascending, whatever is in them."""
    folder = root / TAKES_FOLDER
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())
