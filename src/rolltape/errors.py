"""One error tree for the whole of rolltape.

Every class also inherits the built-in exception that a user would catch, and every message has the same parts:
what went wrong, where (file, episode, frame, camera), what was expected, what was found, and what to do about it.

```
RolltapeError
├── FormatError (ValueError)                    info.json, features or tables are malformed
│   └── UnsupportedFormatError (NotImplementedError)   a layout that is known by name but not read here
├── DatasetNotFoundError (FileNotFoundError)
├── DatasetExistsError (FileExistsError)
├── DamagedFileError (OSError, ValueError)      cut-off Parquet, Git LFS pointer, missing or empty file
├── SelectionError (ValueError)                 episodes=, where=, columns=, cameras=
├── WindowError (ValueError)                    delta_timestamps off the frame grid
├── FrameIndexError (IndexError)
├── UnknownFeatureError (KeyError)
├── TaskError (KeyError)
├── FrameError (ValueError)                     add_frame: all problems at once in `.problems`
├── EpisodeError (ValueError)                   empty episode, wrong field, counts that differ
├── CommitError (OSError)                       files could not be written; the dataset is as it was
├── LockedError (BlockingIOError)               another writer holds the dataset
├── OpenTakeError (RuntimeError)                a killed recording left an episode that is to be kept or dropped
├── ReadOnlyError (PermissionError)
├── ClosedError (RuntimeError)
├── VideoError (RuntimeError)
│   ├── ContainerError (ValueError)             boxes of an MP4 that do not add up
│   ├── DecodeError
│   ├── EncodeError
│   ├── CodecError (ValueError)                 a codec that is unknown or does not work here
│   ├── FrameTimestampError (ValueError)        no picture within the tolerance
│   └── NoFootageError (LookupError)            the episode has no video for this camera
├── RecordError (RuntimeError)
├── UsageError (ValueError)
└── MissingExtraError (ImportError)             names the install line
```
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "ClosedError",
    "CodecError",
    "CommitError",
    "ContainerError",
    "DamagedFileError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "DecodeError",
    "EncodeError",
    "EpisodeError",
    "FormatError",
    "FrameError",
    "FrameIndexError",
    "FrameTimestampError",
    "LockedError",
    "MissingExtraError",
    "NoFootageError",
    "OpenTakeError",
    "ReadOnlyError",
    "RecordError",
    "RolltapeError",
    "SelectionError",
    "TaskError",
    "UnknownFeatureError",
    "UnsupportedFormatError",
    "UsageError",
    "VideoError",
    "WindowError",
    "missing_extra",
]


class RolltapeError(Exception):
    """The root of all errors that rolltape raises on purpose.

    Args:
        what: One line that says what went wrong.
        where: The file, episode, frame or camera concerned.
        expected: What a right input would have been.
        found: What was there instead.
        fix: What the user can do.

    Example:
        >>> print(RolltapeError("The table is cut off.", where="data/chunk-000/file-000.parquet", fix="Restore it."))
        The table is cut off.
          where: data/chunk-000/file-000.parquet
          do: Restore it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        found: object = None,
        fix: str | None = None,
    ) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.expected = None if expected is None else str(expected)
        self.found = None if found is None else str(found)
        self.fix = fix
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The whole text, one part a line."""
        parts = (("where", self.where), ("expected", self.expected), ("found", self.found), ("do", self.fix))
        return "\n".join([self.what, *(f"  {name}: {text}" for name, text in parts if text is not None)])

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross process borders here.
        return (_rebuild, (type(self), self.__dict__.copy(), self.message))


def _rebuild(kind: type[RolltapeError], state: dict[str, Any], message: str) -> RolltapeError:
    error = kind.__new__(kind)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class FormatError(RolltapeError, ValueError):
    """What a dataset says of itself is malformed."""


class UnsupportedFormatError(FormatError, NotImplementedError):
    """The layout is known by name but is not read here."""


class DatasetNotFoundError(RolltapeError, FileNotFoundError):
    """There is no dataset at this place."""


class DatasetExistsError(RolltapeError, FileExistsError):
    """The place is taken."""


class DamagedFileError(RolltapeError, OSError, ValueError):
    """A file of the dataset is missing, cut off, empty, or only a pointer to its content.

    Attributes:
        path: The file, relative to the dataset's root.
        episodes: The episodes whose data is in it, where known.
    """

    def __init__(self, what: str, *, path: str = "", episodes: Iterable[int] = (), **parts: Any) -> None:
        self.path = path
        self.episodes = tuple(episodes)
        parts.setdefault("where", path or None)
        super().__init__(what, **parts)


class SelectionError(RolltapeError, ValueError):
    """The selection of episodes, columns or cameras cannot be made."""


class WindowError(RolltapeError, ValueError):
    """A time window does not fall on the dataset's frames."""


