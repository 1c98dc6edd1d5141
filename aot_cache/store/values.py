"""The files that hold large values: written whole under a new name, never changed, removed when no row names them.

A writer holds the file's lock (flock) from its creation until the row is committed, so that nobody takes a file that is
still on its way for an orphan; a writer that dies frees it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import DamagedValue
from .locks import make_private, try_lock

_FOLDER = "values"
_FILENAME = re.compile(rf"{_FOLDER}/[0-9a-f]{{2}}/[0-9a-f]{{30}}\.val")
_TEMPORARY = ".tmp"


def is_filename(filename: object) -> bool:
    """Whether a row's `filename` is one that this module gives out; anything else could lead out of the directory."""
    return type(filename) is str and _FILENAME.fullmatch(filename) is not None


@contextmanager
def published(directory: Path, data: bytes) -> Iterator[str]:
    """Write `data` to a new file and give its filename, locked until the context ends; OSError if that fails."""
    while True:
        digits = secrets.token_hex(16)
        filename = f"{_FOLDER}/{digits[:2]}/{digits[2:]}.val"
        path = directory / filename
        temporary = path.with_name(path.name + _TEMPORARY)
        make_private(path.parent.parent)
        make_private(path.parent)
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            # Somebody who cleans up may have locked and removed the file before this process locked it.
            if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
                _fill(descriptor, temporary, path, data)
                yield filename
                return
        finally:
            os.close(descriptor)


def _fill(descriptor: int, temporary: Path, path: Path, data: bytes) -> None:
    try:
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "wb", buffering=0, closefd=False) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def read(directory: Path, filename: str, size: int) -> bytes | None:
    """The file's bytes; None if there is no such file. Raises DamagedValue if it has not `size` bytes, OSError."""
    try:
        # Without waiting for a writer, should it be a pipe.
        descriptor = os.open(directory / filename, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            found = os.fstat(file.fileno()).st_size
            data = file.read() if found == size else b""
    except FileNotFoundError:
        return None
    if len(data) != size:
        raise DamagedValue(f"{directory / filename} is damaged: it has {found} bytes instead of {size}")
    return data


def size_of(directory: Path, filename: str) -> int | None:
    """Bytes of the file; None if there is no such file."""
    try:
        return os.stat(directory / filename).st_size
    except FileNotFoundError:
        return None


def remove(directory: Path, filename: object) -> None:
    """Remove the file if it is one of ours. What stays is left to `verify`: the row is gone already."""
    if is_filename(filename):
        with suppress(OSError):
            os.unlink(directory / str(filename))


def listing(directory: Path) -> Iterator[str]:
    """Every file below the folder of values, by path from `directory`, temporary and foreign ones included."""
    if os.path.islink(directory / _FOLDER):
        return
    for folder, _, files in os.walk(directory / _FOLDER):
        for file in files:
            yield os.path.relpath(os.path.join(folder, file), directory)


def is_temporary(filename: str) -> bool:
    return filename.endswith(_TEMPORARY)


@contextmanager
def abandoned(directory: Path, filename: str) -> Iterator[bool]:
    """Whether no living writer is at work on this file; holds off others that clean up until the context ends."""
    path = directory / filename
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        # Gone, or something that no writer of this program makes.
        yield os.path.lexists(path)
        return
    try:
        # A writer renames its file once, and the lock stays with the file, not with the name.
        yield try_lock(descriptor) and os.path.lexists(path)
    finally:
        os.close(descriptor)
