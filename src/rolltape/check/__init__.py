"""Faults of datasets: found, named by stable ids, and explained. Nothing is changed here.

Example:
    >>> from rolltape import check
    >>> print(check.run("tests/data/golden/v30/images_png").ok)
    True
"""

from __future__ import annotations

from rolltape.check.catalogue import Entry, Severity, catalogue, entry
from rolltape.check.findings import Finding, Report, Where
from rolltape.check.inspection import run

__all__ = ["Entry", "Finding", "Report", "Severity", "Where", "catalogue", "entry", "run"]
