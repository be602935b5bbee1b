"""Video: boxes, the index, decoding to arrays, encoding from arrays, and packets moved without re-encoding.

Everything that needs PyAV imports it on use; `index` and `boxes` need only NumPy.
"""

from __future__ import annotations

from rolltape.video import depth, images, packets
from rolltape.video.boxes import Movie, parse_movie
from rolltape.video.codecs import CodecState, available
from rolltape.video.convert import Converter, Layout
from rolltape.video.decode import VideoFile
from rolltape.video.decoder import Decoder
from rolltape.video.encode import Clip, ResolvedEncoder, VideoEncoder, resolve, tick_grid
from rolltape.video.index import MediaIndex, build_index, index_file
from rolltape.video.pool import DecoderPool
from rolltape.video.probe import video_info

__all__ = [
    "Clip",
    "CodecState",
    "Converter",
    "Decoder",
    "DecoderPool",
    "Layout",
    "MediaIndex",
    "Movie",
    "ResolvedEncoder",
    "VideoEncoder",
    "VideoFile",
    "available",
    "build_index",
    "depth",
    "images",
    "index_file",
    "packets",
    "parse_movie",
    "resolve",
    "tick_grid",
    "video_info",
]
