"""What every store can do: four verbs on bytes. Pure: no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """One stored value, without its bytes.

    name: what it was put under. size: bytes. used: seconds since the epoch of the last `get` or `put`. hits: number of `get`s.
    """

    name: str
    size: int
    used: float
    hits: int


class Store(Protocol):
    """Bytes by name. A name is 1 to 200 characters of `[A-Za-z0-9._-]`; a value is any bytes.

    A value is complete or absent, whatever dies meanwhile. Every verb may raise StoreError, and nothing else.
    """

    def get(self, name: str) -> bytes | None:
        """The value, or None; marks it as used."""

    def put(self, name: str, data: bytes) -> None:
        """Publish `data` under `name`, replacing what was there.

        Raises EntryTooLarge if it could never fit, StoreError if it cannot be written (then the old value stands).
        """

    def delete(self, name: str) -> bool:
        """Forget the value; whether there was one."""

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """The stored entries whose name starts with `prefix`, by name."""
