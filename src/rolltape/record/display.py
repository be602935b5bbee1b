"""Showing a recording while it runs: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from typing import TextIO

from rolltape.record.events import (
    Began,
    EpisodeBegan,
    EpisodeDiscarded,
    EpisodeSaved,
    Event,
    Noted,
    Ticked,
    Warned,
)

__all__ = ["StatusLine"]

_PERIOD_S = 0.1


class StatusLine:
    r"""Takes the events of a recording and writes them for people.

    On a terminal the last line is live: episode, frame, rate, late ticks, frames waiting for an encoder. Elsewhere
    only whole lines are written, one an episode.

    Args:
        stream: Where to write.
        bell: Whether the terminal's bell rings after each episode.
        indent: Stands in front of every line.
        live: Whether the stream is a terminal; asked of the stream when left out.
        clock: Gives seconds.

    Example:
        >>> import io
        >>> from rolltape.record import EpisodeResult, EpisodeSaved
        >>> stream = io.StringIO()
        >>> StatusLine(stream)(EpisodeSaved(EpisodeResult(0, 104, success=True)))
        >>> stream.getvalue()
        'episode 0: 104 frames, success\n'
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        bell: bool = False,
        indent: str = "",
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._bell, self._indent, self._clock = stream, bell, indent, clock
        self._live = stream.isatty() if live is None else live
        self._drawn, self._next = False, 0.0
        self._episode = EpisodeBegan(0, 0, 0, 0, 1)
        self._fps, self._since = 0.0, 0.0

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Ticked():
                self._draw(event)
            case EpisodeBegan():
                self._episode, self._since, self._next = event, self._clock(), 0.0
            case Began():
                self._fps = float(event.fps)
                self._line(_opening(event))
                if event.loss_s is not None:
                    self._line(_loss(event))
            case EpisodeSaved(result):
                bell = "\a" if self._bell and self._live else ""
                rate = "" if result.measured_fps is None else f", {result.measured_fps:.1f} Hz, {result.late} late"
                self._line(f"episode {result.episode}: {result.frames} frames{rate}{_judgement(result.success)}{bell}")
            case EpisodeDiscarded():
                self._line(f"episode {event.episode}: thrown away after {event.frames} frames ({event.reason})")
            case Noted():
                self._line(f"note: {event.text}")
            case Warned():
                self._line(f"warning: {event.text}")

    def clear(self) -> None:
        """Take the live line away."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _line(self, text: str) -> None:
        self.clear()
        self._write(f"{self._indent}{text}\n")

    def _write(self, text: str) -> None:
        # A terminal that was closed is no reason to end a recording.
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()

    def _draw(self, tick: Ticked) -> None:
        now = self._clock()
        if not self._live or now < self._next:
            return
        self._next = now + _PERIOD_S
        episode, elapsed = self._episode, max(now - self._since, 1e-6)
        again = f" (attempt {episode.attempt + 1})" if episode.attempt else ""
        text = (
            f"episode {episode.episode} [{episode.position + 1}/{episode.episodes}]{again}  frame {tick.tick}  "
            f"{tick.tick / max(self._fps, 1e-6):.1f} s  {tick.tick / elapsed:.0f} frames/s  "
            f"late {tick.late}  encoder queue {tick.queued}"
        )
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{(self._indent + text)[:width]}")
        self._drawn = True


def _opening(event: Began) -> str:
    cameras = ", ".join(name.removeprefix("observation.images.") for name in event.cameras) or "none"
    added = f", after {event.existing} that are there" if event.existing else ""
    return f"recording {event.episodes} episodes at {event.fps:g} Hz{added}; cameras: {cameras}; into {event.root}"


def _loss(event: Began) -> str:
    spool = f"; a slow encoder has {event.spool_s:g} s of room on the disk" if event.spool_s else ""
    return f"if this is killed, at most {event.loss_s:.1f} s of the open episode are lost (rolltape recover){spool}"


def _judgement(success: bool | None) -> str:
    return "" if success is None else ", success" if success else ", failure"
