"""Encoder settings turned into FFmpeg options: the reference's mapping, checked before an encoder sees them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rolltape.errors import CodecError

if TYPE_CHECKING:
    from rolltape.format.encoders import VideoEncoderConfig

__all__ = [
    "ENCODER_NAMES",
    "HARDWARE_ENCODERS",
    "check_options",
    "check_pixel_format",
    "encoder_candidates",
    "encoder_options",
    "take_options",
]

HARDWARE_ENCODERS = ("h264_videotoolbox", "hevc_videotoolbox", "h264_nvenc", "hevc_nvenc", "h264_vaapi", "h264_qsv")
"""Hardware encoders that `auto` tries, in this order."""

_SOFTWARE: dict[str, tuple[str, ...]] = {
    "libsvtav1": ("libsvtav1",),
    "av1": ("libsvtav1", "libaom-av1"),
    "h264": ("libx264", "h264"),
    "libx264": ("libx264",),
    "hevc": ("libx265", "hevc"),
    "libx265": ("libx265",),
    "libaom-av1": ("libaom-av1",),
}
ENCODER_NAMES = ("auto", *_SOFTWARE, *HARDWARE_ENCODERS)
"""Every name that `vcodec` may have."""

# Range of each numeric option, and whether it must be whole: from FFmpeg's tables, which PyAV 17 and later do not show.
_RANGES: dict[str, dict[str, tuple[float, float, bool]]] = {
    "*": {"g": (1, 2**31 - 1, True), "threads": (0, 2**31 - 1, True)},
    "libsvtav1": {"crf": (0, 63, True), "preset": (-2, 13, True), "qp": (0, 63, True)},
    "libaom-av1": {"crf": (-1, 63, True), "cpu-used": (-1, 8, True)},
    "libx264": {"crf": (-1, math.inf, False), "qp": (-1, 2**31 - 1, True)},
    "libx265": {"crf": (-1, math.inf, False), "qp": (-1, 2**31 - 1, True)},
}


def encoder_candidates(vcodec: str) -> tuple[str, ...]:
    """Return the FFmpeg encoders that a `vcodec` stands for, best first.

    Raises:
        CodecError: The name is unknown.
    """
    if vcodec == "auto":
        return (*HARDWARE_ENCODERS, "libsvtav1", "libx264", "libx265")
    if vcodec in HARDWARE_ENCODERS:
        return (vcodec,)
    if vcodec not in _SOFTWARE:
        raise CodecError(
            "The video codec is unknown.", expected=f"one of {', '.join(ENCODER_NAMES)}", found=repr(vcodec)
        )
    return _SOFTWARE[vcodec]


def encoder_options(encoder: str, config: VideoEncoderConfig, threads: int | None = None) -> dict[str, str]:
    """Return FFmpeg's options for an encoder.

    As the reference maps them (crf, preset, g, fast_decode, threads), with two additions: HEVC is always encoded
    with closed GOPs, because pictures that lean over a keyframe break exact random access, and encoders are told
    not to print.

    Args:
        encoder: FFmpeg's name, such as `"libsvtav1"`.
        config: The settings. `extra_options` come last and never override a field.
        threads: Threads of this encoder; None leaves it to the encoder.
    """
    options: dict[str, Any] = {"g": config.g, **_quality(encoder, config, threads)}
    for key, value in config.extra_options.items():
        options.setdefault(key, value)
        if options[key] is None:
            options[key] = value
    if encoder in ("libx265", "hevc"):
        options["x265-params"] = _x265(options.get("x265-params"))
    return {key: str(value) for key, value in options.items() if value is not None}


def take_options(encoder: str, options: Mapping[str, str], config: VideoEncoderConfig) -> dict[str, str]:
    """Return the options again, with fewer pictures held back by the encoder: those are what a kill loses.

    Only what the user did not set: SVT-AV1 looks ahead less and builds smaller pyramids, but not up to a GOP of 2 (the
    default stays as it is); x264 and x265 look ahead by 8 pictures. None of it makes the files larger to speak of.

    Args:
        encoder: FFmpeg's name.
        options: From `encoder_options`.
        config: The settings they were made from.
    """
    changed = dict(options)
    if encoder == "libsvtav1" and not (config.g is not None and config.g <= 2):
        given = changed.get("svtav1-params", "")
        names = {part.split("=")[0] for part in given.split(":")}
        if not names & {"lookahead", "hierarchical-levels", "pred-struct"} and "la_depth" not in changed:
            changed["svtav1-params"] = ":".join(filter(None, (given, "lookahead=0:hierarchical-levels=3")))
    elif encoder == "libx264":
        taken = changed.keys() & {"rc-lookahead", "x264-params", "x264opts", "tune"}
        if not taken:
            changed["rc-lookahead"] = "8"
    elif encoder == "libx265":
        given = changed.get("x265-params", "")
        if "tune" not in changed and not any(part.split("=")[0] == "rc-lookahead" for part in given.split(":")):
            changed["x265-params"] = f"{given}:rc-lookahead=8"
    return changed


def _quality(encoder: str, config: VideoEncoderConfig, threads: int | None) -> dict[str, Any]:
    crf, preset = config.crf, config.preset
    if encoder == "libsvtav1":
        parts = [f"fast-decode={max(0, min(2, config.fast_decode))}"] if config.fast_decode is not None else []
        parts += [f"lp={threads}"] if threads is not None else []
        parameters = ":".join(parts) or None
        return {"crf": crf, "preset": 12 if preset is None else preset, "svtav1-params": parameters}
    if encoder in ("libx264", "libx265", "h264", "hevc"):
        return {"crf": crf, "preset": preset, "tune": "fastdecode" if config.fast_decode else None, "threads": threads}
    if encoder == "libaom-av1":
        return {"crf": crf, "preset": preset, "threads": threads, "row-mt": 1 if threads is not None else None}
    if encoder.endswith("_videotoolbox"):
        return {"q:v": None if crf is None else max(1, min(100, int(100 - 2 * crf)))}
    if encoder.endswith("_nvenc"):
        return {"rc": 0, "qp": crf, "preset": preset}
    if encoder.endswith("_vaapi"):
        return {"qp": crf}
    if encoder.endswith("_qsv"):
        return {"global_quality": crf, "preset": preset}
    return {"crf": crf, "preset": preset}


def _x265(given: Any) -> str:
    """The user's x265 parameters with closed GOPs, and silent unless the user set a level."""
    parts = [
        part for part in str(given or "").split(":") if part and part.split("=")[0] not in ("open-gop", "no-open-gop")
    ]
    if not any(part.split("=")[0] == "log-level" for part in parts):
        parts.append("log-level=error")
    return ":".join([*parts, "open-gop=0"])


