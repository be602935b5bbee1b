"""`rolltape version`."""

from __future__ import annotations

from rolltape._version import __version__
from rolltape.cli.flags import Json
from rolltape.cli.printing import print_json, print_text

__all__ = ["version"]


def version(*, json: Json = False) -> int:
    """Print the version of rolltape.

    Args:
        json: Print one JSON object and nothing else.
    """
    if json:
        print_json({"rolltape": __version__})
    else:
        print_text([__version__])
    return 0
