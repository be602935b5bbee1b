"""Contact sheets: what happened in each episode, on one picture."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from rolltape.errors import NoFootageError, SelectionError
from rolltape.format import DEFAULT_FEATURES, Feature
from rolltape.read import Dataset, EpisodeView
from rolltape.read import open as open_dataset
from rolltape.report.page import PALETTE, badge, blank, fitted, text, text_width
from rolltape.report.strips import Strip, draw_strips, make_strips

__all__ = ["contact_sheet"]

_MARGIN, _LABEL, _SCALE, _FRAMES = 28, 132, 56, 8
_HEADER, _TITLE, _CAPTION, _GAP = 74, 44, 20, 26


def contact_sheet(
    dataset: Dataset | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    episodes: Iterable[int] | None = None,
    title: str | None = None,
    thumbnail_width: int = 160,
) -> Path:
    """Draw episodes on one PNG: each camera's frames over time, and below them the curves of state and action.

    A frame stands above the part of the curves that it was taken in: frames and curves share one time axis.

    Args:
        dataset: A dataset, or what `rolltape.open` takes.
        out: The PNG file to write.
        episodes: Episode numbers; the first five when left out.
        title: What stands on top; the folder's name when left out.
        thumbnail_width: Pixels of one frame; eight stand in a row.

    Returns:
        The file.

    Raises:
        SelectionError: There is no such episode, or none at all.

    Example:
        >>> contact_sheet("outputs/demo/dataset", "sheet.png", episodes=[0, 3])  # doctest: +SKIP
        PosixPath('sheet.png')
    """
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    chosen = opened.episodes[:5] if episodes is None else list(episodes)
    if not chosen:
        raise SelectionError("There is no episode to draw.", where=opened.root)
    sheet = _Sheet(opened, thumbnail_width)
    blocks = [sheet.episode(opened.episode(number)) for number in chosen]
    page = blank(sheet.width, _HEADER + sum(block.height + _GAP for block in blocks) + 6)
    sheet.header(page, title or opened.root.resolve().name, len(chosen))
    top = _HEADER
    for block in blocks:
        page.paste(block, (0, top))
        top += block.height + _GAP
    path = Path(out).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path, "PNG")
    return path


class _Sheet:
    """The parts of a sheet: they share the dataset and the widths."""

    def __init__(self, dataset: Dataset, thumbnail_width: int) -> None:
        plain = replace(dataset.view, columns=_column_names(dataset), windows={})
        self.tables = dataset.with_view(replace(plain, cameras=()))
        self.pictures = dataset.with_view(replace(plain, columns=(), task=False))
        self.dataset = dataset
        self.thumbnail_width = thumbnail_width
        self.inner = _FRAMES * thumbnail_width
        self.width = 2 * _MARGIN + _LABEL + self.inner + _SCALE

    def header(self, page: Image.Image, title: str, shown: int) -> None:
        """Draw the sheet's head."""
        draw, info = ImageDraw.Draw(page), self.dataset.info
        text(draw, (_MARGIN, 30), fitted(title, 22, self.width - 2 * _MARGIN), size=22, heavy=True)
        parts = [
            f"{info.total_episodes} episodes",
            f"{info.total_frames} frames",
            f"{info.fps:g} Hz",
            f"robot {info.robot_type}" if info.robot_type else "",
            f"{shown} shown" if shown != info.total_episodes else "",
        ]
        text(draw, (_MARGIN, 54), "   ".join(part for part in parts if part), size=13, colour=PALETTE.faint)
        right = float(self.width - _MARGIN)
        for words, colour in (("action", PALETTE.action), ("state", PALETTE.state)):
            right -= text_width(words, 12)
            text(draw, (right, 54), words, size=12, colour=PALETTE.faint)
            draw.line((right - 28, 54, right - 8, 54), fill=colour, width=3)
            right -= 48
        draw.line((_MARGIN, _HEADER - 4, self.width - _MARGIN, _HEADER - 4), fill=PALETTE.rule, width=1)

    def episode(self, view: EpisodeView) -> Image.Image:
        """Return the block of one episode."""
        rows = self._pictures(view)
        strips, left_out = self._strips(view)
        curves = draw_strips(strips, self.width - 2 * _MARGIN, _LABEL, _SCALE)
        note = f"and {left_out} more elements" if left_out else ""
        height = _TITLE + sum(row.height + 6 for _, row in rows) + _CAPTION + curves.height + (18 if note else 0)
        block = blank(self.width, height)
        draw = ImageDraw.Draw(block)
        self._title(draw, view)
        top = _TITLE
        for name, row in rows:
            block.paste(row, (_MARGIN + _LABEL, top))
            label = fitted(name, 12, _LABEL - 14)
            text(draw, (_MARGIN + _LABEL - 10, top + row.height / 2), label, size=12, anchor="rm")
            top += row.height + 6
        for position, frame in enumerate(_sampled(len(view))):
            x = _MARGIN + _LABEL + (position + 0.5) * self.thumbnail_width
            seconds = f"{self.dataset.info.rate.seconds(frame):.2f} s"
            text(draw, (x, top + 6), seconds, size=11, colour=PALETTE.faint, anchor="mm")
        top += _CAPTION
        block.paste(curves, (_MARGIN, top))
        if note:
            text(draw, (_MARGIN + _LABEL, top + curves.height + 8), note, size=11, colour=PALETTE.faint)
        return block

    def _title(self, draw: ImageDraw.ImageDraw, view: EpisodeView) -> None:
        x, y = float(_MARGIN), _TITLE / 2 - 2
        name = f"Episode {view.index}"
        text(draw, (x, y), name, size=17, heavy=True)
        x += text_width(name, 17) + 16
        success = view.fields.get("success")
        if isinstance(success, bool):
            x += badge(draw, (x, y), "success" if success else "failure", PALETTE.good if success else PALETTE.bad) + 16
        length = f"{len(view)} frames, {view.seconds:.2f} s"
        room = self.width - _MARGIN - x - text_width(length, 13) - 20
        text(draw, (x, y), fitted("; ".join(view.tasks), 14, room), size=14)
        text(draw, (self.width - _MARGIN, y), length, size=13, colour=PALETTE.faint, anchor="rm")

    def _pictures(self, view: EpisodeView) -> list[tuple[str, Image.Image]]:
        frames = [view.frames[frame] for frame in _sampled(len(view))]
        rows = []
        for camera in self.dataset.cameras:
            one = self.pictures.with_view(replace(self.pictures.view, cameras=(camera,)))
            label = camera.removeprefix("observation.images.")
            try:
                images = _as_colour(one.batch(frames)[camera], self.dataset.features[camera])
            except NoFootageError:
                images = None
            rows.append((label, self._row(images, self.dataset.features[camera])))
        return rows

    def _row(self, images: np.ndarray | None, feature: Feature) -> Image.Image:
        height, width, _ = feature.hwc
        row_height = max(1, round(self.thumbnail_width * height / width))
        row = blank(self.inner, row_height)
        if images is None:
            text(ImageDraw.Draw(row), (8, row_height / 2), "no footage", size=12, colour=PALETTE.faint)
            return row
        for position, image in enumerate(images):
            small = Image.fromarray(image).resize((self.thumbnail_width - 4, row_height), Image.Resampling.LANCZOS)
            row.paste(small, (position * self.thumbnail_width + 2, 0))
        return row

    def _strips(self, view: EpisodeView) -> tuple[list[Strip], int]:
        values = self.tables.episode(view.index).batch()
        state: dict[str, np.ndarray] = {}
        action: dict[str, np.ndarray] = {}
        for name in self.tables.view.columns:
            (action if name == "action" else state).update(_elements(self.dataset.features[name], values[name]))
        return make_strips(state, action)


