"""How one object looks to an identity: a kind, readable facts, and named edges to other objects."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import AotCacheError


class Unidentified(AotCacheError):
    """Something has no portable identity.

    reason: what it is. path: where it was reached from, "" for the object asked about. remedy: what to do, or "".
    """

    def __init__(self, reason: str, path: str = "", remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason, self.path, self.remedy = reason, path, remedy


@dataclass(frozen=True)
class Edge:
    """`value` was reached as the `kind` (global, closure, default, member, ...) called `name`."""

    kind: str
    name: str
    value: object

    @property
    def label(self) -> str:
        return f"{self.kind}: {self.name}" if self.name else self.kind


@dataclass
class Node:
    kind: str
    facts: dict[str, str] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    title: str = ""

    @property
    def name(self) -> str:
        """For messages only."""
        name = self.title or ".".join(self.facts[part] for part in ("module", "qualname") if part in self.facts)
        return name or self.kind


@dataclass(frozen=True)
class Named:
    """Stands in an edge for something that its text identifies completely."""

    text: str


FOLLOW = "name what it uses directly, so that it can be followed"


def portable_module(name: object) -> str:
    """A module's name; the script that was started has one name, also in the workers of multiprocessing."""
    return "__main__" if name == "__mp_main__" else str(name)


def type_name(cls: type) -> str:
    """`module.qualname` for messages, whatever the metaclass does."""
    return f"{cls.__module__}.{cls.__qualname__}"
