from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aot_cache.errors import StoreError, UnsafeDirectory
from aot_cache.settings import Settings
from aot_cache.store.disk import INLINE_BELOW, DiskStore
from aot_cache.store.opening import check_directory, open_store
from aot_cache.store.readonly import ReadonlyStore

from .conftest import LIMIT, NOBODY, as_nobody

LARGE = b"x" * INLINE_BELOW
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to somebody else")


def settings(directory: Path, mode: str = "readwrite") -> Settings:
    return Settings.resolve({"directory": directory, "mode": mode, "size_limit": LIMIT}, {})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_missing_directory_is_made_for_this_user_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        check_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_is_refused_with_a_remedy(tmp_path: Path, bits: int) -> None:
    directory = tmp_path / "cache"
    directory.mkdir()
    directory.chmod(bits)
    for readonly in (False, True):
        with pytest.raises(UnsafeDirectory) as caught:
            check_directory(directory, readonly)
        for text in (str(directory), f"mode {bits:04o}", f"owner uid {os.geteuid()}", f"chmod 700 {directory}"):
            assert text in str(caught.value)
        assert "AOT_CACHE_DIR" in str(caught.value)


def test_a_directory_that_others_can_read_is_accepted(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    check_directory(tmp_path)


@pytest.mark.parametrize(("bits", "safe"), [(0o777, False), (0o770, False), (0o1777, True), (0o755, True)])
def test_a_parent_that_lets_others_replace_the_directory_is_refused(tmp_path: Path, bits: int, safe: bool) -> None:
    for directory in (tmp_path / "parent" / "cache", tmp_path / "parent" / "missing" / "cache"):
        (tmp_path / "parent").mkdir(exist_ok=True)
        (tmp_path / "parent").chmod(bits)
        if safe:
            check_directory(directory)
            continue
        with pytest.raises(UnsafeDirectory, match=f"its parent {tmp_path / 'parent'} could .*mode {bits:04o}"):
            check_directory(directory)
        assert not directory.exists()


def test_a_symbolic_link_is_followed_to_what_must_be_safe_too(tmp_path: Path) -> None:
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "open" / "cache")
    check_directory(tmp_path / "link")
    (tmp_path / "open").chmod(0o777)
    for path in (tmp_path / "link", tmp_path / "link" / "below"):
        with pytest.raises(UnsafeDirectory, match=f"its parent {tmp_path / 'open'}"):
            check_directory(path)


@root
def test_what_belongs_to_somebody_else_is_refused(tmp_path: Path) -> None:
    directory, target = tmp_path / "cache", tmp_path / "target"
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    os.chown(tmp_path / "link", NOBODY, NOBODY, follow_symlinks=False)
    for path in (directory, directory / "below", tmp_path / "link"):
        for readonly in (False, True):
            with pytest.raises(UnsafeDirectory, match=f"owner uid {NOBODY}"):
                check_directory(path, readonly)


def test_a_directory_of_root_is_accepted_for_reading_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def owned(function: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def stat_of(path: Path, **options: object) -> os.stat_result:
            found = function(path, **options)
            fields = list(found)
            fields[stat.ST_UID] = 0
            return os.stat_result(fields)

        return stat_of

    monkeypatch.setattr(os, "lstat", owned(os.lstat))
    monkeypatch.setattr(os, "stat", owned(os.stat))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    check_directory(tmp_path, readonly=True)
    with pytest.raises(UnsafeDirectory, match="owner uid 0, this process is uid 1234"):
        check_directory(tmp_path)


def test_a_path_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="[Nn]ot a directory"):
            check_directory(path)


def test_readwrite_and_refresh_open_a_store_that_writes(tmp_path: Path) -> None:
    for name in ("readwrite", "refresh"):
        opened = open_store(settings(tmp_path / "cache", name))
        assert isinstance(opened.store, DiskStore) and opened.reason == ""
        assert (opened.store.directory, opened.store.size_limit) == (tmp_path / "cache", LIMIT)


