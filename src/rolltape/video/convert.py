"""Decoded planes to RGB bytes, equal bit for bit to what lerobot 0.6.1 returns.

The reference is its default backend, torchcodec 0.11.1 on FFmpeg 5.1. Found by decoding noisy pictures with both
(H.264, AV1, HEVC; 640x480, 96x54, 62x46, 130x98, 63x47; untagged, BT.601, BT.709, BT.2020, limited and full range;
8 and 10 bits, 4:2:0 and 4:4:4):

* 8-bit pictures of even size: `reformat(format="rgb24")` is equal. So is `"gbrp"`, which saves the transposition to CHW
  (0.06 ms against 0.30 ms for 640x480), but FFmpeg leaves the last columns of `gbrp` undefined where width % 16 is
  1 to 8: the planar way is taken for widths that are multiples of 16, after it gave the same first picture as
  `rgb24`.
* Odd sizes go through swscale's general scaler, where the interpolation matters: torchcodec's is *bicubic* (PyAV's
  default is bilinear, up to 33 levels away).
* More than 8 bits: bicubic too, and the place of the chroma samples matters, which `reformat` does not know: a
  `scale` filter does.
* Full range: torchcodec hands pictures whose width is a multiple of 32 to swscale without their range. Formats that
  carry it in their name (`yuvj420p`: H.264, HEVC) come out right; full-range AV1 (`yuv420p`) is read as limited
  range. We do the same.
* lerobot's other backend (PyAV 15.1) ignores the matrix and range tags: it differs from torchcodec on BT.709,
  BT.2020, full-range AV1 and odd sizes (by up to 48 levels), and agrees on untagged and BT.601 pictures, which is
  what x264 and SVT-AV1 write by default.

PyAV 15 and 16 take the matrix only from arguments, and only when source and target differ in something; newer ones
also take it from the frame. So both are passed explicitly, and the target's range (which RGB does not have) is
chosen to make a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rolltape.errors import DecodeError
from rolltape.video.planes import plane_array

if TYPE_CHECKING:
    import av

__all__ = ["Converter", "Layout", "gray_plane"]

Layout = Literal["CHW", "HWC"]
UInt8Array = npt.NDArray[np.uint8]

_BICUBIC = 4
_LIMITED, _FULL = 1, 2
_EIGHT_BIT = {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p"}
# AVColorSpace (in the frame) -> SWS_CS_* (in arguments); all others are BT.601 for swscale
_MATRICES = {1: 1, 4: 4, 5: 5, 6: 5, 7: 7, 9: 9, 10: 9}


class Converter:
    """Converts the pictures of one stream to RGB, straight into the caller's array.

    Not safe for several threads at once: a `VideoFile` holds one and guards it.

    Args:
        layout: `"CHW"` or `"HWC"`: the order of axes of the arrays that `into` fills.
    """

    def __init__(self, layout: Layout = "CHW") -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self.layout = layout
        self._reformatter = VideoReformatter()
        self._planar: dict[tuple[int, int, str], bool] = {}
        self._graphs: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._old = int(av.__version__.split(".")[0]) < 17  # the first with sws_scale_frame
        self._threads: dict[str, Any] = {} if self._old else {"threads": 1}

    def into(self, frame: av.VideoFrame, out: UInt8Array) -> None:
        """Fill `out` (uint8, [3, H, W] or [H, W, 3]) with the picture.

        Raises:
            DecodeError: The picture has another size than the array.
        """
        height, width = frame.height, frame.width
        expected = (3, height, width) if self.layout == "CHW" else (height, width, 3)
        if out.shape != expected:
            raise DecodeError("The picture does not fit the array.", expected=out.shape, found=expected)
        if frame.format.name not in _EIGHT_BIT:
            self._pack(self._filtered(frame), out)
        elif self.layout == "CHW" and width % 16 == 0 and self._can_be_planar(frame):
            self._planes(self._reformat(frame, "gbrp"), out)
        else:
            self._pack(self._reformat(frame, "rgb24"), out)

    def _reformat(self, frame: av.VideoFrame, form: str) -> av.VideoFrame:
        matrix = _MATRICES.get(int(frame.colorspace), 5)
        full = int(frame.color_range) == _FULL or frame.format.name.startswith("yuvj")
        if full and frame.width % 32 == 0 and not frame.format.name.startswith("yuvj"):
            full = False  # as torchcodec does, see above
        arguments: dict[str, Any] = {
            "format": form,
            "src_colorspace": matrix,
            "dst_colorspace": matrix,
            "src_color_range": _FULL if full else _LIMITED,
            "dst_color_range": _LIMITED if full and self._old else _FULL,
            "interpolation": _BICUBIC,
        }
        return self._reformatter.reformat(frame, **arguments, **self._threads)

    def _can_be_planar(self, frame: av.VideoFrame) -> bool:
        key = (frame.width, frame.height, frame.format.name)
        if key not in self._planar:
            planar = np.empty((3, frame.height, frame.width), np.uint8)
            packed = np.empty_like(planar)
            self._planes(self._reformat(frame, "gbrp"), planar)
            self._pack(self._reformat(frame, "rgb24"), packed)
            self._planar[key] = bool(np.array_equal(planar, packed))
        return self._planar[key]

    @staticmethod
    def _planes(frame: av.VideoFrame, out: UInt8Array) -> None:
        for channel, plane in zip((1, 2, 0), frame.planes):
            np.copyto(out[channel], plane_array(plane, np.uint8, frame.width, frame.height))

    def _pack(self, frame: av.VideoFrame, out: UInt8Array) -> None:
        packed = plane_array(frame.planes[0], np.uint8, frame.width, frame.height, 3)
        if self.layout == "HWC":
            np.copyto(out, packed)
        else:
            for channel in range(3):
                np.copyto(out[channel], packed[..., channel])

    def _filtered(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The picture through a bicubic `scale` filter, which knows where the chroma samples lie."""
        from fractions import Fraction

        import av.filter

        key = (frame.width, frame.height, frame.format.name, int(frame.colorspace), int(frame.color_range))
        if key not in self._graphs:
            graph = av.filter.Graph()
            if hasattr(graph, "threads"):  # PyAV 16 and later
                graph.threads = 1
            source = graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1000)
            )
            scale, form, sink = (
                graph.add("scale", "flags=bicubic"),
                graph.add("format", "rgb24"),
                graph.add("buffersink"),
            )
            source.link_to(scale)
            scale.link_to(form)
            form.link_to(sink)
            graph.configure()
            self._graphs[key] = (graph, source)
        graph, source = self._graphs[key]
        source.push(frame)
        result: av.VideoFrame = graph.vpull() if hasattr(graph, "vpull") else graph.pull()
        return result


def gray_plane(frame: av.VideoFrame, out: npt.NDArray[np.uint16]) -> None:
    """Fill `out` (uint16 [H, W]) with the codes of a depth picture.

    Raises:
        DecodeError: The picture has another size than the array.
    """
    if frame.format.name != "gray12le":
        frame = frame.reformat(format="gray12le")
    if out.shape != (frame.height, frame.width):
        raise DecodeError("The picture does not fit the array.", expected=out.shape, found=(frame.height, frame.width))
    np.copyto(out, plane_array(frame.planes[0], "<u2", frame.width, frame.height))
