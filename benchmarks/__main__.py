"""`python -m benchmarks [--smoke] [--only NAME ...]`: rolltape and lerobot side by side, ratios printed, JSON kept.

The reference's interpreter is `--reference` or `$ROLLTAPE_ORACLE_PYTHON`. Exit code 1 when a promised ratio was missed
(never with `--smoke`, whose sizes say nothing about speed).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.measures import MEASURES, Bench, clean, warm
from benchmarks.report import Row, table
from benchmarks.scene import render
from benchmarks.side import Side
from benchmarks.sizes import FULL, SMOKE

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure and report."""
    options = _options()
    work = Path(options.work or tempfile.mkdtemp(prefix="rolltape-bench-"))
    work.mkdir(parents=True, exist_ok=True)
    sizes = SMOKE if options.smoke else FULL
    scene = render(work, sizes.frames, 480, 640)
    ours = Side("ours", Path(sys.executable), work / "home-ours")
    reference = Side("reference", Path(options.reference).expanduser(), work / "home-reference")
    begin = time.time()
    try:
        facts = {"machine": machine(work), "ours": ours.call("versions"), "reference": reference.call("versions")}
        for side in (ours, reference):
            side.call("load", scene=str(scene), count=sizes.frames)
        rows = _measure(Bench(ours, reference, sizes, work), options.only)
    finally:
        ours.stop()
        reference.stop()
        if not options.work:
            clean(work)
    _report(rows, facts, options, time.time() - begin)
    return int(not options.smoke and any(row.met is False for row in rows))


def _measure(bench: Bench, only: list[str] | None) -> list[Row]:
    rows: list[Row] = []
    warm(bench)
    for name, measure in MEASURES.items():
        if only and name not in only:
            continue
        begin = time.time()
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        rows += measure(bench)
        print(f"{time.time() - begin:.0f} s", file=sys.stderr)
    return rows


def _report(rows: list[Row], facts: dict[str, Any], options: argparse.Namespace, seconds: float) -> None:
    mine, theirs = facts["ours"], facts["reference"]
    print(f"\n{json.dumps(facts['machine'])}")
    print(
        f"ours: rolltape {mine['rolltape']}, PyAV {mine['av']}, libavcodec {mine['libavcodec']}, "
        f"SVT-AV1 {mine['svt_av1']}"
    )
    print(
        f"reference: lerobot {theirs['lerobot']}, PyAV {theirs['av']}, libavcodec {theirs['libavcodec']}, "
        f"SVT-AV1 {theirs['svt_av1']}, torchcodec {theirs['torchcodec']}"
    )
    print(f"encoder settings of both: libsvtav1, yuv420p, g=2, crf 30, preset 12; {seconds:.0f} s in all\n")
    print(table(rows))
    stamp = time.strftime("%Y-%m-%d")
    out = Path(options.out) if options.out else RESULTS / f"{'smoke-' if options.smoke else ''}{stamp}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "date": stamp,
        "smoke": options.smoke,
        "seconds": round(seconds),
        **facts,
        "rows": [row.to_json() for row in rows],
    }
    out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(f"\nwritten to {out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="rolltape and lerobot side by side")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does everything run")
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), help="some of the measures")
    parser.add_argument("--reference", default=os.environ.get("ROLLTAPE_ORACLE_PYTHON"), help="lerobot's interpreter")
    parser.add_argument("--work", help="folder for datasets, kept afterwards (default: a temporary one)")
    parser.add_argument("--out", help="JSON file (default: benchmarks/results/<date>.json)")
    options = parser.parse_args()
    if not options.reference:
        parser.error("name lerobot's interpreter: --reference or ROLLTAPE_ORACLE_PYTHON (`make bench` sets it)")
    return options


if __name__ == "__main__":
    sys.exit(main())
