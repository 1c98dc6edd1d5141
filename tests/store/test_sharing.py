"""One directory, several openings, threads and forked processes."""

from __future__ import annotations

import shutil
import threading

import pytest

from aot_cache.store import connection
from aot_cache.store.disk import INLINE_BELOW, DiskStore

from .conftest import LIMIT, forked

LARGE = b"x" * INLINE_BELOW


def test_another_opening_of_the_directory_sees_the_same_entries(store: DiskStore) -> None:
    other = DiskStore(store.directory, LIMIT)
    assert other.get("a") is None
    store.put("a", LARGE)
    assert other.get("a") == LARGE
    other.put("b", b"b")
    assert [entry.name for entry in store.entries()] == ["a", "b"]


def test_a_directory_removed_in_use_is_an_empty_store_again(store: DiskStore) -> None:
    store.put("a", LARGE)
    shutil.rmtree(store.directory)
    assert store.get("a") is None
    store.put("b", LARGE)
    assert [entry.name for entry in DiskStore(store.directory, LIMIT).entries()] == ["b"]


def test_threads_share_a_store(store: DiskStore) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                store.put(f"{number}.{turn % 3}", bytes([number]) * (INLINE_BELOW + turn))
                data = store.get(f"{number}.{turn % 3}")
                assert data == bytes([number]) * (INLINE_BELOW + turn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(store.entries())) == 12


def test_no_connection_to_the_index_crosses_a_fork(store: DiskStore) -> None:
    store.put("a", b"parent")
    assert store.get("a") == b"parent"

    def child() -> None:
        assert store._table.connection._open is None
        assert not hasattr(store._cache._local, "con")
        assert store.get("a") == b"parent"
        store.put("b", LARGE)

    assert forked(child) == 0
    assert store.get("b") == LARGE


def test_a_fork_waits_for_the_threads_that_use_the_index(store: DiskStore) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            store.put("thread", b"x")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert [forked(lambda: store.put("child", LARGE)) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        thread.join()
    assert store.get("child") == LARGE


def test_a_process_that_was_forked_unnoticed_opens_its_own_connection(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", b"value")
    store.get("a")
    opened = store._table.connection._open
    monkeypatch.setattr(connection.os, "getpid", lambda: -1)
    assert store.get("a") == b"value"
    assert store._table.connection._open[0] is not opened[0]
    store.close()
    connection._never_closed.pop().close()
