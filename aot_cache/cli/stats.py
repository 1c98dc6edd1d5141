"""Totals: entries, bytes, hits and the time saved, of graphs and of frames, by kind and by torch version.

Frames save the time of tracing; that of compiling counts with their graphs.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import report
from .entries import FRAME, GRAPH, KERNEL, Stored, all_of, reading, resolve

HELP = "totals over the whole cache"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    store = reading(settings)
    found = all_of(store, GRAPH, FRAME)
    sizes = [entry.size for entry in store.entries()]
    kernels = [entry.size for entry in store.entries(KERNEL)]
    made = [one.manifest.created for one in found if one.manifest]
    totals = {
        "directory": str(settings.directory),
        "entries": len(sizes),
        "bytes": sum(sizes),
        "limit": settings.size_limit,
        "graphs": _total(one for one in found if not one.is_frame),
        "frames": _total(one for one in found if one.is_frame),
        "kernels": {"count": len(kernels), "bytes": sum(kernels)},
        "damaged": sum(one.problem is not None for one in found),
        "oldest": min(made, default=None),
        "newest": max(made, default=None),
        "kind": _by(found, lambda one: one.manifest.kind),
        "torch": _by(found, lambda one: one.manifest.facts.get("torch", "unknown")),
    }
    if arguments.json:
        report.as_json(totals)
    else:
        report.facts(_rows(totals))
    return 0


def _total(found: Iterable[Stored]) -> dict[str, Any]:
    found = list(found)
    return {
        "count": len(found),
        "bytes": sum(one.entry.size for one in found),
        "hits": sum(one.entry.hits for one in found),
        "saved": sum(one.saved for one in found),
    }


def _by(found: Iterable[Stored], group: Callable[[Stored], str]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Stored]] = defaultdict(list)
    for one in found:
        if one.manifest:
            groups[group(one)].append(one)
    return {name: _total(groups[name]) for name in sorted(groups)}


_KINDS: dict[str, report.Kind] = {
    "bytes": "size",
    "limit": "size",
    "saved": "seconds",
    "oldest": "time",
    "newest": "time",
}


def _rows(totals: dict[str, Any], prefix: str = "") -> Iterator[report.Fact]:
    """The same totals, flat: `kind.training.hits`."""
    for name, value in totals.items():
        if isinstance(value, dict):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value, _KINDS.get(name, "text")
