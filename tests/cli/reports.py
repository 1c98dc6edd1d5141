"""Entries with known key parts, and what a process reports of its outcomes."""

from __future__ import annotations

from typing import Any

from aot_cache.artifact.envelope import Manifest, pack
from aot_cache.key.parts import DEFAULT, CacheKey, KeyPart, digest
from aot_cache.outcome import Hit, Miss, Outcome, Reason, to_json
from aot_cache.store import runs

from .sample import Cache

START = 1_700_000_000.0
Parts = tuple[KeyPart, ...]


def parts(graph: str = "g", inputs: str = "float32[4]", tuned: bool = False) -> Parts:
    settings = {"inductor.max_autotune": "True", f"inductor.max_autotune{DEFAULT}": "False"} if tuned else {}
    return (
        KeyPart.of("graph", graph.encode(), {"nodes": "3"}),
        KeyPart.of("inputs", inputs.encode(), {"0": inputs}),
        KeyPart.of("config", repr(settings).encode(), settings),
    )


def put(cache: Cache, of: Parts, at: float = 0.0, name: str = "f", guards: str | None = None, text: str = "") -> str:
    """Store an entry made `at` seconds after START; returns its key."""
    key = CacheKey(of).digest
    manifest = Manifest(
        key=key, parts=of, name=name, kind="training", guards=guards, created=START + at, seconds={}, facts={}, extra={}
    )
    cache.put((f"g-{key}.{digest((guards or '').encode())[:16]}", pack(manifest, {"text.joint": text.encode()})))
    return key


def report(cache: Cache, outcome: Outcome, at: float, of: Parts = (), pid: int = 7, name: str = "f") -> None:
    cache.directory.mkdir(mode=0o700, exist_ok=True)
    event = {"time": START + at, **to_json(outcome), "name": name, "program": "train.py"}
    event |= {"parts": [part.to_json() for part in of]}
    runs.append(cache.directory, START + pid, pid, event, isinstance(outcome, Hit))


def miss(cache: Cache, of: Parts, at: float, reason: Reason = Reason.ABSENT, **more: Any) -> str:
    key = CacheKey(of).digest
    report(cache, Miss("graph", f"g-{key}", 0.1, reason), at, of, **more)
    return key


def values(out: str, title: str) -> list[str]:
    return [line.partition("\t")[2] for line in out.splitlines() if line.partition("\t")[0] == title]
