"""Where bytes live. In this version: the local file system, the writer's lock and its note of a change under way."""

from __future__ import annotations

from rolltape.store import local
from rolltape.store.intent import INTENT_FILE, Intent
from rolltape.store.local import MappedFile, MappedSpace
from rolltape.store.lock import OWNER_FILE, RootLock

__all__ = ["INTENT_FILE", "OWNER_FILE", "Intent", "MappedFile", "MappedSpace", "RootLock", "local"]
