"""Reports: pictures and pages that show what is in a dataset. Pillow only."""

from __future__ import annotations

from rolltape.report.contact_sheet import contact_sheet

__all__ = ["contact_sheet"]
