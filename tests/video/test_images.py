"""Stored stills, and what a probe says of files with sound."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from rolltape.errors import ContainerError, DamagedFileError, DecodeError, EncodeError
from rolltape.video import images, video_info
from video.clips import pictures, write_video


def test_png_round_trip_and_levels() -> None:
    picture = pictures(1)[0]
    fast, small = images.encode_png(picture, 1), images.encode_png(picture)
    assert len(small) <= len(fast)
    for data in (fast, small, memoryview(small)):
        assert np.array_equal(images.decode_image(data), picture)
    assert np.array_equal(images.decode_image(images.encode_png(picture[:, ::-1])), picture[:, ::-1])


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_A71_tiff_is_lossless(dtype: type) -> None:
    ramp: npt.NDArray[Any] = np.linspace(0, 65535, 32 * 48).astype(dtype).reshape(32, 48)
    if dtype is np.float32:
        ramp[0, :3] = [np.nan, np.inf, -1.5]
    for shaped in (ramp, ramp[None], ramp[..., None]):
        data = images.encode_tiff(shaped)
        back = images.decode_image(data)
        assert back.dtype == dtype
        assert np.array_equal(back, ramp, equal_nan=dtype is np.float32)
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "TIFF"
        assert image.mode == ("I;16" if dtype is np.uint16 else "F")
        assert image.info["compression"] == "raw"


def test_other_modes_become_rgb() -> None:
    for mode in ("L", "RGBA", "P"):
        buffer = io.BytesIO()
        Image.new(mode, (5, 4)).save(buffer, "PNG")
        assert images.decode_image(buffer.getvalue()).shape == (4, 5, 3)


def test_wrong_input() -> None:
    for data in (b"", b"no picture", images.encode_png(pictures(1)[0])[:200]):
        with pytest.raises(DecodeError, match="episode 3"):
            images.decode_image(data, where="episode 3")
    with pytest.raises(EncodeError, match=r"uint8 \[H, W, 3\]"):
        images.encode_png(np.zeros((3, 4, 4), np.uint8))
    with pytest.raises(EncodeError, match="float32"):
        images.encode_tiff(np.zeros((4, 4)))


def test_probe_with_sound_and_of_no_video(tmp_path: Path) -> None:
    info = video_info(write_video(tmp_path / "a.mp4", pictures(5), audio=True))
    assert info["has_audio"] is True
    assert (info["audio.codec"], info["audio.channels"], info["audio.sample_rate"]) == ("aac", 2, 48000)
    assert info["audio.channel_layout"] == "stereo"
    assert info["audio.bit_depth"] == 32
    assert info["audio.bit_rate"] > 0
    assert info["video.fps"] == 30
    with pytest.raises(DamagedFileError, match=r"b\.mp4"):
        video_info(tmp_path / "b.mp4")
    (tmp_path / "c.mp4").write_bytes(b"nothing")
    with pytest.raises(DamagedFileError):
        video_info(tmp_path / "c.mp4")
    with wave.open(str(tmp_path / "d.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(800))
    with pytest.raises(ContainerError, match="no video"):
        video_info(tmp_path / "d.wav")
