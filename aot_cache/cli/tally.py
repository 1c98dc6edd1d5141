"""Adds up what the processes of a command reported (see hook/report.py), with what the store says of those graphs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..artifact import archive
from ..errors import EnvelopeError
from ..store.readonly import ReadonlyStore
from .entries import GRAPH, load

_NAMES = {"bypass": "bypassed", "refused": "refused", "failed": "failed"}
_WHY = ("reason", "detail", "remedy")


@dataclass
class Share:
    """Graphs that ended alike. bytes: of their entries and kernels. seconds: that compiling them took."""

    count: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class Tally:
    """processes: how many had the cache. keys: what was hit or compiled, as names of graphs without the variant.

    hit.seconds is what the hits saved.
    """

    processes: int = 0
    hit: Share = field(default_factory=Share)
    compiled: Share = field(default_factory=Share)
    others: dict[str, Counter[tuple[str, ...]]] = field(default_factory=lambda: {n: Counter() for n in _NAMES.values()})
    keys: set[str] = field(default_factory=set)

    def count(self, what: str) -> int:
        """How many were `bypassed`, `refused` or `failed`."""
        return sum(self.others[what].values())

    def reasons(self, what: str) -> Iterator[tuple[str, int]]:
        """Each reason as a sentence with its detail and remedy, most frequent first."""
        for (reason, detail, remedy), count in self.others[what].most_common():
            text = f"{reason}: {detail}" if detail else reason
            yield f"{text} ({remedy})" if remedy else text, count

    def to_json(self) -> dict[str, Any]:
        shares = {
            what: {"count": share.count, "bytes": share.bytes, "seconds": share.seconds}
            for what, share in (("hit", self.hit), ("compiled", self.compiled))
        }
        others = {
            what: [{**dict(zip(_WHY, why)), "count": count} for why, count in found.most_common()]
            for what, found in self.others.items()
        }
        return {"processes": self.processes, **shares, **others}


def tally(path: Path, store: ReadonlyStore, since: float) -> Tally:
    """What is in the report at `path`; what it compiled was stored after `since`, in seconds since the epoch."""
    found, pids = Tally(), set()
    hit, missed = set(), set()
    for event in _events(path):
        pids.add(str(event.get("pid")))
        what, key = str(event.get("outcome")), str(event.get("key"))
        if what in _NAMES:
            found.others[_NAMES[what]][tuple(str(event.get(name) or "") for name in _WHY)] += 1
        elif what in ("hit", "miss") and event.get("kind") == "graph" and key.startswith(GRAPH):
            share, keys = (found.hit, hit) if what == "hit" else (found.compiled, missed)
            keys.add(key)
            share.count += 1
            share.seconds += _number(event.get("saved"))
    found.processes, found.keys = len(pids), hit | missed
    found.hit.bytes, _ = _stored(store, hit, 0.0)
    found.compiled.bytes, found.compiled.seconds = _stored(store, missed, since)
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
    """Bytes that the entries of `keys` made after `since` take with their kernels; seconds that compiling them took."""
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


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
