from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from aot_cache.errors import StoreError
from aot_cache.store import table
from aot_cache.store.disk import INLINE_BELOW, DiskStore

from .conftest import LIMIT

LARGE = b"x" * INLINE_BELOW


def files(store: DiskStore) -> list[Path]:
    return sorted(path for path in (store.directory / "values").rglob("*") if path.is_file())


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
