"""What the last `aot-cache warm` used, kept in the store under a name of its own, so that `export` can pick it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..store.base import Store

_NAME = "r-last"


@dataclass(frozen=True)
class LastRun:
    """command: for people. ended: seconds since the epoch. used: entries, by name or by key."""

    command: str
    ended: float
    used: frozenset[str]

    def has(self, name: str) -> bool:
        """Whether the entry called `name` was used."""
        return name in self.used or name.partition(".")[0] in self.used


def write(store: Store, command: str, ended: float, used: Iterable[str]) -> None:
    """Put this run in place of the one before. Raises StoreError."""
    text = json.dumps({"command": command, "ended": ended, "used": sorted(used)})
    store.put(_NAME, text.encode("utf-8", "backslashreplace"))


def read(store: Store) -> LastRun | None:
    """The last run; None if there is none, or what is there is not one. Raises StoreError."""
    try:
        found = json.loads(store.get(_NAME) or b"null")
        run = LastRun(str(found["command"]), float(found["ended"]), frozenset(map(str, found["used"])))
    except (ValueError, TypeError, KeyError):
        return None
    return run if math.isfinite(run.ended) else None
