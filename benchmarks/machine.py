"""What a figure depends on: processor, memory, file system, and the versions each side runs."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def machine(work: Path) -> dict[str, Any]:
    """Facts of the machine and of the folder that is written to."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "file_system": _file_system(work),
        "load_average": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Versions inside the calling interpreter: PyAV, the FFmpeg and SVT-AV1 it carries, and the data libraries."""
    import av

    found = {"python": platform.python_version(), "av": av.__version__}
    found.update({name: ".".join(map(str, version)) for name, version in av.library_versions.items()})
    found["svt_av1"] = _svt()
    for name in ("numpy", "pyarrow", "torch", "torchcodec", "lerobot", "datasets"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _svt() -> str:
    """SVT-AV1 prints its version only; the library file in PyAV's wheel carries it in its name or text."""
    import av

    pattern = re.compile(rb"SVT-AV1 (?:ENC )?(?:Encoder Lib )?v?(\d+\.\d+\.\d+[^\0\s]*)")
    home = Path(av.__file__).parent.parent
    for folder in (home / "av.libs", home / "av" / ".dylibs"):
        for library in sorted(folder.glob("*[Ss]vt[Aa]v1*")):
            named = re.search(r"\.so\.(\d+\.\d+\.\d+)", library.name)
            content = pattern.search(library.read_bytes())
            if content:
                return content.group(1).decode()
            return named.group(1) if named else library.name
    return "unknown"


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1) if found else platform.processor()


def _file_system(work: Path) -> str:
    try:
        mounts = [line.split()[:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return sys.platform
    holders = [(len(point), kind) for _, point, kind in mounts if work.resolve().is_relative_to(point)]
    return max(holders)[1]
