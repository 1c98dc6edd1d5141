"""What every benchmark needs to report: medians, ratios, a Markdown table, and the facts of the machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def spread(values: Sequence[float]) -> str:
    """`median (min-max, n)`, in the unit of the values."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f}, n={len(values)})"


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The ratio of the medians."""
    return statistics.median(above) / statistics.median(below)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "aot_cache": importlib.metadata.version("aot_cache"),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
