"""A cache key as named parts, each with its own digest, so that a miss can say what changed. Pure: no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Raise this whenever what is hashed, or how, changes: old entries then miss instead of hitting wrongly.
KEY_VERSION = 1


def digest(data: bytes) -> str:
    """BLAKE2b of `data`, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True)
class KeyPart:
    """One named ingredient of a key.

    summary holds what a person compares when two parts differ: a flat dict of short strings.
    """

    name: str
    digest: str
    summary: Mapping[str, str]

    @classmethod
    def of(cls, name: str, data: bytes, summary: Mapping[str, str]) -> KeyPart:
        return cls(name, digest(data), dict(summary))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "digest": self.digest, "summary": dict(self.summary)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeyPart:
        return cls(str(data["name"]), str(data["digest"]), {str(k): str(v) for k, v in data["summary"].items()})


@dataclass(frozen=True)
class CacheKey:
    """Named parts, in a fixed order, and the one digest over all of them."""

    parts: tuple[KeyPart, ...]

    @property
    def digest(self) -> str:
        lines = [f"key-version {KEY_VERSION}"] + [f"{part.name} {part.digest}" for part in self.parts]
        return digest("\n".join(lines).encode())


@dataclass(frozen=True)
class Difference:
    """One value that is not the same in two keys; None stands for a value that is missing on that side."""

    part: str
    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.part}.{self.name}: {self.old} -> {self.new}"


def diff(old: Iterable[KeyPart], new: Iterable[KeyPart]) -> list[Difference]:
    """What changed from `old` to `new`, part by part; a part whose digest alone differs is named with both digests."""
    olds, news = {p.name: p for p in old}, {p.name: p for p in new}
    found: list[Difference] = []
    for name in [*olds, *(n for n in news if n not in olds)]:
        before, after = olds.get(name), news.get(name)
        if before and after and before.digest == after.digest:
            continue
        a, b = (dict(p.summary) if p else {} for p in (before, after))
        changed = [k for k in [*a, *(k for k in b if k not in a)] if a.get(k) != b.get(k)]
        if changed:
            found += [Difference(name, k, a.get(k), b.get(k)) for k in changed]
        else:
            found.append(Difference(name, "digest", before and before.digest, after and after.digest))
    return found


def nearest(parts: Iterable[KeyPart], others: Mapping[str, Iterable[KeyPart]]) -> str | None:
    """The key in `others` that shares the most parts with `parts`, the graph counting most; None if there are none."""
    mine = {p.name: p.digest for p in parts}

    def likeness(theirs: Iterable[KeyPart]) -> tuple[int, int]:
        equal = {p.name for p in theirs if mine.get(p.name) == p.digest}
        return ("graph" in equal, len(equal))

    return max(others, key=lambda key: likeness(others[key]), default=None)
