"""What every store can do: four verbs on bytes. Pure: no torch."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

from ..errors import EntryTooLarge, StoreError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
# Eviction goes down to this share of the size limit, so that it runs once for many writes.
LOW_WATER = 0.9


@dataclass(frozen=True)
class Entry:
    """One stored value, without its bytes.

    name: what it was put under. size: bytes. used: seconds since the epoch of the last `get` or `put`.
    hits: number of `get`s since the last `put`.
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


def is_name(name: Any) -> bool:
    """Whether something may be put under `name`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_name(name: Any) -> None:
    """Raise StoreError unless `name` is one."""
    if not is_name(name):
        raise StoreError(f"{name!r} is not a name: 1 to 200 characters of A-Z a-z 0-9 . _ -")


def check_entry(name: Any, data: Any, size_limit: int | None) -> None:
    """Raise StoreError unless `data` may be put under `name`, EntryTooLarge if it exceeds `size_limit` bytes."""
    check_name(name)
    if type(data) is not bytes:
        raise StoreError(f"the value of {name} is {type(data).__name__}, not bytes")
    if size_limit is not None and len(data) > size_limit:
        raise EntryTooLarge(f"{name} has {len(data)} bytes, the whole cache may have {size_limit}")


def excess(others: int, size: int, size_limit: int) -> int:
    """Bytes of other values that have to go, out of `others`, before one of `size` comes in."""
    if others + size <= size_limit:
        return 0
    return others - max(0, int(size_limit * LOW_WATER) - size)


@contextmanager
def store_errors(doing: str, path: str | PathLike[str]) -> Iterator[None]:
    """Turn what the operating system or SQLite raises into a StoreError that says what failed, where and why."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {doing} {path}: {error.strerror or error}") from error
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot {doing} {path}: {error}") from error
    except sqlite3.Error as error:
        remedy = "`aot-cache verify --fix` starts it afresh"
        raise StoreError(f"cannot {doing} {path}: its index is damaged ({error}); {remedy}") from error
