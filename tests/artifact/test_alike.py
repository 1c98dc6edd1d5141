"""The stored graph most like a given one: read from the newest entries, without a mark on them."""

from __future__ import annotations

import pytest

from aot_cache.artifact import alike
from aot_cache.artifact.envelope import Manifest, pack
from aot_cache.key.parts import KeyPart
from aot_cache.store.memory import MemoryStore


def parts(graph: str, **config: str) -> tuple[KeyPart, ...]:
    return KeyPart.of("graph", graph.encode(), {}), KeyPart.of("config", repr(config).encode(), config)


def put(store: MemoryStore, key: str, *of: KeyPart, name: str = "f") -> None:
    manifest = Manifest(
        key=key, parts=of, name=name, kind="inference", guards=None, created=0.0, seconds={}, facts={}, extra={}
    )
    store.put(f"g-{key}", pack(manifest, {}))


def store(count: int = 0) -> MemoryStore:
    made = MemoryStore(10**7)
    for number in range(count):
        put(made, f"{number:04}", *parts("g", n=str(number)))
    return made


def test_the_difference_to_the_nearest_entry_is_one_line() -> None:
    made = store()
    put(made, "near", *parts("g", a="1"))
    put(made, "far", *parts("h", a="2"))
    assert alike.differences(made, "g-", "f", parts("g", a="2")) == "nearest entry near differs in config.a: 1 -> 2"


def test_many_differences_are_counted() -> None:
    made = store()
    put(made, "near", *parts("g", **{f"a{n:02}": "1" for n in range(25)}))
    text = alike.differences(made, "g-", "f", parts("g", **{f"a{n:02}": "2" for n in range(25)}))
    assert text.count("->") == 20 and text.endswith("; and 5 more")


def test_without_another_key_it_says_so() -> None:
    made = store()
    assert "no entry of another key" in alike.differences(made, "g-", "f", parts("g"))
    put(made, "same", *parts("g"))
    assert "no entry of another key" in alike.differences(made, "g-", "f", parts("g"))


def test_what_cannot_be_read_is_left_out() -> None:
    made = store(2)
    made.put("g-damaged", b"no entry")
    made.put("k-kernel", b"no graph")
    assert sorted(manifest.key for manifest in alike.recent(made, "g-")) == ["0000", "0001"]


def test_only_the_entries_that_were_used_last_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "LOOKED_AT", 2)
    made = store(4)
    used = {entry.name: entry.used for entry in made.entries()}
    newest = sorted(used, key=lambda name: used[name])[-2:]
    read = []
    get = made.get
    monkeypatch.setattr(made, "get", lambda name: read.append(name) or get(name))
    assert len(list(alike.recent(made, "g-"))) == 2
    assert sorted(read) == sorted(newest)
