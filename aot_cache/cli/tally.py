"""Adds up what the processes of a command reported (see hook/report.py), with what the store says of their entries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..artifact import archive, frame_view
from ..errors import EnvelopeError
from ..store.readonly import ReadonlyStore
from .entries import FRAME, GRAPH, Stored, load

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
    """How all graphs, or all frames, ended. prefix: of their names. hit.seconds is what the hits saved.

    hits, misses: their keys. entries: names of what was hit, where the report says them, else the keys.
    """

    prefix: str
    names: Mapping[str, str]
    hit: Share = field(default_factory=Share)
    compiled: Share = field(default_factory=Share)
    others: dict[str, Counter[tuple[str, ...]]] = field(default_factory=dict)
    hits: set[str] = field(default_factory=set)
    misses: set[str] = field(default_factory=set)
    entries: set[str] = field(default_factory=set)

    def add(self, event: Mapping[str, Any]) -> None:
        what, key = str(event.get("outcome")), str(event.get("key"))
        if what in self.names:
            why = tuple(str(event.get(name) or "") for name in _WHY)
            self.others.setdefault(self.names[what], Counter())[why] += 1
        if what in ("hit", "miss") and key.startswith(self.prefix):
            share, keys = (self.hit, self.hits) if what == "hit" else (self.compiled, self.misses)
            keys.add(key)
            if what == "hit":
                self.entries.add(str(event.get("entry") or key))
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
    """processes: how many had the cache. used: what was hit or compiled, as names of entries; as keys, where they miss.

    A frame that hits is a hit of each of its graphs, too.
    """

    processes: int = 0
    graphs: Ends = field(default_factory=lambda: Ends(GRAPH, GRAPH_ENDS))
    frames: Ends = field(default_factory=lambda: Ends(FRAME, FRAME_ENDS))
    used: set[str] = field(default_factory=set)

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
        ends.hit.bytes, _, _ = _stored(store, ends.entries, 0.0)
        ends.compiled.bytes, ends.compiled.seconds, made = _stored(store, ends.misses, since)
        # What was compiled and not stored may have been stored by another process.
        found.used |= ends.entries | made | {key for key in ends.misses if not any(_is_of(name, key) for name in made)}
    found.used |= _graphs_of(store, {name for name in found.used if name.startswith(FRAME)})
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


def _is_of(name: str, wanted: str) -> bool:
    """Whether an entry called `name` is the one that is wanted, or one of the key that is."""
    return wanted in (name, name.partition(".")[0])


def _entries(store: ReadonlyStore, wanted: Iterable[str]) -> Iterator[Stored]:
    """The entries of these names or keys that can be read."""
    for one in sorted(wanted):
        for entry in store.entries(one):
            loaded = load(store, entry) if _is_of(entry.name, one) else None
            if loaded and loaded[0].manifest:
                yield loaded[0]


def _stored(store: ReadonlyStore, wanted: Iterable[str], since: float) -> tuple[int, float, set[str]]:
    """Of the entries of these names or keys made after `since`: bytes with kernels, seconds that making took, names."""
    size, seconds, names, kernels = 0, 0.0, set(), set()
    for one in _entries(store, wanted):
        if one.manifest is None or one.manifest.created < since or one.entry.name in names:
            continue
        names.add(one.entry.name)
        size += one.entry.size
        seconds += sum(one.manifest.seconds.values())
        with suppress(EnvelopeError):
            kernels |= archive.kernels(one.entry.name, one.manifest)
    for kernel in sorted(kernels):
        size += sum(entry.size for entry in store.entries(kernel))
    return size, seconds, names


def _graphs_of(store: ReadonlyStore, frames: Iterable[str]) -> set[str]:
    """The names of these frames' graphs."""
    found: set[str] = set()
    for one in _entries(store, frames):
        if one.manifest:
            with suppress(EnvelopeError):
                found |= set(frame_view.graphs(one.manifest))
    return found


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