class FrameIndexError(RolltapeError, IndexError):
    """There is no frame with this index."""


class UnknownFeatureError(RolltapeError, KeyError):
    """There is no feature with this name."""


class TaskError(RolltapeError, KeyError):
    """A frame names a task that the task table does not hold."""


class FrameError(RolltapeError, ValueError):
    """A frame does not fit the dataset's features.

    Attributes:
        problems: One line for each thing that is wrong with the frame.
    """

    def __init__(self, what: str, problems: Iterable[str] = (), **parts: Any) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([what, *(f"  - {problem}" for problem in self.problems)]), **parts)


class EpisodeError(RolltapeError, ValueError):
    """The episode cannot be saved as it is."""


class CommitError(RolltapeError, OSError):
    """A change could not be written, and the dataset is as it was before.

    Attributes:
        errno: The system's number of the error, such as `errno.ENOSPC`, where there is one.
    """

    def __init__(self, what: str, *, errno: int | None = None, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.errno = errno


class LockedError(RolltapeError, BlockingIOError):
    """Another writer holds the dataset."""


class OpenTakeError(RolltapeError, RuntimeError):
    """A recording that was killed left an open episode, and somebody has to say what becomes of it.

    Attributes:
        takes: What was left, as `rolltape.write.find_takes` gives it.
    """

    def __init__(self, what: str, takes: Iterable[Any] = (), **parts: Any) -> None:
        self.takes = tuple(takes)
        super().__init__(what, **parts)


class ReadOnlyError(RolltapeError, PermissionError):
    """The place cannot be written to."""


class ClosedError(RolltapeError, RuntimeError):
    """The object was closed, or is not in the state that the call needs."""


class VideoError(RolltapeError, RuntimeError):
    """Something about a video."""


class ContainerError(VideoError, ValueError):
    """The boxes of the container do not add up."""


class DecodeError(VideoError):
    """A picture cannot be decoded."""


class EncodeError(VideoError):
    """A picture cannot be encoded."""


class CodecError(VideoError, ValueError):
    """The codec is unknown, or does not work on this machine."""


class FrameTimestampError(VideoError, ValueError):
    """No picture of the video is within the tolerance of the wanted time."""


class NoFootageError(VideoError, LookupError):
    """The episode has no video for this camera."""


class RecordError(RolltapeError, RuntimeError):
    """The recording cannot go on."""


class UsageError(RolltapeError, ValueError):
    """The arguments do not make sense together."""


class MissingExtraError(RolltapeError, ImportError):
    """A package of an optional extra is not installed."""


def missing_extra(extra: str, package: str) -> MissingExtraError:
    """Return the error that says which package is missing and how to install it.

    Example:
        >>> print(missing_extra("sim", "mujoco"))
        This needs the package mujoco, which is not installed.
          do: pip install "rolltape[sim]"
    """
    return MissingExtraError(
        f"This needs the package {package}, which is not installed.", fix=f'pip install "rolltape[{extra}]"'
    )
