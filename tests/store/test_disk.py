from __future__ import annotations

import errno
import os
import pickle
import resource
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import diskcache
import pytest

from aot_cache.errors import StoreError
from aot_cache.store import connection, disk, table, values
from aot_cache.store.disk import INLINE_BELOW, DiskStore

from .conftest import LIMIT, forked

LARGE = b"x" * INLINE_BELOW


class Bomb:
    """Unpickling one creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def files(store: DiskStore) -> list[Path]:
    return sorted(path for path in (store.directory / "values").rglob("*") if path.is_file())


def sql(store: DiskStore, statement: str, *arguments: object) -> None:
    store.close()
    database = sqlite3.connect(store.directory / "cache.db")
    with database:
        database.execute(statement, arguments)
    database.close()


def fixed(store: DiskStore) -> list[str]:
    """What `verify --fix` removes, after which nothing is wrong."""
    found = store.verify()
    assert [problem.fixed for problem in found] == [False] * len(found)
    assert [problem.name for problem in store.verify(fix=True) if problem.fixed] == [problem.name for problem in found]
    assert store.verify() == []
    return [problem.name for problem in found]


def test_an_empty_directory_is_an_empty_store_and_reading_makes_no_file(store: DiskStore) -> None:
    assert (store.get("a"), list(store.entries()), store.volume(), store.delete("a")) == (None, [], 0, False)
    assert store.prune(0) == store.clear() == (0, 0)
    assert not store.directory.exists()


def test_small_values_are_in_the_index_and_large_ones_in_files(store: DiskStore) -> None:
    store.put("small", LARGE[1:])
    assert files(store) == []
    store.put("large", LARGE)
    assert [path.read_bytes() for path in files(store)] == [LARGE]
    assert (store.get("small"), store.get("large")) == (LARGE[1:], LARGE)


def test_a_replaced_or_deleted_value_leaves_no_file(store: DiskStore) -> None:
    store.put("a", LARGE)
    store.put("a", LARGE + b"y")
    assert [path.stat().st_size for path in files(store)] == [len(LARGE) + 1]
    assert store.delete("a") and not store.delete("a")
    assert files(store) == []


def test_another_opening_of_the_directory_sees_the_same_entries(store: DiskStore) -> None:
    other = DiskStore(store.directory, LIMIT)
    assert other.get("a") is None
    store.put("a", LARGE)
    assert other.get("a") == LARGE
    other.put("b", b"b")
    assert [entry.name for entry in store.entries()] == ["a", "b"]


@pytest.mark.parametrize("umask", [0, 0o777])
def test_files_are_private_whatever_the_umask(store: DiskStore, umask: int) -> None:
    before = os.umask(umask)
    try:
        store.put("small", b"s")
        store.put("large", LARGE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    for path in store.directory.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_eviction_makes_room_for_many_writes_at_once(store: DiskStore) -> None:
    for number in range(10):
        store.put(f"old{number}", b"x" * (LIMIT // 10))
    store.put("new", b"x")
    assert store.volume() <= 0.9 * LIMIT
    assert store.get("old0") is None and store.get("old9") is not None and store.get("new") == b"x"


def test_replacing_a_value_does_not_evict_when_the_new_one_fits_in_its_place(store: DiskStore) -> None:
    store.put("a", b"x" * (LIMIT // 2))
    store.put("b", b"x" * (LIMIT // 2))
    store.put("b", b"y" * (LIMIT // 2))
    assert [entry.name for entry in store.entries()] == ["a", "b"]


def test_a_get_does_not_need_to_write(store: DiskStore) -> None:
    store.put("a", b"value")
    writer = sqlite3.connect(store.directory / "cache.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert store.get("a") == b"value"
    writer.close()
    assert [entry.hits for entry in store.entries()] == [0]


def test_a_put_into_a_locked_index_fails_and_leaves_no_file(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "TIMEOUT", 0.01)
    store.put("a", b"old")
    writer = sqlite3.connect(store.directory / "cache.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=f"cannot write a to {store.directory}: the index was locked"):
        store.put("a", LARGE)
    writer.close()
    assert store.get("a") == b"old"


def test_a_vanished_file_reads_as_absent(store: DiskStore) -> None:
    store.put("a", LARGE)
    files(store)[0].unlink()
    assert store.get("a") is None
    assert fixed(store) == ["a"]
    assert list(store.entries()) == []


def test_a_value_replaced_while_it_is_read_is_still_found(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", LARGE)
    read, calls = values.read, []

    def late(*arguments: object) -> bytes | None:
        if not calls:
            DiskStore(store.directory, LIMIT).put("a", LARGE + b"new")
        calls.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(values, "read", late)
    assert store.get("a") == LARGE + b"new"
    assert len(calls) == 2


def test_a_file_cut_short_is_damage_which_a_put_heals(store: DiskStore) -> None:
    store.put("a", LARGE)
    os.truncate(files(store)[0], 10)
    with pytest.raises(StoreError, match="has 10 bytes instead of 32768"):
        store.get("a")
    assert [problem.name for problem in store.verify()] == ["a"]
    store.put("a", b"new")
    assert store.get("a") == b"new"


def test_a_pickle_in_the_index_is_never_loaded(store: DiskStore, tmp_path: Path) -> None:
    mark = tmp_path / "exploded"
    store.put("good", b"good")
    with diskcache.Cache(str(store.directory), cull_limit=0) as foreign:
        foreign["row"] = Bomb(mark)
        foreign["text"] = "text"
        foreign["number"] = 1
        foreign[b"bytes"] = b"bytes"
        foreign[(1, "pickled key")] = b"bytes"
        foreign.disk_min_file_size = foreign.disk.min_file_size = 0
        foreign["file"] = Bomb(mark)
    for name in ("row", "text", "number", "file"):
        with pytest.raises(StoreError, match=f"{name} .* did not write"):
            store.get(name)
    assert [entry.name for entry in store.entries()] == ["good"]
    found = store.verify(check=lambda name, data: None)
    assert {"row", "text", "number", "file", repr(b"bytes")} <= {problem.name for problem in found}
    assert store.delete("row")
    store.put("text", b"healed")
    fixed(store)
    assert [entry.name for entry in store.entries()] == ["good", "text"]
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark))).close()
    assert mark.exists()


@pytest.mark.parametrize("filename", ["../outside", "{outside}", "values/../../outside", "values/aa/../../../outside"])
def test_a_row_cannot_lead_out_of_the_directory(store: DiskStore, filename: str) -> None:
    outside = store.directory.parent / "outside"
    outside.write_bytes(LARGE)
    for name in ("read", "replaced", "deleted", "fixed"):
        store.put(name, LARGE)
    for path in files(store):
        path.unlink()
    sql(store, "UPDATE Cache SET filename = ?", filename.format(outside=outside))
    with pytest.raises(StoreError, match="did not write"):
        store.get("read")
    store.put("replaced", b"new")
    store.delete("deleted")
    assert fixed(store) == ["read", "fixed"]
    assert outside.read_bytes() == LARGE


@pytest.mark.parametrize("damage", [b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_corrupt_index_is_an_error_until_verify_rebuilds_it(store: DiskStore, damage: bytes) -> None:
    store.put("a", LARGE)
    store.close()
    (store.directory / "cache.db").write_bytes(damage)
    for verb in (lambda: store.get("a"), lambda: list(store.entries()), lambda: store.put("a", LARGE), store.volume):
        with pytest.raises(StoreError, match=f"{store.directory}: its index is damaged"):
            verb()
    assert [problem.name for problem in store.verify()] == ["cache.db"]
    assert len(store.verify(fix=True)) == 2
    assert store.get("a") is None and files(store) == []
    store.put("a", LARGE)
    assert store.get("a") == LARGE


def test_an_index_of_another_shape_is_an_error_until_verify_rebuilds_it(store: DiskStore) -> None:
    store.directory.mkdir()
    sql(store, "CREATE TABLE Cache (other)")
    sql(store, "CREATE TABLE Settings (other)")
    with pytest.raises(StoreError):
        store.get("a")
    with pytest.raises(StoreError):
        store.put("a", b"")
    assert fixed(store) == ["cache.db"]
    store.put("a", b"")
    assert store.get("a") == b""


def test_settings_that_diskcache_cannot_use_are_a_store_error(store: DiskStore) -> None:
    store.put("a", b"")
    sql(store, "INSERT INTO Settings VALUES ('disk_nonsense', 1)")
    with pytest.raises(StoreError, match="argument 'nonsense'"):
        DiskStore(store.directory, LIMIT).put("a", b"")


def test_a_directory_removed_in_use_is_an_empty_store_again(store: DiskStore) -> None:
    store.put("a", LARGE)
    shutil.rmtree(store.directory)
    assert store.get("a") is None
    store.put("b", LARGE)
    assert [entry.name for entry in DiskStore(store.directory, LIMIT).entries()] == ["b"]


def test_a_full_disk_is_a_store_error_and_the_old_value_stands(store: DiskStore) -> None:
    store.put("a", LARGE)

    def write_too_much() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        with pytest.raises(StoreError, match=f"cannot write a to {store.directory}: File too large"):
            store.put("a", b"y" * 400_000)

    assert forked(write_too_much) == 0
    assert store.get("a") == LARGE
    assert len(files(store)) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_every_error_of_the_system_names_path_and_cause(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def failing(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(StoreError, match=f"cannot write a to {store.directory}: {os.strerror(code)}"):
            store.put("a", LARGE)
    assert store.get("a") is None


def test_a_file_that_may_not_be_read_is_an_error_not_an_absence(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", LARGE)

    def failing(_: int) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", failing)
        with pytest.raises(StoreError, match="Permission denied"):
            store.get("a")


def test_a_path_that_diskcache_would_expand_is_refused(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "$HOME", LIMIT)
    with pytest.raises(StoreError, match="would replace"):
        store.put("a", b"")


def test_a_listing_by_prefix_uses_the_index(store: DiskStore) -> None:
    store.put("a", b"")
    names = [f"{number:05}" for number in range(20_000)]
    database = sqlite3.connect(store.directory / "cache.db")
    with database:
        database.executemany(
            "INSERT INTO Cache (key, raw, store_time, access_time, mode, value) VALUES (?, 1, 0, 0, 1, x'')",
            [(name,) for name in names],
        )
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {table.RANGE}", ("001", "001"))]
    database.close()
    assert plan == ["SEARCH Cache USING INDEX Cache_key_raw (key>? AND key<?)"]
    assert [entry.name for entry in store.entries("001")] == names[100:200]
    assert [entry.name for entry in store.entries()] == [*names, "a"]


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


def test_prune_removes_by_age_and_by_size_and_a_dry_run_only_counts(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, name in enumerate("dcba"):
        monkeypatch.setattr("time.time", lambda age=age: 1000.0 + age)
        store.put(name, LARGE)
    monkeypatch.setattr("time.time", lambda: 1010.0)
    size = len(LARGE)
    for wanted, left in (
        ({"older_than": 9.0}, "abc"),
        ({"older_than": 60.0}, "abc"),
        ({"size_limit": 3 * size}, "abc"),
        ({"size_limit": 3 * size - 1}, "ab"),
        ({"size_limit": 0, "older_than": 60.0}, ""),
    ):
        before = len(list(store.entries()))
        expected = (before - len(left), (before - len(left)) * size)
        assert store.prune(**wanted, dry_run=True) == expected
        assert len(list(store.entries())) == before
        assert store.prune(**wanted) == expected
        assert [entry.name for entry in store.entries()] == list(left)


def test_clear_removes_everything_and_a_dry_run_only_counts(store: DiskStore) -> None:
    store.put("a", LARGE)
    store.put("b", b"b")
    assert store.clear(dry_run=True) == (2, len(LARGE) + 1)
    assert store.get("a") == LARGE
    (store.directory / "values" / "orphan").write_bytes(b"")
    assert store.clear() == (2, len(LARGE) + 1)
    assert (list(store.entries()), store.volume(), files(store)) == ([], 0, [])
