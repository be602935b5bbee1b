"""Which codecs really work on this machine: each is tried with a few small pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rolltape.errors import CodecError
from rolltape.video.options import HARDWARE_ENCODERS, exists
from rolltape.video.trial import works

__all__ = ["CodecState", "available"]

_SOFTWARE = (("libsvtav1", "av1"), ("libx264", "h264"), ("libx265", "hevc"), ("libaom-av1", "av1"))


@dataclass(frozen=True)
class CodecState:
    """One encoder as this machine has it.

    Attributes:
        name: FFmpeg's encoder.
        codec: The codec: `"av1"`, `"h264"` or `"hevc"`.
        kind: `"software"` or `"hardware"`.
        present: This build of FFmpeg has it.
        encodes: It encoded two pictures just now.
        decodes: Pictures of this codec can be decoded: its own where it encodes, else those of another encoder of
            the codec.
    """

    name: str
    codec: str
    kind: str
    present: bool
    encodes: bool
    decodes: bool


def available() -> list[CodecState]:
    """Return every encoder that rolltape knows, and whether it and its decoder work here.

    Example:
        >>> {state.codec for state in available() if state.encodes and state.decodes} >= {"h264"}
        True
    """
    found = []
    decodes: dict[str, bool] = {}
    for name, codec in _SOFTWARE:
        encodes = works(name)
        decodes[codec] = decodes.get(codec, False) or (encodes and _decodes(name, codec))
        found.append(CodecState(name, codec, "software", exists(name), encodes, decodes[codec]))
    for name in HARDWARE_ENCODERS:
        codec = name.split("_")[0]
        found.append(CodecState(name, codec, "hardware", exists(name), works(name), decodes.get(codec, False)))
    return found


def _decodes(name: str, codec: str) -> bool:
    """Whether what the encoder makes comes back as the same number of pictures."""
    import av.error

    from rolltape.video.decoder import create_decoder

    try:
        encoder = _open(name)
        packets = _encode(encoder, 3)
        decoder = create_decoder(codec, bytes(encoder.extradata or b""))
        frames = [frame for packet in packets for frame in decoder.decode(packet)]
        frames += decoder.decode(None)
    except (av.error.FFmpegError, CodecError, ValueError, OSError):
        return False
    return len(frames) == 3


def _open(name: str) -> Any:
    from rolltape.format.encoders import RGBEncoderConfig
    from rolltape.video.options import encoder_options
    from rolltape.video.trial import open_context

    return open_context(name, "yuv420p", 128, 128, encoder_options(name, RGBEncoderConfig(vcodec=name), 1))


def _encode(encoder: Any, count: int) -> Sequence[Any]:
    import av

    packets: list[Any] = []
    for k in range(count):
        frame = av.VideoFrame(128, 128, "yuv420p")
        frame.pts, frame.time_base = k, Fraction(1, 30)
        packets += encoder.encode(frame)
    return [*packets, *encoder.encode(None)]
