"""A cache key as named parts, each with its own digest, so that a miss can say what changed. Pure: no torch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

# Raise this whenever what is hashed, or how, changes: old entries then miss instead of hitting wrongly.
KEY_VERSION = 1


DEFAULT = " (default)"


def digest(data: bytes) -> str:
    """BLAKE2b of `data`, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True)
class KeyPart:
    """One named ingredient of a key.

    summary holds what a person compares when two parts differ: a flat dict of short strings. `name + DEFAULT` holds
    what `name` is where a summary does not mention it.
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
        summary = {str(name): str(value) for name, value in data["summary"].items()}
        return cls(
            str(data["name"]), str(data["digest"]), {name: summary[name] for name in sorted(summary, key=_natural)}
        )


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts numbers in a text as numbers: JSON keeps no order."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", text)]


@dataclass(frozen=True)
class CacheKey:
    """Named parts, in a fixed order, and the one digest over all of them."""

    parts: tuple[KeyPart, ...]

    @property
    def digest(self) -> str:
        lines = [f"key-version {KEY_VERSION}"] + [f"{part.name} {part.digest}" for part in self.parts]
        return digest("\n".join(lines).encode())


DIGEST = "digest"


@dataclass(frozen=True)
class Difference:
    """One value that is not the same in two keys; None stands for a value that is missing on that side."""

    part: str
    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        text = f"{self.part}.{self.name}: {self.old} -> {self.new}"
        return f"{text} (its summary does not show what differs)" if self.name == DIGEST else text


def diff(old: Iterable[KeyPart], new: Iterable[KeyPart]) -> list[Difference]:
    """What changed from `old` to `new`, part by part; a part whose digest alone differs is named with both digests."""
    olds, news = {p.name: p for p in old}, {p.name: p for p in new}
    found: list[Difference] = []
    for name in [*olds, *(n for n in news if n not in olds)]:
        before, after = olds.get(name), news.get(name)
        if before and after and before.digest == after.digest:
            continue
        a, b = (dict(p.summary) if p else {} for p in (before, after))
        changed = _changed(a, b)
        if changed:
            found += [Difference(name, value, *texts) for value, texts in changed.items()]
        else:
            found.append(Difference(name, DIGEST, before and before.digest, after and after.digest))
    return found


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The values that differ, by name; a default stands for a value that only one side mentions."""
    defaults = {name: text for name, text in [*old.items(), *new.items()] if name.endswith(DEFAULT)}
    found = {}
    for name in dict.fromkeys([*old, *new]):
        texts = tuple(side.get(name, defaults.get(name + DEFAULT)) for side in (old, new))
        if texts[0] != texts[1] and name not in defaults:
            found[name] = texts
    return found


class Keyed(Protocol):
    """What `nearest` reads of an entry: its key's parts, the name of what was compiled, and when (epoch seconds)."""

    @property
    def parts(self) -> tuple[KeyPart, ...]: ...
    @property
    def name(self) -> str: ...
    @property
    def created(self) -> float: ...


# The parts that hold what is compiled.
_CONTENT = {"graph", "frame"}
E = TypeVar("E", bound=Keyed)


def nearest(name: str, parts: Iterable[KeyPart], others: Iterable[E]) -> E | None:
    """The entry of another key that is most like `parts`; None if there are none.

    The same graph, or frame, counts most, then a frame's code, then the same name, then the number of equal parts, then
    how few values differ in the others, then the later one.
    """
    parts = tuple(parts)
    mine, code = {p.name: p.digest for p in parts}, code_of(parts)
    best: tuple[tuple[bool, bool, bool, int, int, float], E] | None = None
    for other in others:
        theirs = {p.name: p.digest for p in other.parts}
        if theirs == mine:
            continue
        equal = {part for part, digest in theirs.items() if mine.get(part) == digest}
        same_code = code is not None and code_of(other.parts) == code
        differing = len(diff(other.parts, parts))
        likeness = (bool(equal & _CONTENT), same_code, other.name == name, len(equal), -differing, other.created)
        if best is None or likeness > best[0]:
            best = likeness, other
    return best and best[1]


def code_of(parts: Iterable[KeyPart]) -> str | None:
    """The digest of a frame's code; None of a graph's parts."""
    return next((part.summary.get("code") for part in parts if part.name == "frame"), None)
