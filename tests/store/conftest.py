from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aot_cache.store.disk import DiskStore

LIMIT = 1_000_000
NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """A store on disk; whatever the test did to it, nothing may be wrong in the end."""
    opened = DiskStore(tmp_path / "cache", LIMIT)
    yield opened
    assert opened.verify() == []
    opened.close()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="aot-cache-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def forked(action: Callable[[], object]) -> int:
    """Run `action` in a fork of this process; its exit status, negative for a signal, 1 for an exception."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def as_nobody(action: Callable[[], object]) -> int:
    """`forked`, as a user whom permission bits stop."""

    def unprivileged() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        action()

    return forked(unprivileged)
