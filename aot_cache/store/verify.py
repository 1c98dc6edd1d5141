"""Everything that can be wrong in a directory of entries. The oracle that every test of the store ends with."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from . import values
from .base import is_name
from .connection import NAME
from .table import BATCH, BY_USE, FILE, Row, Table, fault

Check = Callable[[str, bytes], "str | None"]
_COUNTED = """SELECT COALESCE((SELECT value FROM Settings WHERE key = 'count'), 0), (SELECT COUNT(*) FROM Cache),
    COALESCE((SELECT value FROM Settings WHERE key = 'size'), 0), (SELECT COALESCE(SUM(size), 0) FROM Cache)"""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    name: the entry, or the file's path from the directory. what: what is wrong with it. bytes: how many it takes.
    fixed: whether it was removed.
    """

    name: str
    what: str
    bytes: int
    fixed: bool


def verify(table: Table, check: Check | None, fix: bool) -> list[Problem]:
    """All problems; with `fix`, exactly what is wrong is removed. Raises StoreError, sqlite3.Error and OSError.

    Safe while others read and write: what they have in hand is no problem.
    """
    problems = list(_index(table, fix))
    if all(problem.fixed for problem in problems):
        problems += _rows(table, check, fix)
        problems += _counters(table, fix)
        problems += _orphans(table, fix)
    return problems


def remove_orphans(table: Table) -> None:
    """Remove the files that no row names and no writer has in hand."""
    for _ in _orphans(table, fix=True):
        pass


def _index(table: Table, fix: bool) -> Iterator[Problem]:
    what = _damage(table)
    if what is not None:
        size = values.size_of(table.directory, NAME) or 0
        if fix:
            table.connection.unlink()
        yield Problem(NAME, f"the index is damaged: {what}", size, fix)


def _damage(table: Table) -> str | None:
    try:
        table.select(f"{BY_USE} LIMIT 1")
        found = [str(text) for (text,) in table.select("PRAGMA integrity_check(3)")]
    except sqlite3.OperationalError as error:
        # Other trouble (locks, permissions) says nothing about the index.
        if "no such column" in str(error):
            return str(error)
        raise
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found in ([], ["ok"]) else "; ".join(found)


def _rows(table: Table, check: Check | None, fix: bool) -> Iterator[Problem]:
    for row in table.rows():
        what = _row(table, row, check)
        if what is not None and table.same(row):
            name = row.key if is_name(row.key) else repr(row.key)[:200]
            yield Problem(name, what, row.bytes, fix and bool(table.remove([row])))


def _row(table: Table, row: Row, check: Check | None) -> str | None:
    if what := fault(row):
        return what
    if row.mode == FILE:
        size = values.size_of(table.directory, row.filename)
        if size is None:
            return f"its file {row.filename} is gone"
        if size != row.size:
            return f"its file {row.filename} has {size} bytes instead of {row.size}"
    data = table.value(row) if check else None
    return check(row.key, data) if check and data is not None else None


def _counters(table: Table, fix: bool) -> Iterator[Problem]:
    for count, rows, size, total in table.select(_COUNTED):
        if (count, size) != (rows, total):
            what = f"the index counts {count} rows of {size} bytes, there are {rows} of {total}"
            yield Problem(NAME, what, 0, fix and _recounted(table))


def _recounted(table: Table) -> bool:
    statement = "INSERT OR REPLACE INTO Settings VALUES (?, (SELECT {} FROM Cache))"
    with table.connection.transaction() as connection:
        for key, value in (("count", "COUNT(*)"), ("size", "COALESCE(SUM(size), 0)")) if connection else ():
            connection.execute(statement.format(value), (key,))
    return True


def _orphans(table: Table, fix: bool) -> Iterator[Problem]:
    named = table.named()
    suspects = sorted(file for file in values.listing(table.directory) if file not in named)
    for start in range(0, len(suspects), BATCH):
        with ExitStack() as stack:
            # A writer commits its row before it lets go of its file, so only now is the answer final.
            abandoned = [
                file
                for file in suspects[start : start + BATCH]
                if stack.enter_context(values.abandoned(table.directory, file))
            ]
            for file in sorted(set(abandoned) - table.named(abandoned)):
                yield _orphan(table, file, fix)


def _orphan(table: Table, file: str, fix: bool) -> Problem:
    path = table.directory / file
    size = os.lstat(path).st_size
    if values.is_temporary(file):
        what = "a temporary file that its writer left behind"
    else:
        what = "a file that no row names" if values.is_filename(file) else "a file that this program did not write"
    if fix:
        os.unlink(path)
    return Problem(file, what, size, fix)
