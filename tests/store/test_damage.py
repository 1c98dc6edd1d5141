"""Whatever is wrong on disk is an error or an absence, never a wrong value, and `verify` removes it."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import diskcache
import pytest

from aot_cache.errors import DamagedValue, StoreError
from aot_cache.store import connection, disk, values
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


def test_a_put_into_a_locked_index_fails_and_leaves_no_file(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "TIMEOUT", 0.01)
    store.put("a", b"old")
    writer = sqlite3.connect(store.directory / "cache.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=f"cannot write a to {store.directory}: the index was locked"):
        store.put("a", LARGE)
    writer.close()
    assert store.get("a") == b"old"


def test_the_first_put_into_a_locked_index_fails_before_diskcache_waits_on_its_own(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", b"old")
    monkeypatch.setattr(connection, "TIMEOUT", 0.01)
    opened: list[object] = []
    monkeypatch.setattr(diskcache, "Cache", lambda *_, **__: opened.append(1))
    writer = sqlite3.connect(store.directory / "cache.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="database is locked"):
        DiskStore(store.directory, LIMIT).put("a", b"new")
    writer.close()
    assert opened == []


@pytest.mark.parametrize("written", [True, False])
def test_a_put_that_fails_removes_its_file_only_if_no_row_names_it(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    write_row = DiskStore._write_row

    def failing(self: DiskStore, *arguments: object) -> None:
        if written:
            write_row(self, *arguments)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(DiskStore, "_write_row", failing)
        with pytest.raises(StoreError, match="Input/output error"):
            store.put("a", LARGE)
    assert store.get("a") == (LARGE if written else None)
    assert len(files(store)) == written


def test_a_put_that_fails_after_it_made_room_leaves_the_old_value(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", b"old")
    store.put("b", b"x" * (LIMIT - 3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: os.open("/nowhere/at/all", os.O_RDONLY))
        with pytest.raises(StoreError):
            store.put("a", LARGE)
    assert [entry.name for entry in store.entries()] == ["a"]


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
    with pytest.raises(DamagedValue, match="has 10 bytes instead of 32768"):
        store.get("a")
    assert [problem.name for problem in store.verify()] == ["a"]
    store.put("a", b"new")
    assert store.get("a") == b"new"


def test_a_pipe_in_place_of_a_file_is_an_error_and_nobody_waits_for_it(store: DiskStore) -> None:
    def read() -> None:
        signal.alarm(10)
        with pytest.raises(StoreError):
            store.get("large")

    store.put("large", LARGE)
    for path in (store.directory / "cache.db", files(store)[0]):
        store.close()
        aside = path.rename(path.with_suffix(".aside"))
        os.mkfifo(path)
        assert forked(read) == 0
        aside.replace(path)
    assert store.get("large") == LARGE


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
        with pytest.raises(DamagedValue, match=f"{name} .* did not write"):
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


@pytest.mark.parametrize("mode", [0, 3, 4, None, b"\x02"])
@pytest.mark.parametrize("data", [b"small", LARGE])
def test_a_row_of_another_mode_is_not_ours(store: DiskStore, mode: object, data: bytes) -> None:
    store.put("a", data)
    sql(store, "UPDATE Cache SET mode = ?", mode)
    with pytest.raises(StoreError, match="did not write"):
        store.get("a")
    assert fixed(store) == ["a"]


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