def test_readonly_reads_what_is_there_and_makes_nothing(tmp_path: Path) -> None:
    missing = open_store(settings(tmp_path / "missing", "readonly"))
    assert missing.store.get("a") is None and missing.reason == ""
    assert not (tmp_path / "missing").exists()
    DiskStore(tmp_path / "cache", LIMIT).put("a", LARGE)
    opened = open_store(settings(tmp_path / "cache", "readonly"))
    assert isinstance(opened.store, ReadonlyStore)
    assert opened.store.get("a") == LARGE
    assert [entry.hits for entry in opened.store.entries()] == [0]


def test_an_unsafe_directory_is_refused_in_every_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for name in ("readwrite", "refresh", "readonly"):
        with pytest.raises(UnsafeDirectory):
            open_store(settings(tmp_path, name))


def open_to_all(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


@pytest.mark.parametrize("closed", [True, False])
def test_a_directory_that_cannot_be_written_is_read_and_the_reason_told(shared: Path, closed: bool) -> None:
    """Whether its last writer has gone (no files of SQLite next to the index) or not."""
    directory = shared / "cache"
    writer = DiskStore(directory, LIMIT)
    writer.put("small", b"small")
    writer.put("large", LARGE)
    if closed:
        writer.close()
    assert (directory / "cache.db-wal").exists() != closed
    open_to_all(directory)

    def read() -> None:
        opened = open_store(settings(directory))
        assert isinstance(opened.store, ReadonlyStore)
        assert opened.reason == f"{directory} cannot be written by uid {os.geteuid()}"
        assert (opened.store.get("small"), opened.store.get("large")) == (b"small", LARGE)
        assert [entry.name for entry in opened.store.entries()] == ["large", "small"]
        assert opened.store.verify() == []

    assert as_nobody(read) == 0
    directory.chmod(0o755)


def test_a_reader_without_locks_sees_what_its_owner_writes_later(shared: Path) -> None:
    directory = shared / "cache"
    writer = DiskStore(directory, LIMIT)
    writer.put("a", b"old")
    writer.close()
    open_to_all(directory)
    to_child, from_parent = os.pipe()[::-1]
    from_child, to_parent = os.pipe()

    def read() -> None:
        store = ReadonlyStore(directory)
        assert store.get("a") == b"old"
        os.write(to_parent, b"x")
        os.read(from_parent, 1)
        assert store.get("a") == b"new"

    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(as_nobody(read)))
    thread.start()
    os.read(from_child, 1)
    directory.chmod(0o700)
    (directory / "cache.db").chmod(0o644)
    writer.put("a", b"new")
    writer.close()
    directory.chmod(0o555)
    os.write(to_child, b"x")
    thread.join()
    assert statuses == [0]


@pytest.mark.parametrize("closed", [True, False])
def test_a_writing_store_still_reads_where_it_cannot_write(shared: Path, closed: bool) -> None:
    directory = shared / "cache"
    writer = DiskStore(directory, LIMIT)
    writer.put("a", LARGE)
    if closed:
        writer.close()
    open_to_all(directory)

    def read() -> None:
        store = DiskStore(directory, LIMIT)
        assert store.get("a") == LARGE
        for verb in (lambda: store.put("b", LARGE), lambda: store.put("b", b""), lambda: store.delete("a")):
            with pytest.raises(StoreError, match=f"{directory}: "):
                verb()
        assert store.get("a") == LARGE

    assert as_nobody(read) == 0
    directory.chmod(0o755)


def test_a_store_writes_again_once_it_may(shared: Path) -> None:
    directory = shared / "cache"
    directory.mkdir()
    if os.geteuid() == 0:
        os.chown(directory, NOBODY, NOBODY)

    def write() -> None:
        store = DiskStore(directory, LIMIT)
        store.put("a", b"a")
        store.put("b", b"old")
        store.close()
        directory.chmod(0o500)
        assert store.get("a") == b"a"
        with pytest.raises(StoreError):
            store.put("b", b"b")
        directory.chmod(0o700)
        assert store.delete("a")
        store.put("b", b"b")
        assert store.get("b") == b"b"
        assert [entry.hits for entry in store.entries()] == [1]

    assert as_nobody(write) == 0
