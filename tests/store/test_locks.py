from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock  # noqa: F401  (an unprivileged child may not be able to read it)
import pytest

from aot_cache.errors import StoreError
from aot_cache.store import locks
from aot_cache.store.disk import DiskStore
from aot_cache.store.locks import KeyLock, remove_idle_locks

from .conftest import as_nobody

HOLDER = """
import sys
from aot_cache.store.locks import KeyLock
lock = KeyLock(sys.argv[1], "key")
print(lock.acquire(10), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "POLL", 0.001)


@contextmanager
def holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of `key`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_a_waiter_times_out_and_learns_who_holds_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        lock = KeyLock(tmp_path, "key")
        assert not lock.acquire(0.02)
        assert lock.holder() in (f"pid {process.pid} on {os.uname().nodename}", "")


def test_another_key_is_free(tmp_path: Path) -> None:
    with holder(tmp_path):
        assert KeyLock(tmp_path, "other").acquire(0)


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        lock = KeyLock(tmp_path, "key")
        assert not lock.acquire(0)
        process.send_signal(signal.SIGKILL)
        assert lock.acquire(10)


def test_two_locks_of_one_process_exclude_each_other_until_release(tmp_path: Path) -> None:
    first, second = KeyLock(tmp_path, "key"), KeyLock(tmp_path, "key")
    assert first.acquire(0) and not second.acquire(0.01)
    first.release()
    assert second.acquire(0) and not first.acquire(0)
    second.release()
    second.release()


def test_a_waiter_says_so_once_and_gets_the_lock_when_it_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "NOTICE", 0.01)
    first, waits = KeyLock(tmp_path, "key"), []
    assert first.acquire(0)
    released = threading.Thread(target=first.release)

    def on_wait(seconds: float) -> None:
        waits.append(seconds)
        released.start()

    assert KeyLock(tmp_path, "key").acquire(10, on_wait)
    released.join()
    assert len(waits) == 1 and 0.01 <= waits[0] < 10


def test_a_waiter_that_times_out_said_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "NOTICE", 0.005)
    first, waits = KeyLock(tmp_path, "key"), []
    assert first.acquire(0)
    assert not KeyLock(tmp_path, "key").acquire(0.03, waits.append)
    assert len(waits) == 1


def test_who_gets_the_lock_soon_does_not_hear_of_waiting(tmp_path: Path) -> None:
    waits: list[float] = []
    assert KeyLock(tmp_path, "key").acquire(10, waits.append)
    assert waits == []


def test_a_key_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a name"):
        KeyLock(tmp_path, "../key")


def test_a_directory_that_cannot_be_written_is_a_store_error(shared: Path) -> None:
    def lock() -> None:
        with pytest.raises(StoreError, match=f"cannot lock {shared}/locks/key.lock: Permission denied"):
            KeyLock(shared, "key").acquire(1)

    assert as_nobody(lock) == 0


def test_idle_lock_files_are_removed_and_held_ones_stay(tmp_path: Path) -> None:
    held, idle = KeyLock(tmp_path, "held"), KeyLock(tmp_path, "idle")
    assert held.acquire(0) and idle.acquire(0)
    idle.release()
    assert held.path.exists()
    remove_idle_locks(tmp_path)
    assert not idle.path.exists()
    assert held.path.exists() and not KeyLock(tmp_path, "held").acquire(0)
    held.release()


@pytest.mark.parametrize("verb", ["prune", "clear"])
def test_prune_and_clear_remove_idle_lock_files(store: DiskStore, verb: str) -> None:
    store.put("a", b"")
    lock = KeyLock(store.directory, "key")
    assert lock.acquire(0)
    getattr(store, verb)()
    assert lock.path.exists()
    lock.release()
    getattr(store, verb)()
    assert not lock.path.exists()


def test_removing_lock_files_never_lets_two_in(tmp_path: Path) -> None:
    inside: list[int] = []
    failures: list[str] = []
    done = threading.Event()

    def work(number: int) -> None:
        for _ in range(30):
            lock = KeyLock(tmp_path, "key")
            if not lock.acquire(10):
                failures.append("no lock")
            inside.append(number)
            if len(inside) != 1:
                failures.append(f"inside: {inside}")
            inside.remove(number)
            lock.release()

    def clean() -> None:
        while not done.is_set():
            remove_idle_locks(tmp_path)

    cleaner = threading.Thread(target=clean)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in (cleaner, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    cleaner.join()
    assert failures == []
