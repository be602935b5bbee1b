"""What the fork server imports once: nothing that starts threads."""

from __future__ import annotations

import av
import pyarrow.parquet

import crash.story
import rolltape.video.encode
import rolltape.video.packets
import rolltape.write.pack

__all__ = ["av", "crash", "pyarrow", "rolltape"]
