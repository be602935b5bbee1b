"""How a writer works, apart from what the dataset is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rolltape.errors import UsageError
from rolltape.format import DepthEncoderConfig, Info, RGBEncoderConfig
from rolltape.write.frames import NonFinite
from rolltape.write.ring import OnFull

__all__ = ["Durability", "WriterOptions", "recorded_encoder", "try_encoders"]

Durability = Literal["full", "relaxed"]
_LONGEST_SPOOL_S = 3600


@dataclass(frozen=True)
class WriterOptions:
    """How a writer works; the arguments of `Writer.create` and `Writer.resume` that do not describe the dataset.

    Attributes:
        rgb_encoder: How colour cameras are encoded.
        depth_encoder: How depth cameras are quantised and encoded.
        encoder_threads: Threads of each encoder, or None for the encoder's own choice.
        durability: "full": saved means on the disk. "relaxed": no fsync, a power cut can lose episodes; and tables
            that are saved in quick succession share commits.
        commit_every: How many episodes make one commit.
        queue_frames: How many frames of a camera may wait for its encoder before `add_frame` waits.
        non_finite: Whether NaN and infinity in a frame are refused or kept.
        spool_seconds: How many seconds of pictures may wait on the disk for an encoder; 0: they wait in memory.
        on_full: What `add_frame` does when there is no room for a picture: "wait", or end the take with an "error".

    Raises:
        UsageError: If one of them is out of range.
    """

    rgb_encoder: RGBEncoderConfig = field(default_factory=RGBEncoderConfig)
    depth_encoder: DepthEncoderConfig = field(default_factory=DepthEncoderConfig)
    encoder_threads: int | None = None
    durability: Durability = "full"
    commit_every: int = 1
    queue_frames: int = 30
    non_finite: NonFinite = "refuse"
    spool_seconds: float = 0
    on_full: OnFull = "wait"

    def __post_init__(self) -> None:
        if self.durability not in ("full", "relaxed"):
            raise UsageError("The durability is unknown.", expected="'full' or 'relaxed'", found=repr(self.durability))
        if self.non_finite not in ("refuse", "keep"):
            raise UsageError("non_finite is unknown.", expected="'refuse' or 'keep'", found=repr(self.non_finite))
        for name in ("commit_every", "queue_frames"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise UsageError(f"{name} is out of range.", expected="1 or more", found=repr(value))
        for name, kind in (("rgb_encoder", "RGBEncoderConfig"), ("depth_encoder", "DepthEncoderConfig")):
            if not hasattr(getattr(self, name), "vcodec"):
                raise UsageError(
                    f"{name} is not an encoder's settings.",
                    expected=f'a {kind}, such as {kind}(vcodec="...")',
                    found=repr(getattr(self, name)),
                )
        seconds = self.spool_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= _LONGEST_SPOOL_S:
            raise UsageError("spool_seconds is out of range.", expected=f"0 to {_LONGEST_SPOOL_S}", found=repr(seconds))
        if self.on_full not in ("wait", "error"):
            raise UsageError("on_full is unknown.", expected="'wait' or 'error'", found=repr(self.on_full))

    @property
    def is_durable(self) -> bool:
        """Whether commits are fsynced."""
        return self.durability == "full"


def recorded_encoder(info: Info, kind: Any) -> Any:
    """Return the encoder settings that the dataset's cameras tell of, or the defaults where they tell nothing."""
    depth = kind is DepthEncoderConfig
    for feature in info.video_features.values():
        if feature.is_depth == depth and "video.codec" in (feature.info or {}):
            return kind.from_info(feature.info)
    return kind()


def try_encoders(info: Info, options: WriterOptions) -> None:
    """Refuse settings that do not work before the first frame.

    Raises:
        CodecError: If an encoder does not work here, or not with the size of a camera.
    """
    if not info.video_features:
        return
    from rolltape.video.encode import resolve

    for feature in info.video_features.values():
        height, width, _ = feature.hwc
        config = options.depth_encoder if feature.is_depth else options.rgb_encoder
        resolve(config, width=width, height=height, threads=options.encoder_threads, take=True)
