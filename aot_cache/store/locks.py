"""File locks: one compile at a time for each key, over processes and threads; a holder that dies frees its lock."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .base import check_name, store_errors

# Seconds between two tries, and until a waiter says that it waits.
POLL = 0.05
NOTICE = 5.0
_FOLDER = "locks"
_SUFFIX = ".lock"


def make_private(directory: Path) -> None:
    """Create `directory` with mode 0700, whatever the umask, unless it exists; OSError if that fails."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    os.chmod(directory, 0o700)


def try_lock(descriptor: int) -> bool:
    """Lock an open file (flock) until it is closed; False if another descriptor holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class KeyLock:
    """The lock of one key. Two objects exclude each other in one process too.

    Raises StoreError if the directory cannot be written or `key` is not a name.
    """

    def __init__(self, directory: str | os.PathLike[str], key: str) -> None:
        check_name(key)
        self.path = Path(directory) / _FOLDER / f"{key}{_SUFFIX}"
        self._lock: Any = None

    def acquire(self, timeout: float, on_wait: Callable[[float], None] | None = None) -> bool:
        """Take the lock; False if `timeout` seconds were not enough.

        on_wait is called once, with the seconds waited, when that is longer than NOTICE.
        """
        # Imported here, since a warm start never locks.
        import filelock

        with store_errors("lock", self.path):
            make_private(self.path.parent)
            lock = filelock.FileLock(str(self.path), mode=0o600, thread_local=False)
            started = time.monotonic()
            deadline = started + timeout
            notice = started + NOTICE if on_wait else deadline
            while True:
                try:
                    lock.acquire(timeout=max(0.0, min(deadline, notice) - time.monotonic()), poll_interval=POLL)
                    break
                except filelock.Timeout:
                    if time.monotonic() >= deadline:
                        return False
                    if on_wait and time.monotonic() >= notice:
                        notice = deadline
                        on_wait(time.monotonic() - started)
            self._lock = lock
            with suppress(OSError):
                self.path.write_text(f"pid {os.getpid()} on {os.uname().nodename}\n")
        return True

    def release(self) -> None:
        """Give the lock back, if this object holds it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with store_errors("unlock", self.path):
                lock.release()

    def holder(self) -> str:
        """Who took the lock last, for messages: "pid 17 on host"; empty if that is not known."""
        with suppress(OSError, UnicodeDecodeError):
            return self.path.read_text().strip()
        return ""


def remove_idle_locks(directory: str | os.PathLike[str]) -> int:
    """Remove the lock files that nobody holds; how many. Safe while others lock and unlock."""
    removed = 0
    with store_errors("clean up the locks in", directory):
        for path in sorted((Path(directory) / _FOLDER).glob(f"*{_SUFFIX}")):
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            try:
                # Who locks a file that was removed meanwhile sees that it has no name left, and starts over.
                if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
                    os.unlink(path)
                    removed += 1
            finally:
                os.close(descriptor)
    return removed
