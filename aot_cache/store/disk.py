"""The store on a local disk: small values in diskcache's SQLite table, large ones in files that its rows name.

cache.db        the index, and values below INLINE_BELOW bytes
values/ab/...   one file a value
locks/          see locks.py
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import StoreError, told
from . import values
from .base import Entry, check_entry, check_name, excess, store_errors
from .connection import TIMEOUT
from .locks import make_private, remove_idle_locks
from .table import FILE, INLINE, Row, Table
from .verify import Check, Problem, remove_orphans, verify

if TYPE_CHECKING:
    import diskcache

INLINE_BELOW = 32 * 1024
_SETTINGS = {
    "eviction_policy": "least-recently-used",
    # diskcache would evict the entry just written; this store evicts on its own.
    "cull_limit": 0,
    # A mapped file that shrinks kills the process that reads it.
    "sqlite_mmap_size": 0,
    "sqlite_cache_size": 1024,
}


class _Published(NamedTuple):
    """A value that is in its file already."""

    filename: str
    size: int


@functools.cache
def _diskcache() -> tuple[Any, type]:
    # Imported when a value is first written: it takes longer than a warm start's look-ups.
    import diskcache

    class BytesDisk(diskcache.Disk):
        """Takes str keys and bytes values, and never unpickles (CVE-2025-69872)."""

        def put(self, key: Any) -> tuple[str, bool]:
            check_name(key)
            return key, True

        def get(self, key: Any, raw: Any) -> str:
            check_name(key if raw else None)
            return key

        def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, str | None, bytes | None]:
            if isinstance(value, _Published):
                return value.size, FILE, value.filename, None
            check_entry(key, value, None)
            return len(value), INLINE, None, value

        def fetch(self, mode: Any, filename: Any, value: Any, read: bool) -> bytes:
            raise StoreError("values are read by the store itself")

        def remove(self, file_path: Any) -> None:
            values.remove(Path(self._directory), file_path)

    return diskcache, BytesDisk


class DiskStore:
    """Entries in `directory`, at most `size_limit` bytes of values: then those go that were not used for longest."""

    def __init__(self, directory: str | os.PathLike[str], size_limit: int) -> None:
        self.directory = Path(directory)
        self.size_limit = size_limit
        self._table = Table(self.directory, writable=True)
        self._cache: diskcache.Cache | None = None
        self._cache_of: tuple[int, ...] | None = None

    def get(self, name: str) -> bytes | None:
        check_name(name)
        with self._errors(f"read {name} in"):
            data = self._table.load(name)
            if data is not None:
                self._table.touch(name, time.time())
            return data

    def put(self, name: str, data: bytes) -> None:
        check_entry(name, data, self.size_limit)
        with self._errors(f"write {name} to"):
            make_private(self.directory)
            self._make_room(name, len(data))
            if len(data) < INLINE_BELOW:
                self._write_row(name, data)
                return
            with values.published(self.directory, data) as filename:
                try:
                    self._write_row(name, _Published(filename, len(data)))
                except BaseException:
                    # A row may have been written all the same; then its file has to stay.
                    if not self._table.named([filename]):
                        values.remove(self.directory, filename)
                    raise

    def delete(self, name: str) -> bool:
        check_name(name)
        with self._errors(f"delete {name} in"):
            return bool(self._table.remove(self._table.find(name)))

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        with self._errors("list"):
            yield from self._table.entries(prefix)

    def volume(self) -> int:
        """Bytes of all values. Raises StoreError."""
        with self._errors("measure"):
            return self._table.volume()

    def verify(self, check: Check | None = None, fix: bool = False) -> list[Problem]:
        """Everything that is wrong, found by reading all of it; with `fix`, exactly that is removed.

        check: gets each name and value, returns what is wrong with them or None. Raises StoreError.
        """
        with self._errors("verify"):
            return verify(self._table, check, fix)

    def prune(
        self, size_limit: int | None = None, older_than: float | None = None, dry_run: bool = False
    ) -> tuple[int, int]:
        """Remove what was not used for `older_than` seconds, and the least recently used beyond `size_limit` bytes.

        Returns how many entries and bytes went, or with `dry_run` would go. Raises StoreError.
        """
        with self._errors("prune"):
            wanted = 0 if size_limit is None else self._table.volume() - size_limit
            before = 0.0 if older_than is None else time.time() - older_than
            removed = self._remove(self._table.oldest(wanted, before), dry_run)
            if not dry_run:
                remove_idle_locks(self.directory)
            return removed

    def clear(self, dry_run: bool = False) -> tuple[int, int]:
        """Remove everything that nobody is writing just now; returns entries and bytes as `prune` does."""
        with self._errors("clear"):
            removed = self._remove(list(self._table.rows()), dry_run)
            if not dry_run:
                remove_orphans(self._table)
                remove_idle_locks(self.directory)
            return removed

    def close(self) -> None:
        """Close the index; the next use opens it again."""
        self._table.connection.close()

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        with store_errors(doing, self.directory):
            yield

    def _write_row(self, name: str, value: bytes | _Published) -> None:
        diskcache, _ = _diskcache()
        with self._table.connection.lock:
            try:
                cache = self._opened()
                try:
                    cache.set(name, value)
                finally:
                    # diskcache's own connection may not outlive a fork either.
                    cache.close()
            except diskcache.Timeout:
                why = f"the index was locked for {TIMEOUT:.0f} s, or cannot be written"
                raise StoreError(f"cannot write {name} to {self.directory}: {why}") from None
            except (KeyError, ValueError, TypeError, AssertionError) as error:
                why = f"its index is damaged ({told(error)}); remove the directory"
                raise StoreError(f"cannot write {name} to {self.directory}: {why}") from error

    def _opened(self) -> diskcache.Cache:
        connection = self._table.connection
        connection.retry()
        if self._cache is None or connection.identity() != self._cache_of:
            diskcache, disk = _diskcache()
            text = str(self.directory)
            if os.path.expandvars(os.path.expanduser(text)) != text:
                raise StoreError(f"cannot use {text}: diskcache would replace '~' and '$' in the path")
            connection.create()
            with connection.transaction():
                # diskcache would wait a minute for an index that somebody keeps locked; this waits TIMEOUT.
                pass
            self._cache = diskcache.Cache(text, timeout=TIMEOUT, disk=disk, **_SETTINGS)
            self._cache_of = connection.identity()
        return self._cache

    def _make_room(self, name: str, size: int) -> None:
        # Before the write, so that trouble with it leaves the old value, and so that the new one is not in question.
        others = self._table.volume() - sum(row.bytes for row in self._table.find(name))
        if (wanted := excess(others, size, self.size_limit)) > 0:
            self._table.remove(self._table.oldest(wanted, keep=name))

    def _remove(self, rows: list[Row], dry_run: bool) -> tuple[int, int]:
        gone = rows if dry_run else self._table.remove(rows)
        return len(gone), sum(row.bytes for row in gone)
