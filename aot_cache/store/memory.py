"""A store in this process's memory, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from .base import Entry, check_entry, check_name, excess


class MemoryStore:
    """Values in a dict, least recently used first. size_limit: bytes that all values may take, or None."""

    def __init__(self, size_limit: int | None = None) -> None:
        self.size_limit = size_limit
        self._lock = threading.Lock()
        self._values: dict[str, tuple[Entry, bytes]] = {}

    def get(self, name: str) -> bytes | None:
        check_name(name)
        with self._lock:
            found = self._values.pop(name, None)
            if found is None:
                return None
            entry, data = found
            self._values[name] = (replace(entry, used=time.time(), hits=entry.hits + 1), data)
            return data

    def put(self, name: str, data: bytes) -> None:
        check_entry(name, data, self.size_limit)
        with self._lock:
            self._values.pop(name, None)
            self._make_room(len(data))
            self._values[name] = (Entry(name, len(data), time.time(), 0), data)

    def delete(self, name: str) -> bool:
        check_name(name)
        with self._lock:
            return self._values.pop(name, None) is not None

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        with self._lock:
            found = [entry for entry, _ in self._values.values() if entry.name.startswith(prefix)]
        return iter(sorted(found, key=lambda entry: entry.name))

    def volume(self) -> int:
        """Bytes of all values."""
        with self._lock:
            return sum(entry.size for entry, _ in self._values.values())

    def _make_room(self, size: int) -> None:
        if self.size_limit is None:
            return
        left = excess(sum(entry.size for entry, _ in self._values.values()), size, self.size_limit)
        while left > 0:
            entry, _ = self._values.pop(next(iter(self._values)))
            left -= entry.size
