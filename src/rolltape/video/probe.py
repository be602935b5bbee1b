"""What a video file is, as `info.json` records it: read back from the file, not taken from the settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rolltape.errors import ContainerError, DamagedFileError

if TYPE_CHECKING:
    from rolltape.format.encoders import VideoEncoderConfig

__all__ = ["video_info"]


def video_info(path: str | os.PathLike[str], config: VideoEncoderConfig | None = None) -> dict[str, Any]:
    """Return the `video.*` and audio entries of a camera's `info` block, in the reference's order.

    Args:
        path: A finished video file.
        config: The settings it was encoded with; their entries are added, those of the file win.

    Returns:
        `video.height`, `.width`, `.codec`, `.pix_fmt`, `.fps` (truncated to an integer, as the reference has it),
        `.channels`, `has_audio` with `audio.*` where there is sound, the encoder's settings, and `is_depth_map`.

    Raises:
        DamagedFileError: The file is missing or is no video.
        ContainerError: There is no video stream in it.
    """
    import av
    import av.error

    name = os.fspath(path)
    try:
        with av.open(name) as container:
            if not container.streams.video:
                raise ContainerError("The file has no video stream.", where=name)
            stream = container.streams.video[0]
            form, rate = stream.format, stream.base_rate or stream.average_rate
            info: dict[str, Any] = {
                "video.height": stream.height,
                "video.width": stream.width,
                "video.codec": stream.codec_context.codec.canonical_name,
                "video.pix_fmt": form.name if form is not None else None,
                # Not int(rate): the rates of PyAV 19 are of a type of its own.
                "video.fps": rate.numerator // rate.denominator if rate else 0,
                "video.channels": len(form.components) if form is not None else None,
                **_audio(container),
            }
    except (av.error.FFmpegError, OSError) as error:
        raise DamagedFileError("The video cannot be read.", path=name, found=str(error)) from error
    settings = {} if config is None else config.info()
    info |= {key: value for key, value in settings.items() if key not in info}
    return {**info, "is_depth_map": "video.depth_min" in settings}


def _audio(container: Any) -> dict[str, Any]:
    if not container.streams.audio:
        return {"has_audio": False}
    stream = container.streams.audio[0]
    return {
        "audio.channels": stream.channels,
        "audio.codec": stream.codec_context.codec.canonical_name,
        "audio.bit_rate": stream.bit_rate,
        "audio.sample_rate": stream.sample_rate,
        "audio.bit_depth": stream.format.bits,
        "audio.channel_layout": stream.layout.name,
        "has_audio": True,
    }
