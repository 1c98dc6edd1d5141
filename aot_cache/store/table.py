"""diskcache's table of rows, by SQL: everything but the write of a row, which is diskcache's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DamagedValue
from . import values
from .base import Entry, is_name
from .connection import TIMEOUT, Connection

# diskcache's modes for bytes in the row and bytes in a file. Every other mode is text or a pickle.
INLINE, FILE = 1, 2
FOREIGN = "a row that this program did not write"
# Milliseconds that marking an entry as used may wait for another writer.
_TOUCH_MS = 20
# Rows handled at a time.
BATCH = 500
_COLUMNS = "rowid, key, raw, store_time, access_time, access_count, size, mode, filename, typeof(value), length(value)"
ONE = f"SELECT {_COLUMNS}, value FROM Cache WHERE key = ? AND raw = 1"
# Every character of a name sorts before \x7f.
RANGE = f"SELECT {_COLUMNS} FROM Cache WHERE key >= ? AND key < ? || x'7f' ORDER BY key LIMIT {BATCH}"
BY_USE = f"SELECT {_COLUMNS} FROM Cache ORDER BY access_time"
_NEXT = f"SELECT {_COLUMNS} FROM Cache WHERE rowid > ? ORDER BY rowid LIMIT {BATCH}"


class Row(NamedTuple):
    """One row as it is; a damaged one may hold anything anywhere."""

    rowid: int
    key: Any
    raw: Any
    stored: Any
    used: Any
    hits: Any
    size: Any
    mode: Any
    filename: Any
    kind: str
    length: Any

    @property
    def bytes(self) -> int:
        """What the row says its value takes; 0 if it says nonsense."""
        return self.size if type(self.size) is int else 0


def fault(row: Row) -> str | None:
    """What is wrong with a row in itself; None if this program could have written it."""
    numbers = type(row.size) is int and type(row.hits) is int and isinstance(row.used, (int, float))
    if row.raw != 1 or not is_name(row.key) or not numbers:
        return FOREIGN
    if row.mode == INLINE and row.kind == "blob" and row.filename is None:
        return None if row.length == row.size else f"its row holds {row.length} bytes instead of {row.size}"
    if row.mode == FILE and row.kind == "null" and values.is_filename(row.filename):
        return None
    return FOREIGN


class Table:
    """The rows of one directory and the files they name. Methods raise sqlite3.Error and OSError."""

    def __init__(self, directory: Path, writable: bool) -> None:
        self.directory = directory
        self.connection = Connection(directory, writable)
        self.select = self.connection.select

    def find(self, name: str) -> list[Row]:
        """The row of `name`, if there is one."""
        return [Row(*columns[:-1]) for columns in self.select(ONE, name)]

    def load(self, name: str) -> bytes | None:
        """The value of `name`, None if there is none; DamagedValue if it is damaged, before anything is made of it."""
        previous = None
        while found := self.select(ONE, name):
            *columns, value = found[0]
            row = Row(*columns)
            if problem := fault(row):
                raise DamagedValue(f"{name} in {self.directory} is damaged: {problem}")
            if row.mode == INLINE:
                return value
            data = values.read(self.directory, row.filename, row.size)
            # Without its file, the entry was replaced or evicted meanwhile, unless the row still says the same.
            if data is not None or row.filename == previous:
                return data
            previous = row.filename
        return None

    def value(self, row: Row) -> bytes | None:
        """The bytes of a row without fault; None if it was replaced or removed meanwhile."""
        if row.mode == FILE:
            return values.read(self.directory, row.filename, row.size)
        statement = "SELECT value FROM Cache WHERE rowid = ? AND store_time IS ?"
        return next((value for (value,) in self.select(statement, row.rowid, row.stored)), None)

    def touch(self, name: str, now: float) -> None:
        """Mark `name` as used, unless that has to wait or cannot be written."""
        with self.connection.use() as connection, suppress(sqlite3.Error):
            if connection is None:
                return
            connection.execute(f"PRAGMA busy_timeout = {_TOUCH_MS}")
            try:
                connection.execute(
                    "UPDATE Cache SET access_time = ?, access_count = access_count + 1 WHERE key = ? AND raw = 1",
                    (now, name),
                )
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(TIMEOUT * 1000)}")

    def page(self, prefix: str, after: str) -> tuple[list[Entry], str | None]:
        """Some entries with this prefix, by name, from `after` on; and where the next ones start, if there are more."""
        rows = [Row(*columns) for columns in self.select(RANGE, max(prefix, after), prefix)]
        entries = [Entry(row.key, row.size, float(row.used), row.hits) for row in rows if fault(row) is None]
        # The least string that sorts after the last one.
        return entries, f"{rows[-1].key}\0" if len(rows) == BATCH else None

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Entries by name; those of rows that are not ours are left out."""
        after: str | None = prefix
        while after is not None:
            found, after = self.page(prefix, after)
            yield from found

    def rows(self) -> Iterator[Row]:
        """Every row, foreign ones included."""
        last = -(2**63)
        while found := self.select(_NEXT, last):
            yield from (Row(*columns) for columns in found)
            last = found[-1][0]

    def oldest(self, excess: int, before: float = 0.0, keep: str | None = None) -> list[Row]:
        """The least recently used rows that make up `excess` bytes or were last used `before` then; never `keep`."""
        chosen: list[Row] = []
        with self.connection.use() as connection:
            for columns in connection.execute(BY_USE) if connection else ():
                row = Row(*columns)
                if row.key == keep:
                    continue
                if excess <= 0 and not (isinstance(row.used, (int, float)) and row.used < before):
                    break
                excess -= row.bytes
                chosen.append(row)
        return chosen

    def volume(self) -> int:
        """Bytes of all values, as diskcache's triggers count them."""
        found = self.select("SELECT CAST(value AS INTEGER) FROM Settings WHERE key = 'size'")
        return found[0][0] or 0 if found else 0

    def same(self, row: Row) -> bool:
        """Whether the row still is what it was when it was read, marks of use aside."""
        statement = "SELECT 1 FROM Cache WHERE rowid = ? AND store_time IS ? AND filename IS ?"
        return bool(self.select(statement, row.rowid, row.stored, row.filename))

    def remove(self, rows: list[Row]) -> list[Row]:
        """Remove those of `rows` that still are what they were, then their files; which ones went."""
        gone: list[Row] = []
        for start in range(0, len(rows), BATCH):
            with self.connection.transaction() as connection:
                batch = [row for row in rows[start : start + BATCH] if connection and _deleted(connection, row)]
            for row in batch:
                values.remove(self.directory, row.filename)
            gone += batch
        return gone

    def named(self, filenames: list[str] | None = None) -> set[str]:
        """The files that rows name; only those in `filenames`, at most BATCH, if given."""
        if filenames is None:
            found = self.select("SELECT filename FROM Cache WHERE filename IS NOT NULL")
        else:
            marks = ",".join("?" * len(filenames))
            found = self.select(f"SELECT filename FROM Cache WHERE filename IN ({marks})", *filenames)
        return {filename for (filename,) in found}


def _deleted(connection: sqlite3.Connection, row: Row) -> bool:
    # Another process may have put another value in the same row meanwhile.
    statement = "DELETE FROM Cache WHERE rowid = ? AND store_time IS ? AND filename IS ?"
    return connection.execute(statement, (row.rowid, row.stored, row.filename)).rowcount == 1
