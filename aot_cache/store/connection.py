"""One SQLite connection to the index for all threads of a process, opened when needed.

It is closed before a fork: SQLite may not be carried into a child, not even to be closed there.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Seconds to wait for another writer.
TIMEOUT = 10.0
NAME = "cache.db"
_ALL = (NAME, f"{NAME}-wal", f"{NAME}-shm", f"{NAME}-journal")


class Connection:
    """The index of one directory. Everything raises sqlite3.Error and OSError; without an index, nothing is found."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.path = directory / NAME
        self.lock = threading.RLock()
        self._writable = writable
        self._immutable = self._less = False
        self._open: tuple[sqlite3.Connection, int, Any] | None = None
        with _all_lock:
            _all.add(self)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self.lock:
            opened, self._open = self._open, None
            if opened and opened[1] == os.getpid():
                opened[0].close()
            elif opened:
                _never_closed.append(opened[0])

    def identity(self) -> tuple[int, ...] | None:
        """Which file the index is, None if there is none: another one after somebody removed the directory. Raises OSError."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            # SQLite would wait for ever to open a pipe.
            raise OSError(errno.EINVAL, f"{NAME} is not a regular file")
        # An immutable index is read without locks, so what is known of it ends with any change.
        changes = (found.st_size, found.st_mtime_ns) if self._immutable else ()
        return (found.st_dev, found.st_ino, *changes)

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection | None]:
        """The connection, for this thread alone; None if there is no index yet."""
        with self.lock:
            wanted = (os.getpid(), self.identity())
            if self._open and self._open[1:] != wanted:
                self.close()
            if self._open is None and wanted[1] is not None:
                opened = self._connect()
                self._open = (opened, os.getpid(), self.identity()) if opened else None
            yield self._open[0] if self._open else None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection | None]:
        """The same, in a transaction that writes."""
        with self.lock:
            self.retry()
        with self.use() as connection:
            if connection is None:
                yield None
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def select(self, statement: str, *arguments: Any) -> list[Any]:
        """All rows of the answer."""
        with self.use() as connection:
            return connection.execute(statement, arguments).fetchall() if connection else []

    def create(self) -> None:
        """Make an empty index with mode 0600, whatever the umask, unless there is one."""
        if not self.path.exists():
            # By SQLite: to close a descriptor of our own could drop the locks of another connection.
            with closing(sqlite3.connect(self.path)) as connection:
                connection.execute("PRAGMA schema_version")
            os.chmod(self.path, 0o600)

    def unlink(self) -> None:
        """Remove the index itself."""
        with self.lock:
            self.close()
            for name in _ALL:
                with suppress(FileNotFoundError):
                    os.unlink(self.path.with_name(name))

    def retry(self) -> None:
        """Before a write: forget a connection that can only read, since that may have changed."""
        if self._less:
            self.close()

    def _connect(self) -> sqlite3.Connection | None:
        self._immutable = False
        # SQLite wants a second file next to the index even to read; where nobody can make one, nobody writes.
        ways = ["mode=rw", "mode=ro", "immutable=1"] if self._writable else ["mode=ro", "immutable=1"]
        for way in ways:
            try:
                opened = self._opened(way)
            except sqlite3.OperationalError as error:
                if way == ways[-1] or "locked" in str(error):
                    raise
                continue
            self._less, self._immutable = way != ways[0], way == ways[-1]
            return opened
        return None

    def _opened(self, how: str) -> sqlite3.Connection | None:
        uri = f"file:{quote(os.fsencode(self.path))}?{how}"
        connection = sqlite3.connect(uri, uri=True, timeout=TIMEOUT, isolation_level=None, check_same_thread=False)
        connection.text_factory = _text
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = NORMAL")
            found = connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('Cache', 'Settings')"
            ).fetchone()
        except BaseException:
            connection.close()
            raise
        # Whoever creates the index may not be done, or may have died.
        if found != (2,):
            connection.close()
            return None
        return connection


def _text(data: bytes) -> str:
    # Text that is not UTF-8 is damage, which is reported by row instead of failing the whole query.
    return data.decode("utf-8", "surrogateescape")


_all: weakref.WeakSet[Connection] = weakref.WeakSet()
_all_lock = threading.Lock()
_never_closed: list[sqlite3.Connection] = []
_held: list[Connection] = []


def _before_fork() -> None:
    _all_lock.acquire()
    _held[:] = _all
    for connection in _held:
        connection.lock.acquire()
        connection.close()


def _after_fork() -> None:
    for connection in _held:
        connection.lock.release()
    _held.clear()
    _all_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
