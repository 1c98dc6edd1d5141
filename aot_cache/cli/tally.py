"""Adds up what the processes of a command reported (see hook/report.py), with what the store says of their entries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..artifact import archive, frame_view
from ..errors import EnvelopeError
from ..store.readonly import ReadonlyStore
from .entries import FRAME, GRAPH, load

# What became of a graph; why a graph missed is for `explain` to say. A frame's miss names what changed.
GRAPH_ENDS = {"bypass": "bypassed", "refused": "refused", "failed": "failed"}
FRAME_ENDS = {"miss": "missed", **GRAPH_ENDS}
_WHY = ("reason", "detail", "remedy")


@dataclass
class Share:
    """Graphs, or frames, that ended alike. bytes: of their entries, and of graphs' kernels.

    seconds: that compiling the graphs, or tracing the frames, took.
    """

    count: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class Ends:
    """How all graphs, or all frames, ended. prefix: of their names. hit.seconds is what the hits saved."""

    prefix: str
    names: Mapping[str, str]
    hit: Share = field(default_factory=Share)
    compiled: Share = field(default_factory=Share)
    others: dict[str, Counter[tuple[str, ...]]] = field(default_factory=dict)
    hits: set[str] = field(default_factory=set)
    misses: set[str] = field(default_factory=set)

    def add(self, event: Mapping[str, Any]) -> None:
        what, key = str(event.get("outcome")), str(event.get("key"))
        if what in self.names:
            why = tuple(str(event.get(name) or "") for name in _WHY)
            self.others.setdefault(self.names[what], Counter())[why] += 1
        if what in ("hit", "miss") and key.startswith(self.prefix):
            share, keys = (self.hit, self.hits) if what == "hit" else (self.compiled, self.misses)
            keys.add(key)
            share.count += 1
            share.seconds += _number(event.get("saved"))

    def count(self, what: str) -> int:
        """How many were `missed`, `bypassed`, `refused` or `failed`."""
        return sum(self.others.get(what, Counter()).values())

    def reasons(self, what: str) -> Iterator[tuple[str, int]]:
        """Each reason as a sentence with its detail and remedy, most frequent first."""
        for (reason, detail, remedy), count in self.others.get(what, Counter()).most_common():
            text = f"{reason}: {detail}" if detail else reason
            yield f"{text} ({remedy})" if remedy else text, count

    def to_json(self) -> dict[str, Any]:
        shares = {
            what: {"count": share.count, "bytes": share.bytes, "seconds": share.seconds}
            for what, share in (("hit", self.hit), ("compiled", self.compiled))
        }
        counted = {what: self.others.get(what, Counter()).most_common() for what in self.names.values()}
        others = {what: [{**dict(zip(_WHY, why)), "count": n} for why, n in found] for what, found in counted.items()}
        return {**shares, **others}


@dataclass
class Tally:
    """processes: how many had the cache. keys: what was hit or compiled, as names of entries without the variant.

    A frame that hits is a hit of each of its graphs, too.
    """

    processes: int = 0
    graphs: Ends = field(default_factory=lambda: Ends(GRAPH, GRAPH_ENDS))
    frames: Ends = field(default_factory=lambda: Ends(FRAME, FRAME_ENDS))
    keys: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        return {"processes": self.processes, **self.graphs.to_json(), "frames": self.frames.to_json()}


def tally(path: Path, store: ReadonlyStore, since: float) -> Tally:
    """What is in the report at `path`; what it compiled was stored after `since`, in seconds since the epoch."""
    found, pids = Tally(), set()
    for event in _events(path):
        pids.add(str(event.get("pid")))
        (found.frames if event.get("kind") == "frame" else found.graphs).add(event)
    found.processes = len(pids)
    for ends in (found.graphs, found.frames):
        ends.hit.bytes, _ = _stored(store, ends.hits, 0.0)
        ends.compiled.bytes, ends.compiled.seconds = _stored(store, ends.misses, since)
        found.keys |= ends.hits | ends.misses
    found.keys |= _graphs_of(store, found.frames.hits | found.frames.misses)
    return found


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    """Whole lines; one that a process could not finish, because the disk was full, is left out."""
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _stored(store: ReadonlyStore, keys: Iterable[str], since: float) -> tuple[int, float]:
    """Bytes that the entries of `keys` made after `since` take with their kernels; seconds that making them took."""
    size, seconds, kernels = 0, 0.0, set()
    for key in sorted(keys):
        for entry in store.entries(f"{key}."):
            loaded = load(store, entry)
            if loaded is None or loaded[0].manifest is None or loaded[0].manifest.created < since:
                continue
            size += entry.size
            seconds += sum(loaded[0].manifest.seconds.values())
            try:
                kernels |= archive.kernels(entry.name, loaded[0].manifest)
            except EnvelopeError:
                continue
    for kernel in sorted(kernels):
        size += sum(entry.size for entry in store.entries(kernel))
    return size, seconds


def _graphs_of(store: ReadonlyStore, frames: Iterable[str]) -> set[str]:
    """The graphs of these frames, as names without the variant."""
    found = set()
    for key in sorted(frames):
        for entry in store.entries(f"{key}."):
            loaded = load(store, entry)
            if loaded and loaded[0].manifest:
                try:
                    found |= {name.partition(".")[0] for name in frame_view.graphs(loaded[0].manifest)}
                except EnvelopeError:
                    continue
    return found


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
