"""Known entries, a cache to put them in, and what one run of the command line gave."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot_cache.artifact.envelope import Manifest, pack
from aot_cache.key.parts import KeyPart, digest
from aot_cache.store.disk import DiskStore

KEYS = ["aa" + "0" * 30, "ab" + "1" * 30, "cc" + "2" * 30]
TEXTS = {"text.joint": b"graph():\n    %x = placeholder\n", "text.forward": b"def forward(self, x):\n    return x\n"}


def entry(
    key: str, guards: str | None = None, *, kind: str = "training", torch: str = "2.13.0+cpu"
) -> tuple[str, bytes]:
    """A graph entry's name and bytes."""
    parts = (KeyPart.of("graph", key.encode(), {"nodes": "12"}), KeyPart.of("environment", b"e", {"torch": torch}))
    manifest = Manifest(
        key=key, parts=parts, name="Model.forward", kind=kind, guards=guards, created=1_700_000_000.0,
        seconds={"forward": 2.0, "backward": 3.0}, facts={"torch": torch, "python": "3.11.7"}, extra={},
    )  # fmt: skip
    name = f"g-{key}.{digest((guards or '').encode())[:16]}"
    return name, pack(manifest, {"forward": b"f" * 1000, "backward": b"b" * 500, **TEXTS})


def damaged(data: bytes) -> bytes:
    """The same length, the last byte another: a section's digest does not agree."""
    return data[:-1] + bytes([data[-1] ^ 1])


@dataclass
class Cache:
    directory: Path

    def store(self) -> DiskStore:
        return DiskStore(self.directory, 10**9)

    def put(self, *entries: tuple[str, bytes]) -> None:
        store = self.store()
        for name, data in entries:
            store.put(name, data)

    def names(self) -> list[str]:
        return [found.name for found in self.store().entries()]

    def hits(self) -> dict[str, int]:
        return {found.name: found.hits for found in self.store().entries()}


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def facts(self) -> dict[str, str]:
        return {row[0]: row[1] for row in self.rows if len(row) == 2}

    @property
    def json(self) -> Any:
        return json.loads(self.out)
