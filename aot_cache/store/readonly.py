"""The store in a directory that may not be written: by this process (mode `readonly`), or by anybody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from ..errors import StoreError
from .base import Entry, check_name, store_errors
from .table import Table
from .verify import Check, Problem, verify


class ReadonlyStore:
    """What a DiskStore left in `directory`. A `get` leaves no mark."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._table = Table(self.directory, writable=False)

    def get(self, name: str) -> bytes | None:
        check_name(name)
        with store_errors(f"read {name} in", self.directory):
            return self._table.load(name)

    def put(self, name: str, data: bytes) -> NoReturn:
        self._refuse()

    def delete(self, name: str) -> NoReturn:
        self._refuse()

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        with store_errors("list", self.directory):
            yield from self._table.entries(prefix)

    def volume(self) -> int:
        """Bytes of all values. Raises StoreError."""
        with store_errors("measure", self.directory):
            return self._table.volume()

    def verify(self, check: Check | None = None, fix: bool = False) -> list[Problem]:
        """See DiskStore.verify; nothing can be fixed here."""
        if fix:
            self._refuse()
        with store_errors("verify", self.directory):
            return verify(self._table, check, fix=False)

    def close(self) -> None:
        """Close the index; the next use opens it again."""
        self._table.connection.close()

    def _refuse(self) -> NoReturn:
        raise StoreError(f"{self.directory} is open for reading only")
