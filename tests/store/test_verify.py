from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from aot_cache.store import values
from aot_cache.store.disk import INLINE_BELOW, DiskStore
from aot_cache.store.verify import Problem

LARGE = b"x" * INLINE_BELOW


def place(store: DiskStore, filename: str, data: bytes = b"12345") -> Path:
    path = store.directory / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


ORPHAN = "values/ab/" + "0" * 30 + ".val"


@pytest.mark.parametrize(
    ("filename", "what"),
    [
        (ORPHAN, "a file that no row names"),
        (ORPHAN + ".tmp", "a temporary file that its writer left behind"),
        ("values/notes.txt", "a file that this program did not write"),
    ],
)
def test_a_file_too_many_is_found_and_only_it_is_removed(store: DiskStore, filename: str, what: str) -> None:
    store.put("a", LARGE)
    path = place(store, filename)
    assert store.verify() == [Problem(filename, what, 5, False)]
    assert path.exists()
    assert store.verify(fix=True) == [Problem(filename, what, 5, True)]
    assert not path.exists()
    assert store.get("a") == LARGE


def test_files_outside_the_folder_of_values_are_left_alone(store: DiskStore) -> None:
    store.put("a", LARGE)
    path = place(store, "notes.txt")
    assert store.verify(fix=True) == []
    assert path.exists()


def test_a_folder_of_values_that_leads_elsewhere_is_not_cleaned(store: DiskStore, tmp_path: Path) -> None:
    store.put("a", b"a")
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.write_bytes(b"")
    (store.directory / "values").symlink_to(precious.parent)
    assert store.verify(fix=True) == []
    assert precious.exists()


def test_a_file_in_the_hands_of_a_living_writer_is_no_problem(store: DiskStore) -> None:
    store.put("a", b"a")
    with values.published(store.directory, LARGE) as filename:
        assert store.verify(fix=True) == []
        store.clear()
        assert (store.directory / filename).read_bytes() == LARGE
    assert [problem.name for problem in store.verify(fix=True)] == [filename]


def test_a_row_committed_while_verify_looks_is_no_problem(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", LARGE)
    listing = values.listing

    def late(directory: Path) -> list[str]:
        store.put("b", LARGE)
        return list(listing(directory))

    monkeypatch.setattr(values, "listing", late)
    assert store.verify(fix=True) == []
    assert store.get("b") == LARGE


def test_an_entry_evicted_while_verify_looks_is_no_problem(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", LARGE)
    size_of = values.size_of

    def late(directory: Path, filename: str) -> int | None:
        store.delete("a")
        return size_of(directory, filename)

    monkeypatch.setattr(values, "size_of", late)
    assert store.verify() == []


def test_a_bad_entry_replaced_while_verify_looks_is_not_removed(store: DiskStore) -> None:
    store.put("a", b"bad")

    def check(name: str, data: bytes) -> str | None:
        if data != b"bad":
            return None
        store.put("a", b"good")
        return "bad"

    assert store.verify(check, fix=True) == []
    assert store.get("a") == b"good"


def test_what_the_check_finds_is_a_problem_and_only_that_entry_is_removed(store: DiskStore) -> None:
    store.put("small", b"bad")
    store.put("large", LARGE)
    store.put("good", b"good")

    def check(name: str, data: bytes) -> str | None:
        return None if data == b"good" else f"{name} starts with {data[:1]!r}"

    expected = [Problem("small", "small starts with b'b'", 3, False)]
    expected += [Problem("large", "large starts with b'x'", len(LARGE), False)]
    assert store.verify(check) == expected
    assert [problem.fixed for problem in store.verify(check, fix=True)] == [True, True]
    assert [entry.name for entry in store.entries()] == ["good"]


@pytest.mark.parametrize("statement", ["UPDATE Cache SET size = 7", "UPDATE Cache SET size = 'text'"])
def test_a_row_with_a_wrong_size_is_found_and_removed(store: DiskStore, statement: str) -> None:
    store.put("a", b"12345")
    with sqlite3.connect(store.directory / "cache.db") as database:
        database.execute(statement)
    assert [problem.name for problem in store.verify()][:1] == ["a"]
    store.verify(fix=True)
    assert list(store.entries()) == []


def test_counters_that_do_not_add_up_are_found_and_counted_anew(store: DiskStore) -> None:
    store.put("a", b"12345")
    with sqlite3.connect(store.directory / "cache.db") as database:
        database.execute("UPDATE Settings SET value = 99 WHERE key = 'size'")
    what = "the index counts 1 rows of 99 bytes, there are 1 rows of 5"
    assert store.verify() == [Problem("cache.db", what.replace("1 rows of 5", "1 of 5"), 0, False)]
    assert [problem.fixed for problem in store.verify(fix=True)] == [True]
    assert store.volume() == 5


def test_text_that_is_not_unicode_is_damage_of_its_row_alone(store: DiskStore) -> None:
    store.put("a", b"12345")
    store.put("b", b"12345")
    with sqlite3.connect(store.directory / "cache.db") as database:
        database.execute("UPDATE Cache SET key = CAST(x'61ff' AS TEXT) WHERE key = 'a'")
    assert [entry.name for entry in store.entries()] == ["b"]
    assert len(store.verify(fix=True)) == 1
    assert store.get("b") == b"12345"