def _column_names(dataset: Dataset) -> tuple[str, ...]:
    """Return the columns to draw: state and action, or all numeric ones where there is neither."""
    numeric = [name for name, one in dataset.features.items() if one.is_numeric and name not in DEFAULT_FEATURES]
    usual = [name for name in ("observation.state", "action") if name in numeric]
    return tuple(usual or numeric)


def _elements(feature: Feature, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values of a numeric column by element name."""
    flat = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    names = feature.element_names
    if names is None or len(names) != flat.shape[1]:
        short = feature.name.removeprefix("observation.")
        names = [short] if flat.shape[1] == 1 else [f"{short}[{k}]" for k in range(flat.shape[1])]
    return {str(name): flat[:, k] for k, name in enumerate(names)}


def _sampled(length: int) -> list[int]:
    """Return the frames in the middle of eight equal parts of an episode."""
    return [min(length - 1, int((part + 0.5) / _FRAMES * length)) for part in range(_FRAMES)]


def _as_colour(images: Any, feature: Feature) -> np.ndarray:
    """Return a batch of pictures as uint8 [n, height, width, 3], whatever form they were asked for in."""
    array = np.asarray(images)
    if array.shape[1] in (1, 3) and array.shape[1:] != feature.hwc:
        array = np.moveaxis(array, 1, -1)
    if feature.is_depth or array.shape[-1] == 1:
        return _depth_colours(array[..., 0].astype(np.float64))
    return array if array.dtype == np.uint8 else np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8)


_DEPTH_RAMP = np.array([[252, 246, 220], [250, 190, 90], [214, 90, 80], [116, 44, 110], [24, 18, 48]], dtype=np.float64)


def _depth_colours(depth: np.ndarray) -> np.ndarray:
    """Return depth in colours from near (light) to far (dark); where nothing was measured, grey."""
    known = np.isfinite(depth) & (depth > 0)
    if not known.any():
        return np.full((*depth.shape, 3), 200, dtype=np.uint8)
    low, high = np.percentile(depth[known], [1, 99])
    part = np.clip((depth - low) / max(high - low, 1e-9), 0, 1) * (len(_DEPTH_RAMP) - 1)
    steps = np.arange(len(_DEPTH_RAMP))
    colours = np.stack([np.interp(part, steps, _DEPTH_RAMP[:, channel]) for channel in range(3)], axis=-1)
    return np.where(known[..., None], colours, 200.0).astype(np.uint8)
