"""Totals: entries, bytes, hits and the time saved, of graphs and of frames, by kind and by torch version.

Frames save the time of tracing; that of compiling counts with their graphs.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import report
from .entries import FRAME, GRAPH, JOINT, KERNEL, Stored, all_of, reading, resolve

HELP = "totals over the whole cache"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    store = reading(settings)
    found = all_of(store, GRAPH, FRAME)
    sizes = [entry.size for entry in store.entries()]
    kernels, joints = ([entry.size for entry in store.entries(prefix)] for prefix in (KERNEL, JOINT))
    made = [one.manifest.created for one in found if one.manifest]
    totals = {
        "directory": str(settings.directory),
        "entries": len(sizes),
        "bytes": sum(sizes),
        "limit": settings.size_limit,
        "graphs": _total(one for one in found if not one.is_frame),
        "frames": _total(one for one in found if one.is_frame),
        "kernels": {"count": len(kernels), "bytes": sum(kernels)},
        "joints": {"count": len(joints), "bytes": sum(joints)},
        "damaged": sum(one.problem is not None for one in found),
        "oldest": min(made, default=None),
        "newest": max(made, default=None),
        "kind": _by(found, lambda one: one.manifest.kind),
        "torch": _by(found, lambda one: one.manifest.facts.get("torch", "unknown")),
    }
    if arguments.json:
        report.as_json(totals)
    elif report.on_terminal():
        report.facts(_summary(totals))
        report.say("")
        report.table(_COLUMNS, list(_shares(totals)))
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


_COLUMNS: tuple[tuple[str, report.Kind], ...] = (
    ("", "text"),
    ("count", "count"),
    ("size", "size"),
    ("hits", "count"),
    ("time saved", "seconds"),
)


def _summary(totals: dict[str, Any]) -> Iterator[report.Fact]:
    size, limit = report.human_size(totals["bytes"]), report.human_size(totals["limit"])
    yield "directory", totals["directory"], "text"
    yield "in use", f"{size} of {limit}, {totals['entries']} {'entry' if totals['entries'] == 1 else 'entries'}", "text"
    if totals["damaged"]:
        yield "damaged", totals["damaged"], "count"
    if len(totals["torch"]) == 1:
        yield "torch", next(iter(totals["torch"])), "text"
    if totals["oldest"] is not None:
        yield "oldest", totals["oldest"], "time"
        yield "newest", totals["newest"], "time"


def _shares(totals: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Graphs, frames and kernels; kinds of graphs and versions of torch only where there are several."""
    yield _share("graphs", totals["graphs"])
    kinds = {name: total for name, total in totals["kind"].items() if name != "frame"}
    if len(kinds) > 1:
        yield from (_share(f"  {name}", total) for name, total in kinds.items())
    yield _share("frames", totals["frames"])
    yield _share("kernels", totals["kernels"])
    if totals["joints"]["count"]:
        yield _share("joint graphs", totals["joints"])
    if len(totals["torch"]) > 1:
        yield from (_share(f"torch {name}", total) for name, total in totals["torch"].items())


def _share(title: str, total: dict[str, Any]) -> tuple[Any, ...]:
    return title, total["count"], total["bytes"], total.get("hits"), total.get("saved")
