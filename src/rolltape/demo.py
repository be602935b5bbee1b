"""The whole way in one go: record in simulation, check, open as training batches, draw a contact sheet.

`python -m rolltape.demo` needs the core and `rolltape[sim]`, no screen and no torch. A second run replaces what the
first one made.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import rolltape
import rolltape.check
import rolltape.record
import rolltape.report
from rolltape.errors import DatasetExistsError, RecordError, RolltapeError

__all__ = ["main", "make_demo"]

_MARK = "made-by-rolltape-demo.txt"
_TASK = "Lift the cube"


def make_demo(out: Path, episodes: int = 5) -> None:
    """Record a dataset, check it, open it, draw it, and say where everything is.

    What an earlier demo made in the folder is taken away first.

    Args:
        out: The folder to make.
        episodes: How many episodes to record.

    Raises:
        DatasetExistsError: The folder holds something that no demo made.
        RecordError: A step did not give what it should.
    """
    began = time.perf_counter()
    dataset, sheet = out / "dataset", out / "contact-sheet.png"
    _make_room(out, dataset, sheet)
    _record(dataset, episodes)
    _check(dataset)
    _open(dataset)
    _say("4. Drawing a contact sheet")
    rolltape.report.contact_sheet(dataset, sheet, title="rolltape demo: lift the cube")
    print(f"   {sheet}")
    _say(f"Done in {time.perf_counter() - began:.0f} s. Where everything is:")
    print(f"   {dataset}/  the dataset, LeRobotDataset v3.0")
    print(f"   {sheet}  what is in it, as a picture")
    print("   (the browser viewer is not part of this version yet)")
    print(f"\nNext: rolltape info {dataset}, or in Python: rolltape.open({str(dataset)!r})")


def _make_room(out: Path, *made: Path) -> None:
    """Make the folder, and take away what an earlier demo left in it; nothing else is touched."""
    mark = out / _MARK
    if any(path.exists() for path in made) and not mark.is_file():
        raise DatasetExistsError("The folder holds something that no demo made.", where=out, fix="Name another folder.")
    out.mkdir(parents=True, exist_ok=True)
    mark.write_text("`python -m rolltape.demo` made the dataset and the contact sheet here, and replaces them.\n")
    for path in made:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _record(root: Path, episodes: int) -> None:
    _say(f"1. Recording {episodes} episodes: a scripted arm lifts a cube (MuJoCo, no screen)")
    from rolltape.record import DatasetConfig, Ended, Event, RecordConfig, RobotConfig, StatusLine

    dataset = DatasetConfig(repo_id="me/demo", single_task=_TASK, root=root, num_episodes=episodes)
    line = StatusLine(sys.stdout, indent="   ")

    def show(event: Event) -> None:
        if not isinstance(event, Ended):
            line(event)

    summary = rolltape.record.record(RecordConfig(RobotConfig(), dataset=dataset), on_event=show)
    if not summary.ok:
        found = "; ".join(summary.problems) or "too few episodes"
        raise RecordError("The recording is not whole.", where=root, found=found)
    done = f"{summary.successes} of {len(summary.episodes)} successful"
    print(f"   {done}; {summary.frames} frames in {summary.seconds:.1f} s")


def _check(root: Path) -> None:
    _say("2. Checking it")
    report = rolltape.check.run(root)
    print("\n".join(f"   {line}" for line in report.text().splitlines()))
    if not report.ok:
        raise RecordError("The check found faults.", where=root)


def _open(root: Path) -> None:
    _say("3. Opening it for training")
    dataset = rolltape.open(root)
    step = 1 / dataset.fps
    windows = {
        "action": [k * step for k in range(16)],
        "observation.state": [-step, 0.0],
        "observation.images.front": [-step, 0.0],
    }
    indices = np.random.default_rng(0).integers(0, len(dataset), size=8)
    print(f"   rolltape.open({root.name!r}): {len(dataset)} frames at {dataset.fps} Hz; a batch of {len(indices)}:")
    _print_shapes(dataset.batch(indices))
    print("   and with windows (two frames back, sixteen actions ahead):")
    _print_shapes(rolltape.open(root, delta_timestamps=windows).batch(indices))


def _print_shapes(batch: Any) -> None:
    for name in batch:
        value = batch[name]
        if isinstance(value, np.ndarray):
            print(f"     {name:<32} {value.dtype!s:<8} {list(value.shape)}")
        else:
            print(f"     {name:<32} {type(value[0]).__name__:<8} [{len(value)}]  {value[0]!r}, ...")


def _say(heading: str) -> None:
    print(f"\n{heading}", flush=True)


def main() -> int:
    """Run the demo from the command line and return the exit code."""
    from cyclopts import App

    def demo(out: Path = Path("outputs/demo"), *, episodes: int = 5) -> int:
        """Record in simulation, check, open, and draw a contact sheet.

        Args:
            out: The folder to make.
            episodes: How many episodes to record.
        """
        try:
            make_demo(out, episodes)
        except RolltapeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        return 0

    app = App(name="rolltape.demo", result_action="return_value")
    app.default(demo)
    code = app()
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
