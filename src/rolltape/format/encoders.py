"""Encoder settings: the reference's fields, defaults and option names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from rolltape.errors import CodecError

__all__ = ["DepthEncoderConfig", "RGBEncoderConfig", "VideoEncoderConfig"]

_Config = TypeVar("_Config", bound="VideoEncoderConfig")
_SVT_PRESET = 12
_BASE_KEYS = ("g", "crf", "preset", "fast_decode", "video_backend", "extra_options")
_DEPTH_KEYS = ("depth_min", "depth_max", "shift", "use_log")


@dataclass(frozen=True)
class VideoEncoderConfig:
    """How a camera's pictures are encoded.

    Attributes:
        vcodec: Codec or encoder name: libsvtav1 (av1), h264 (libx264), hevc (libx265), a hardware encoder, or auto.
        pix_fmt: Pixel format inside the video.
        g: Largest distance between keyframes, in frames. Small values make random reading fast.
        crf: Quality; lower is better and larger.
        preset: Speed against size; the meaning depends on the codec. None is the encoder's own, for libsvtav1 it is 12.
        fast_decode: Tuning for fast decoding; 0 is off.
        video_backend: Only "pyav".
        extra_options: Further FFmpeg options, which never override the fields above.
    """

    vcodec: str = "libsvtav1"
    pix_fmt: str = "yuv420p"
    g: int | None = 2
    crf: int | float | None = 30
    preset: int | str | None = None
    fast_decode: int = 0
    video_backend: Literal["pyav"] = "pyav"
    extra_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.video_backend != "pyav":
            raise CodecError("The video backend is unknown.", expected="pyav", found=repr(self.video_backend))
        if self.g is not None and (isinstance(self.g, bool) or not isinstance(self.g, int) or self.g < 1):
            raise CodecError("g is out of range.", expected="a whole number of frames, 1 or more", found=repr(self.g))
        if self.vcodec in ("libsvtav1", "av1") and self.preset is None:
            object.__setattr__(self, "preset", _SVT_PRESET)

    def info(self) -> dict[str, Any]:
        """Return the `video.*` entries that the settings leave in a feature's `info` block."""
        return {
            f"video.{key}": dict(value) if isinstance(value := getattr(self, key), Mapping) else value
            for key in _BASE_KEYS
        }

    @classmethod
    def from_info(cls: type[_Config], info: Mapping[str, Any] | None) -> _Config:
        """Return the settings that a feature's `info` block tells of; what it does not tell has its default."""
        found = {
            key: info[f"video.{key}"] for key in cls._keys() if info and info.get(f"video.{key}") not in (None, {})
        }
        for key, source in (("vcodec", "video.codec"), ("pix_fmt", "video.pix_fmt")):
            if info and info.get(source) is not None:
                found[key] = info[source]
        if found.get("vcodec") == "av1":
            found["vcodec"] = "libsvtav1"
        return cls(**found)

    @classmethod
    def _keys(cls) -> tuple[str, ...]:
        return _BASE_KEYS


@dataclass(frozen=True)
class RGBEncoderConfig(VideoEncoderConfig):
    """How a colour camera's pictures are encoded.

    Example:
        >>> RGBEncoderConfig(vcodec="h264", g=10).info()["video.g"]
        10
    """


@dataclass(frozen=True)
class DepthEncoderConfig(VideoEncoderConfig):
    """How a depth camera's pictures are quantised to 12 bits and encoded.

    Attributes:
        depth_min: Distance of code 0, metres.
        depth_max: Distance of code 4095, metres. What lies outside is clipped, and counted.
        shift: Offset inside the logarithm, metres.
        use_log: Logarithmic steps (finer near the camera) or even ones.
    """

    vcodec: str = "hevc"
    pix_fmt: str = "gray12le"
    extra_options: Mapping[str, Any] = field(default_factory=lambda: {"x265-params": "lossless=1"})
    depth_min: float = 0.01
    depth_max: float = 10.0
    shift: float = 3.5
    use_log: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.depth_min < self.depth_max:
            raise CodecError(
                "The depth range is empty.",
                expected="0 <= depth_min < depth_max, in metres",
                found=f"{self.depth_min} to {self.depth_max}",
            )
        if self.use_log and self.depth_min + self.shift <= 0:
            raise CodecError("depth_min + shift is not above 0, so its logarithm does not exist.", found=self.shift)

    def info(self) -> dict[str, Any]:
        """Return the `video.*` entries for a feature's `info` block, the depth scale included."""
        return {**super().info(), **{f"video.{key}": getattr(self, key) for key in _DEPTH_KEYS}}

    @classmethod
    def _keys(cls) -> tuple[str, ...]:
        return (*_BASE_KEYS, *_DEPTH_KEYS)
