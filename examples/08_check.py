"""Check a dataset, and see what a fault looks like."""

from __future__ import annotations

import tempfile
from pathlib import Path

from small_dataset import write_small_dataset

from rolltape import check

root = write_small_dataset(Path(tempfile.mkdtemp()) / "ball")

report = check.run(root, deep=True)
print("clean:", report.ok, "-", report.text())

(root / "data/chunk-000/file-000.parquet").write_bytes(b"PAR1 cut off")
report = check.run(root)
print("damaged:", report.ok)
for finding in report.errors:
    print(f"  {finding.id}: {finding.where}")
