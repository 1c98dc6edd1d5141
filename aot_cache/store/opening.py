"""Opens the store that the settings ask for, in a directory that nobody else can write."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import UnsafeDirectory
from ..settings import Settings
from .base import store_errors
from .disk import DiskStore
from .locks import make_private
from .readonly import ReadonlyStore

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Opened:
    """A store, and why it is not the one that was asked for (empty if it is)."""

    store: DiskStore | ReadonlyStore
    reason: str = ""


def open_store(settings: Settings) -> Opened:
    """The store of `settings.directory`, for reading only if the mode says so or the directory cannot be written.

    Raises UnsafeDirectory, or StoreError if the directory cannot be made.
    """
    directory = settings.directory
    if settings.mode == "readonly":
        check_directory(directory, readonly=True)
        return Opened(ReadonlyStore(directory))
    if directory.is_dir() and not _writable(directory):
        check_directory(directory, readonly=True)
        return Opened(ReadonlyStore(directory), f"{directory} cannot be written by uid {os.geteuid()}")
    check_directory(directory)
    return Opened(DiskStore(directory, settings.size_limit))


def check_directory(path: str | os.PathLike[str], readonly: bool = False) -> None:
    """Make sure that only this user (and root) can write entries, and so code for this process, into `path`.

    A missing directory is made, with mode 0700, unless `readonly`; then root may own it too.
    Raises UnsafeDirectory, with the remedy; StoreError if it cannot be made or looked at.
    """
    directory = Path(path).absolute()
    with store_errors("use", directory):
        existing = directory
        while not os.path.lexists(existing):
            existing = existing.parent
        _check_ancestors(existing.parent if existing == directory else existing, directory)
        if existing != directory:
            if readonly:
                return
            _make(directory, existing)
        _check_final(directory, readonly)


def _writable(directory: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=effective)


def _make(directory: Path, existing: Path) -> None:
    for part in reversed([directory, *directory.parents]):
        if len(part.parts) > len(existing.parts):
            make_private(part)


def _check_final(directory: Path, readonly: bool) -> None:
    link, found = os.lstat(directory), os.stat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if stat.S_ISLNK(link.st_mode):
        _check_owner(directory, link, directory, (os.geteuid(), 0))
        _check_ancestors(Path(os.path.realpath(directory)).parent, directory)
    _check_owner(directory, found, directory, (os.geteuid(), 0) if readonly else (os.geteuid(),))
    if found.st_mode & _OTHERS_WRITE:
        remedy = f"`chmod 700 {directory}`, or set AOT_CACHE_DIR to another directory"
        raise _unsafe(directory, directory, found, remedy)


def _check_ancestors(parent: Path, directory: Path) -> None:
    """Nobody else may be able to put another directory in this one's place: along the path as given, and as it is."""
    real = Path(os.path.realpath(parent))
    for ancestor in dict.fromkeys([*reversed([parent, *parent.parents]), *reversed([real, *real.parents])]):
        link = os.lstat(ancestor)
        _check_owner(ancestor, link, directory, (os.geteuid(), 0))
        found = os.stat(ancestor)
        if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
            remedy = f"`chmod go-w {ancestor}`, or set AOT_CACHE_DIR to a directory elsewhere"
            raise _unsafe(ancestor, directory, found, remedy)


def _check_owner(path: Path, found: os.stat_result, directory: Path, allowed: tuple[int, ...]) -> None:
    if found.st_uid not in allowed:
        raise _unsafe(path, directory, found, "set AOT_CACHE_DIR to a directory of your own")


def _unsafe(path: Path, directory: Path, found: os.stat_result, remedy: str) -> UnsafeDirectory:
    seen = f"mode {stat.S_IMODE(found.st_mode):04o}, owner uid {found.st_uid}, this process is uid {os.geteuid()}"
    where = f"{directory}" if path == directory else f"{directory}: its parent {path}"
    return UnsafeDirectory(f"{where} could be written by others ({seen}): {remedy}")
