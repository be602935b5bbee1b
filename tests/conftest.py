"""What holds for every test: nothing depends on how busy the machine is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rolltape", deadline=None)
settings.load_profile("rolltape")
