"""How a recording stands: what a writer tells of itself without changing anything."""

from __future__ import annotations

from rolltape.format import Feature, Info, Tasks
from rolltape.write.episode import Episode
from rolltape.write.rig import Rig, StatedLoss
from rolltape.write.session import Session
from rolltape.write.take import Take

__all__ = ["Standing"]


class Standing:
    """The questions that a writer answers; `Writer` adds what it does."""

    _session: Session
    _rig: Rig
    _take: Take | None
    _sealed: Episode | None
    _closed: bool

    @property
    def info(self) -> Info:
        """What `info.json` says, or will say with the first commit."""
        return self._session.state.info

    @property
    def features(self) -> dict[str, Feature]:
        """All features, the generated ones included."""
        return self._session.state.info.features

    @property
    def tasks(self) -> Tasks:
        """The task table of the committed episodes."""
        return self._session.state.tasks

    @property
    def episode_fields(self) -> dict[str, str]:
        """The user's per-episode fields, name to type."""
        return dict(self._session.state.fields)

    @property
    def total_episodes(self) -> int:
        """Saved episodes, those of an open group included."""
        return self._session.total_episodes

    @property
    def total_frames(self) -> int:
        """Frames of the saved episodes, those of an open group included."""
        return self._session.total_frames

    @property
    def episode_frames(self) -> int:
        """Frames of the open episode."""
        if self._sealed is not None:
            return self._sealed.rows
        return 0 if self._take is None else self._take.frames

    @property
    def has_pending_frames(self) -> bool:
        """Whether there is an open episode with frames."""
        return self.episode_frames > 0

    @property
    def take_failed(self) -> bool:
        """Whether the open episode was ended by a failing camera, encoder or disk.

        What there is of it can be saved, discarded, or left for recovery (`leave_episode`). A `with` block that an
        error leaves does the last.
        """
        return self._take is not None and self._take.frames > 0 and self._take.has_failed

    @property
    def waiting(self) -> dict[str, int]:
        """How many frames wait for each camera's encoder."""
        return {} if self._take is None else self._take.waiting

    @property
    def stated_loss_s(self) -> StatedLoss:
        """How many seconds of the open episode a killed process loses at most, while the encoders keep up.

        For each camera the frame on its way, those that its encoder holds, and the 0.2 s that its file holds back;
        beside them the rows (`rows`). `.max` is the largest. With a spool it is 0.2 s.
        """
        return self._rig.stated_loss

    @property
    def bytes_written(self) -> int:
        """Bytes of all files that commits and packing wrote."""
        return self._session.written

    @property
    def closed(self) -> bool:
        """Whether the writer is closed."""
        return self._closed
