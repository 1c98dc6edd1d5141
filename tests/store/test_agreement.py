"""One rule book for every store: the same verbs leave the same entries."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aot_cache.errors import EntryTooLarge, StoreError
from aot_cache.store import disk
from aot_cache.store.base import Entry, Store
from aot_cache.store.disk import DiskStore
from aot_cache.store.memory import MemoryStore
from aot_cache.store.readonly import ReadonlyStore

LIMIT = 400
NAMES = st.sampled_from(["a", "a.1", "a.2", "ab", "b", "b-1", "B", "z", "_", "9"])
# Of many sizes, since those decide what is evicted, and recognizable.
SIZES = st.sampled_from([0, 1, 49, 50, 99, 133, 150, 380])
VALUES = st.builds(lambda size, byte: bytes([byte]) * size, SIZES, st.integers(0, 255))


def seen(store: Store, prefix: str = "") -> list[tuple[str, int, int]]:
    return [(entry.name, entry.size, entry.hits) for entry in store.entries(prefix)]


class Agreement(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # Values on both sides of what goes into a file.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(disk, "INLINE_BELOW", 50)
        self.directory = Path(tempfile.mkdtemp())
        self.memory = MemoryStore(LIMIT)
        self.disk = DiskStore(self.directory, LIMIT)
        self.readonly = ReadonlyStore(self.directory)

    def teardown(self) -> None:
        self.patch.undo()
        assert self.disk.verify() == self.readonly.verify() == []
        self.disk.close()
        self.readonly.close()
        shutil.rmtree(self.directory)

    @rule(name=NAMES, data=VALUES)
    def put(self, name: str, data: bytes) -> None:
        self.memory.put(name, data)
        self.disk.put(name, data)

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        expected = self.memory.get(name)
        assert self.readonly.get(name) == expected
        assert self.disk.get(name) == expected

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        assert self.disk.delete(name) == self.memory.delete(name)

    @rule(prefix=st.sampled_from(["a", "a.", "b", "c", "a/", "é"]))
    def list_prefix(self, prefix: str) -> None:
        assert seen(self.disk, prefix) == seen(self.readonly, prefix) == seen(self.memory, prefix)

    @invariant()
    def same_entries(self) -> None:
        assert seen(self.disk) == seen(self.readonly) == seen(self.memory)
        assert self.disk.volume() == self.readonly.volume() == self.memory.volume() <= LIMIT


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(params=["memory", "disk"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | DiskStore:
    return MemoryStore(LIMIT) if request.param == "memory" else DiskStore(tmp_path, LIMIT)


@pytest.mark.parametrize("name", ["", "a/b", "../a", "a b", "é", "a" * 201, "a\n", None, b"a", 1])
def test_what_is_no_name_is_refused_by_every_verb(any_store: MemoryStore | DiskStore, name: object) -> None:
    for verb in (lambda: any_store.get(name), lambda: any_store.put(name, b""), lambda: any_store.delete(name)):
        with pytest.raises(StoreError, match="is not a name"):
            verb()


@pytest.mark.parametrize("data", [None, "text", bytearray(b"a"), 1, object()])
def test_only_bytes_are_stored(any_store: MemoryStore | DiskStore, data: object) -> None:
    with pytest.raises(StoreError, match="not bytes"):
        any_store.put("a", data)
    assert any_store.get("a") is None


def test_a_value_larger_than_the_store_is_refused_and_the_old_one_stands(any_store: MemoryStore | DiskStore) -> None:
    any_store.put("a", b"old")
    with pytest.raises(EntryTooLarge, match=f"{LIMIT + 1} bytes"):
        any_store.put("a", b"x" * (LIMIT + 1))
    assert any_store.get("a") == b"old"


def test_the_largest_allowed_value_takes_the_place_of_all_others(any_store: MemoryStore | DiskStore) -> None:
    any_store.put("a", b"a")
    any_store.put("b", b"x" * LIMIT)
    assert [entry.name for entry in any_store.entries()] == ["b"]


def test_what_was_used_last_stays(any_store: MemoryStore | DiskStore) -> None:
    for name in "abcd":
        any_store.put(name, b"x" * 100)
    any_store.get("a")
    any_store.put("e", b"x")
    assert [entry.name for entry in any_store.entries()] == ["a", "c", "d", "e"]


def test_entries_tell_size_last_use_and_hits_since_the_last_put(
    any_store: MemoryStore | DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    any_store.put("a", b"old")
    any_store.get("a")
    any_store.put("a", b"value")
    monkeypatch.setattr("time.time", lambda: 2000.0)
    any_store.get("a")
    assert list(any_store.entries()) == [Entry("a", 5, 2000.0, 1)]


def test_the_readonly_store_refuses_to_write(tmp_path: Path) -> None:
    store = ReadonlyStore(tmp_path)
    for verb in (lambda: store.put("a", b""), lambda: store.delete("a"), lambda: store.verify(fix=True)):
        with pytest.raises(StoreError, match="reading only"):
            verb()
