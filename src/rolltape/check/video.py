"""Checks of the videos, from their tables of frames alone; with `deep` every picture is decoded too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rolltape.check.survey import Ints, Survey, file_is_there, first_line
from rolltape.errors import ContainerError, RolltapeError
from rolltape.format.features import Feature
from rolltape.format.paths import INFO_PATH, FileNumber, by_file, video_file
from rolltape.format.rate import TOLERANCE_S
from rolltape.video.index import MediaIndex, build_index, index_file

__all__ = ["VideoPlace", "check_videos", "video_places"]

_DRIFT_S = 1e-5
_FLOAT32_LIMIT_S = 1024
_CANONICAL = {"libsvtav1": "av1", "libx264": "h264", "avc1": "h264", "libx265": "hevc", "hvc1": "hevc", "h265": "hevc"}


@dataclass(frozen=True)
class VideoPlace:
    """One video file of one camera, and the rows of the episodes table that point to it.

    Attributes:
        camera: The feature's name.
        number: Chunk and file number.
        file: Relative path.
        rows: Rows of the episodes table, in the order of their windows.
    """

    camera: str
    number: FileNumber
    file: str
    rows: Ints


Progress = Callable[[Iterable[VideoPlace]], Iterable[VideoPlace]]


def video_places(survey: Survey) -> list[VideoPlace]:
    """Return every video file that the episodes table names."""
    places = []
    for camera, windows in survey.episodes.windows.items():
        rows = np.flatnonzero(windows.present)
        rows = rows[np.argsort(windows.start[rows], kind="stable")]
        for number, part in by_file(windows.chunk[rows], windows.file[rows]):
            places.append(VideoPlace(camera, number, video_file(survey.info, camera, *number), rows[part]))
    survey.used.update(place.file for place in places)
    return places


def check_videos(survey: Survey, progress: Progress, *, deep: bool = False) -> None:
    """Check all video files that the episodes table names."""
    for camera, windows in survey.episodes.windows.items():
        empty = ~windows.present & ~windows.partial
        if empty.any():
            survey.findings.add(
                "video.null",
                "Episodes have no footage of the camera.",
                camera=camera,
                episodes=survey.episodes.index[empty],
            )
    kinds: dict[str, dict[tuple[str, int, int], str]] = {}
    for place in progress(video_places(survey)):
        index = _open(survey, place)
        if index is None:
            survey.bad.add(place.file)
            continue
        kinds.setdefault(place.camera, {}).setdefault((index.codec, index.width, index.height), place.file)
        _check_kind(survey, place, index)
        _check_grid(survey, place, index)
        _check_windows(survey, place, index)
        if deep:
            _check_pictures(survey, place, index)
    for camera, files in kinds.items():
        if len(files) > 1:
            survey.findings.add(
                "video.mixed",
                "The camera's files are of different kinds.",
                camera=camera,
                found="; ".join(f"{codec} {width}x{height} ({file})" for (codec, width, height), file in files.items()),
            )


def _open(survey: Survey, place: VideoPlace) -> MediaIndex | None:
    episodes = survey.episodes.index[place.rows]
    named: dict[str, Any] = {"file": place.file, "episodes": episodes, "camera": place.camera}
    if not file_is_there(survey.root, place.file, survey.files, survey.findings, named):
        return None
    path = survey.root / place.file
    try:
        return index_file(path)
    except ContainerError as error:
        whole = _whole_frames(path)
        if whole is not None:
            count, total = whole
            survey.findings.add(
                "video.truncated",
                "The video file is cut off.",
                expected=f"{total} pictures",
                found=f"{count} whole ones",
                **named,
            )
        else:
            survey.findings.add(
                "video.container", error.what, expected=error.expected, found=error.found or first_line(error), **named
            )
    except (RolltapeError, OSError) as error:
        survey.findings.add("files.unreadable", "The video cannot be read.", found=first_line(error), **named)
    return None


def _whole_frames(path: Path) -> tuple[int, int] | None:
    """Return how many pictures of a cut-off file are whole, and how many it lists; None where it is not cut off."""
    data = path.read_bytes()
    try:
        index = build_index(data, str(path), total_bytes=1 << 61)
    except ContainerError:
        return None
    whole = int((index.offset + index.size <= len(data)).sum())
    return (whole, len(index.size)) if whole < len(index.size) else None


def _check_kind(survey: Survey, place: VideoPlace, index: MediaIndex) -> None:
    feature: Feature = survey.info.features[place.camera]
    height, width, _ = feature.hwc
    named: dict[str, Any] = {"file": place.file, "camera": place.camera}
    if index.picture_size != (height, width):
        survey.findings.add(
            "video.resolution",
            "The video has another size than declared.",
            expected=f"{width}x{height} ({INFO_PATH})",
            found="{1}x{0}".format(*index.picture_size),
            **named,
        )
    stated = (feature.info or {}).get("video.codec")
    if isinstance(stated, str) and _CANONICAL.get(stated, stated) != index.codec:
        survey.findings.add(
            "video.codec",
            "The video has another codec than declared.",
            expected=f"{stated} ({INFO_PATH})",
            found=index.codec,
            **named,
        )


def _check_grid(survey: Survey, place: VideoPlace, index: MediaIndex) -> None:
    if not index.n:
        return
    rate = survey.info.rate
    wanted = rate.seconds(np.arange(index.n))
    apart = np.abs(index.seconds - wanted)
    if apart.max() <= TOLERANCE_S:
        return
    fps, stated = float(index.rate), float(rate.fraction)
    named: dict[str, Any] = {"file": place.file, "camera": place.camera, "episodes": survey.episodes.index[place.rows]}
    if index.n > 1 and abs(fps - stated) > 1e-3 * stated:
        survey.findings.add(
            "video.fps",
            "The video runs at another rate than the dataset.",
            expected=f"{rate} fps",
            found=f"{fps:.3f} fps",
            **named,
        )
        return
    k = int(np.argmax(apart > TOLERANCE_S))
    survey.findings.add(
        "video.grid",
        f"{int((apart > TOLERANCE_S).sum())} pictures are not at their time.",
        expected=f"picture {k} at {wanted[k]:.6f} s",
        found=f"{index.seconds[k]:.6f} s",
        **named,
    )


def _check_windows(survey: Survey, place: VideoPlace, index: MediaIndex) -> None:
    rate, table = survey.info.rate, survey.episodes
    windows = table.windows[place.camera]
    rows = place.rows[table.length[place.rows] > 0]
    episodes, length = table.index[rows], table.length[rows]
    begin, end = windows.start[rows], windows.stop[rows]
    first = rate.frames_at(begin)
    after = first + length
    named: dict[str, Any] = {"file": place.file, "camera": place.camera}

    drift = np.abs(begin - rate.seconds(first))
    if (drift > _DRIFT_S).any():
        worst = int(np.argmax(drift))
        survey.findings.add(
            "video.drift",
            "from_timestamp is off the frame grid.",
            episodes=episodes[drift > _DRIFT_S],
            expected=f"{rate.seconds(int(first[worst])):.6f} s (episode {episodes[worst]})",
            found=f"{begin[worst]:.6f} s",
            **named,
        )
    frame = float(1 / rate.fraction)
    for k in np.flatnonzero(np.abs((end - begin) - length * frame) > frame / 2):
        survey.findings.add(
            "video.window",
            "The window is not as long as the episode.",
            episodes=[episodes[k]],
            expected=f"{length[k] * frame:.6f} s ({length[k]} frames)",
            found=f"{end[k] - begin[k]:.6f} s",
            **named,
        )
    _check_coverage(survey, place, index, episodes, first, after)
    if index.n:
        start_key = index.key[index.order[np.clip(first, 0, index.n - 1)]]
        inside = (first >= 0) & (first < index.n)
        if (inside & ~start_key).any():
            survey.findings.add(
                "video.keyframe",
                "Episodes do not begin with a keyframe.",
                episodes=episodes[inside & ~start_key],
                **named,
            )
    late = rate.seconds(after) > _FLOAT32_LIMIT_S
    if late.any():
        survey.findings.add(
            "video.long_file",
            f"The file is used past {_FLOAT32_LIMIT_S:,} s.",
            episodes=episodes[late],
            found=f"{rate.seconds(int(after.max())):.0f} s",
            **named,
        )


def _check_coverage(
    survey: Survey, place: VideoPlace, index: MediaIndex, episodes: Ints, first: Ints, after: Ints
) -> None:
    """Check that the windows lie inside the file, side by side, and leave nothing over."""
    named: dict[str, Any] = {"file": place.file, "camera": place.camera}
    order = np.argsort(first, kind="stable")
    first, after, episodes = first[order], after[order], episodes[order]
    outside = (after > index.n) | (first < 0)
    if outside.any():
        k = int(np.flatnonzero(outside)[0])
        survey.findings.add(
            "video.short",
            "The video has fewer pictures than its episodes have rows.",
            episodes=episodes[outside],
            frames=(max(0, index.n - int(first[k])), int(after[k] - first[k])),
            expected=f"{int(after.max())} pictures",
            found=f"{index.n} pictures",
            **named,
        )
    reach = np.concatenate([[0], np.maximum.accumulate(after)[:-1]]) if len(after) else after
    shared = first < reach
    if shared.any():
        k = int(np.flatnonzero(shared)[0])
        survey.findings.add(
            "video.overlap",
            "Two episodes share pictures.",
            episodes=episodes[shared],
            expected=f"episode {episodes[k]} to start at picture {reach[k]} or later",
            found=f"picture {first[k]}",
            **named,
        )
    if not outside.any() and not shared.any():
        left = index.n - int((after - first).sum())
        if left > 0:
            survey.findings.add(
                "video.orphan_frames",
                f"{left} pictures belong to no episode.",
                expected=f"{index.n - left} pictures",
                found=f"{index.n} pictures",
                **named,
            )


def _check_pictures(survey: Survey, place: VideoPlace, index: MediaIndex) -> None:
    """Decode everything once, in order, by the index's own byte ranges."""
    from rolltape.check.decoding import undecodable

    found = undecodable(survey.root / place.file, index)
    if found is None:
        return
    rank, error = found
    windows, table = survey.episodes.windows[place.camera], survey.episodes
    first = survey.info.rate.frames_at(windows.start[place.rows])
    inside = (first <= rank) & (rank < first + table.length[place.rows])
    survey.findings.add(
        "video.undecodable",
        f"Picture {rank} of the file cannot be decoded.",
        file=place.file,
        camera=place.camera,
        episodes=table.index[place.rows[inside]],
        frames=(rank - int(first[inside][0]), rank - int(first[inside][0]) + 1) if inside.any() else None,
        found=first_line(error),
    )
