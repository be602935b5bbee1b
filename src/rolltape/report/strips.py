"""Curves over time, one strip for each element of the state and the action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from rolltape.report.page import PALETTE, blank, fitted, text

__all__ = ["Strip", "draw_strips", "make_strips"]

STRIP_HEIGHT = 34
_GAP, _SCALE = 4, 3
_LEAST = 0.005
"""The smallest range that fills a strip, as a part of the largest range of the episode."""


@dataclass(frozen=True)
class Strip:
    """What one strip shows.

    Attributes:
        name: The element's name.
        state: What was measured, one value a frame, or None.
        action: What was commanded, one value a frame, or None.
    """

    name: str
    state: np.ndarray | None = None
    action: np.ndarray | None = None

    @property
    def curves(self) -> list[tuple[np.ndarray, tuple[int, int, int]]]:
        """The curves with their colours; what was commanded lies below."""
        pairs = ((self.action, PALETTE.action), (self.state, PALETTE.state))
        return [(values, colour) for values, colour in pairs if values is not None]


def make_strips(
    state: Mapping[str, np.ndarray], action: Mapping[str, np.ndarray], most: int = 24
) -> tuple[list[Strip], int]:
    """Return the strips of an episode, and how many elements were left out.

    Elements of the same name share a strip.

    Args:
        state: Values by element name.
        action: Values by element name.
        most: The most strips.
    """
    strips = [
        Strip(name, state.get(name), action.get(name)) for name in [*state, *(n for n in action if n not in state)]
    ]
    return strips[:most], max(0, len(strips) - most)


def draw_strips(strips: Sequence[Strip], width: int, label_width: int, scale_width: int) -> Image.Image:
    """Return a picture of the strips: names on the left, curves, and each strip's range on the right.

    Args:
        strips: What to show.
        width: The picture's width; the curves have what the labels leave.
        label_width: The left part, for names.
        scale_width: The right part, for ranges.
    """
    height = len(strips) * (STRIP_HEIGHT + _GAP)
    page = blank(width, max(1, height))
    draw = ImageDraw.Draw(page)
    inner = width - label_width - scale_width
    ranges = [_range(strip) for strip in strips]
    # An element that hardly moves is drawn as one: its noise is not blown up to the strip's height.
    least = _LEAST * max((high - low for low, high in ranges), default=0.0)
    for number, (strip, (low, high)) in enumerate(zip(strips, ranges)):
        top = number * (STRIP_HEIGHT + _GAP)
        slack = max(0.0, least - (high - low)) / 2
        page.paste(_curves(strip, inner, low - slack, high + slack), (label_width, top))
        name = fitted(strip.name, 12, label_width - 14)
        text(draw, (label_width - 10, top + STRIP_HEIGHT / 2), name, size=12, anchor="rm")
        for value, place in ((high, top + 6), (low, top + STRIP_HEIGHT - 6)):
            text(draw, (width - scale_width + 6, place), _number(value), size=10, colour=PALETTE.faint)
    return page


def _range(strip: Strip) -> tuple[float, float]:
    values = np.concatenate([np.ravel(curve) for curve, _ in strip.curves])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 0.0
    return float(values.min()), float(values.max())


def _curves(strip: Strip, width: int, low: float, high: float) -> Image.Image:
    """Draw a strip's curves large and shrink them, which smooths the lines."""
    page = blank(width * _SCALE, STRIP_HEIGHT * _SCALE, PALETTE.panel)
    draw = ImageDraw.Draw(page)
    for part in range(1, 8):
        line = width * _SCALE * part / 8
        draw.line((line, 0, line, STRIP_HEIGHT * _SCALE), fill=PALETTE.grid, width=_SCALE)
    margin, room = 4 * _SCALE, (STRIP_HEIGHT - 8) * _SCALE
    for values, colour in strip.curves:
        for run in _runs(values):
            x = (run + 0.5) / len(values) * width * _SCALE
            share = (values[run] - low) / (high - low) if high > low else np.full(len(run), 0.5)
            y = margin + (1 - share) * room
            points = list(zip(x.tolist(), y.tolist()))
            if len(points) == 1:
                points = [(points[0][0] - _SCALE, points[0][1]), (points[0][0] + _SCALE, points[0][1])]
            draw.line(points, fill=colour, width=int(1.6 * _SCALE), joint="curve")
    return page.resize((width, STRIP_HEIGHT), Image.Resampling.LANCZOS)


def _runs(values: np.ndarray) -> list[np.ndarray]:
    """Return the frames of each unbroken run of finite values."""
    good = np.flatnonzero(np.isfinite(values))
    return [run for run in np.split(good, np.flatnonzero(np.diff(good) > 1) + 1) if len(run)]


def _number(value: float) -> str:
    """Return a number for a narrow margin.

    Example:
        >>> _number(-0.01234), _number(123456.0)
        ('-0.0123', '1.2e+05')
    """
    size = abs(value)
    if size == 0:
        return "0"
    return f"{value:.1e}" if size >= 10_000 or size < 0.0005 else f"{value:.0f}" if size >= 100 else f"{value:.3g}"