@functools.cache
def _codec(encoder: str) -> Any:
    """PyAV's description of a video encoder; None where this build does not have it."""
    import av.codec

    try:
        codec = av.codec.Codec(encoder, "w")
    except ValueError:  # UnknownCodecError
        return None
    return codec if codec.type == "video" else None


def exists(encoder: str) -> bool:
    """Whether this build of FFmpeg has the encoder (which does not mean that it works here)."""
    return _codec(encoder) is not None


def check_pixel_format(encoder: str, pix_fmt: str, channels: int) -> None:
    """Refuse a pixel format that the encoder does not take, or that has fewer channels than the pictures.

    Raises:
        CodecError: Names the formats that the encoder takes.
    """
    import av

    codec = _codec(encoder)
    formats = [form.name for form in codec.video_formats or ()] if codec is not None else []
    if formats and pix_fmt not in formats:
        raise CodecError(
            f"The encoder {encoder} does not take this pixel format.",
            expected=f"one of {', '.join(formats)}",
            found=repr(pix_fmt),
        )
    try:
        carried = len(av.VideoFormat(pix_fmt).components)
    except ValueError as error:
        raise CodecError("The pixel format is unknown.", found=repr(pix_fmt)) from error
    if carried < channels:
        raise CodecError(
            f"The pixel format {pix_fmt} cannot hold the pictures.",
            expected=f"{channels} channels",
            found=f"{carried} channels",
        )


def check_options(encoder: str, options: Mapping[str, Any]) -> None:
    """Refuse options whose values are out of the encoder's range.

    Numbers are checked here, where the message can name the range; names (presets, tunes) are checked by the
    encoder itself when `resolve` opens it.

    Raises:
        CodecError: Names the option and its range.
    """
    for name, (low, high, whole) in {**_RANGES["*"], **_RANGES.get(encoder, {})}.items():
        value = options.get(name)
        if value is None:
            continue
        label = f"{encoder} option {name!r}"
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if isinstance(value, bool) or not math.isfinite(number):
            raise CodecError("An encoder option is not a number.", where=label, found=repr(value))
        if whole and not number.is_integer():
            raise CodecError("An encoder option is not a whole number.", where=label, found=repr(value))
        if not low <= number <= high:
            raise CodecError(
                "An encoder option is out of range.", where=label, expected=f"{low:g} to {high:g}", found=value
            )
