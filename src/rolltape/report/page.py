"""Colours, type and simple marks of the pictures that reports draw. Pillow only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from PIL import Image, ImageDraw, ImageFont

__all__ = ["PALETTE", "Palette", "badge", "blank", "fitted", "font", "text", "text_width"]


@dataclass(frozen=True)
class Palette:
    """The colours, as red, green, blue.

    Attributes:
        paper: The background.
        panel: Behind curves.
        ink: Text.
        faint: Secondary text.
        rule: Lines that part things.
        grid: Lines inside curves.
        state: What was measured.
        action: What was commanded.
        good: Success.
        bad: Failure.
    """

    paper: tuple[int, int, int] = (255, 255, 255)
    panel: tuple[int, int, int] = (246, 248, 250)
    ink: tuple[int, int, int] = (28, 36, 46)
    faint: tuple[int, int, int] = (112, 124, 138)
    rule: tuple[int, int, int] = (216, 222, 228)
    grid: tuple[int, int, int] = (226, 231, 236)
    state: tuple[int, int, int] = (20, 108, 148)
    action: tuple[int, int, int] = (226, 116, 40)
    good: tuple[int, int, int] = (30, 132, 73)
    bad: tuple[int, int, int] = (192, 57, 43)


PALETTE = Palette()


@lru_cache(maxsize=32)
def font(size: float) -> Any:
    """Return Pillow's own typeface in a size, in pixels."""
    return ImageFont.load_default(size=size)


def text_width(words: str, size: float) -> float:
    """Return how wide a line of text is, in pixels."""
    return float(font(size).getlength(words))


def fitted(words: str, size: float, width: float) -> str:
    """Return a line of text, cut with dots so that it fits the width.

    Example:
        >>> fitted("a short line", 12, 400)
        'a short line'
    """
    words = " ".join(words.split())
    if text_width(words, size) <= width:
        return words
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(words[:middle].rstrip() + "...", size) <= width:
            low = middle
        else:
            high = middle - 1
    return words[:low].rstrip() + "..."


def text(
    draw: ImageDraw.ImageDraw,
    place: tuple[float, float],
    words: str,
    *,
    size: float = 13,
    colour: tuple[int, int, int] = PALETTE.ink,
    anchor: str = "lm",
    heavy: bool = False,
) -> None:
    """Draw a line of text.

    Args:
        draw: Where to draw.
        place: The anchor's place, in pixels.
        words: The text.
        size: In pixels.
        colour: Of the text.
        anchor: Pillow's two letters: `l`, `m`, `r` for the side, `m` for the middle of the line, `s` for its base.
        heavy: Whether it is drawn bold.
    """
    draw.text(place, words, font=font(size), fill=colour, anchor=anchor, stroke_width=0.4 if heavy else 0)


def badge(draw: ImageDraw.ImageDraw, place: tuple[float, float], words: str, colour: tuple[int, int, int]) -> float:
    """Draw white text on a rounded field whose left middle is at a place; return its width."""
    width, half = text_width(words, 12) + 18, 10
    x, y = place
    draw.rounded_rectangle((x, y - half, x + width, y + half), radius=half, fill=colour)
    text(draw, (x + width / 2, y), words, size=12, colour=(255, 255, 255), anchor="mm")
    return width


def blank(width: int, height: int, colour: tuple[int, int, int] = PALETTE.paper) -> Image.Image:
    """Return an empty picture."""
    return Image.new("RGB", (width, height), colour)
