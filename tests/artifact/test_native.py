from __future__ import annotations

import importlib.util
import os
import select
import sys
import syslog
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aot_cache.artifact import native
from aot_cache.errors import EnvelopeError, NotSerializable
from aot_cache.key import machine
from aot_cache.key.parts import digest
from aot_cache.torch_compat import kernels

Ask = Callable[[str], Any]


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(native, "_served", {})
    kernels.install()
    yield
    kernels.uninstall()


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What is answered for a fingerprint inside `serve`: the stored function, or None where torch would build it."""
    monkeypatch.setattr(kernels, "isa", lambda: "avx2")
    return kernels._served


def extension(name: str) -> bytes:
    """A library like Inductor's: module `name` with a function `name`."""
    spec = importlib.util.find_spec(name)
    if spec is None or not str(spec.origin).endswith(".so"):
        pytest.skip(f"{name} is built into this python")
    return Path(str(spec.origin)).read_bytes()


def table(cpu: tuple[str, ...] = (), **libraries: bytes) -> dict[str, Any]:
    rows = [
        {"fingerprint": f"f-{name}", "digest": digest(data), "name": f"ckey.{name}", "bytes": len(data)}
        for name, data in libraries.items()
    ]
    return {"isa": "avx2", "cpu": list(cpu), "libraries": rows}


class Shelf(dict[str, bytes]):
    """A store's `get` on a dict; `asked` are the names in order."""

    def __init__(self, *libraries: bytes) -> None:
        super().__init__({native.store_name(digest(data)): data for data in libraries})
        self.asked: list[str] = []

    def __call__(self, name: str) -> bytes | None:
        self.asked.append(name)
        return self.get(name)


def test_a_library_is_loaded_from_its_bytes(ask: Ask) -> None:
    data = extension("select")
    with native.serve(table(select=data), Shelf(data)) as counts:
        function = ask("f-select")
    assert function.__name__ == "select" and function is not select.select
    assert function([], [], [], 0) == ([], [], [])
    assert (counts.loaded, counts.rebuilt) == (["f-select"], {})


def test_libraries_that_follow_each_other_on_one_descriptor_are_not_mistaken(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_private_file", lambda data: pytest.fail("memory did not do"))
    first, second = extension("select"), extension("syslog")
    before = set(os.listdir("/proc/self/fd"))
    with native.serve(table(select=first, syslog=second), Shelf(first, second)):
        assert ask("f-select").__self__.__name__.endswith("select")
        assert set(os.listdir("/proc/self/fd")) == before, "the first descriptor is free again"
        function = ask("f-syslog")
    assert function.__doc__ == syslog.syslog.__doc__


def test_loading_opens_no_file_for_writing(ask: Ask) -> None:
    data, opened, watching = extension("select"), [], [True]

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
            opened.append(args[0])

    sys.addaudithook(watch)
    try:
        with native.serve(table(select=data), Shelf(data)):
            assert ask("f-select")
    finally:
        watching.clear()
    assert opened == []


def test_without_memory_files_a_private_directory_serves_and_is_removed(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, seen = extension("select"), []
    original = native._import

    def look(module: str, path: str) -> Any:
        seen.append((Path(path).parent, Path(path).parent.stat().st_mode & 0o777))
        return original(module, path)

    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(native.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(native, "_import", look)
    with native.serve(table(select=data), Shelf(data)):
        assert ask("f-select")
    ((directory, mode),) = seen
    assert mode == 0o700 and directory.parent == tmp_path and list(tmp_path.iterdir()) == []


def test_a_library_is_fetched_and_loaded_once_a_process_also_for_threads(ask: Ask) -> None:
    data, functions = extension("select"), []
    shelf, start = Shelf(data), threading.Barrier(8)

    def load() -> None:
        with native.serve(table(select=data), shelf):
            start.wait()
            functions.append(ask("f-select"))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(functions) == 8 and len(set(map(id, functions))) == 1 and len(shelf.asked) == 1


def test_damaged_bytes_are_not_loaded(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    data = extension("select")
    monkeypatch.setattr(native, "_load", lambda *a: pytest.fail("damaged bytes reached the loader"))
    shelf = Shelf(data)
    for name in shelf:
        shelf[name] = data[:-1] + bytes([data[-1] ^ 1])
    with native.serve(table(select=data), shelf) as counts:
        assert ask("f-select") is None
    assert "damaged" in counts.rebuilt["f-select"] and not counts.loaded


def test_a_library_the_store_lost_is_rebuilt_and_the_others_served(ask: Ask) -> None:
    first, second = extension("select"), extension("syslog")
    with native.serve(table(select=first, syslog=second), Shelf(second)) as counts:
        assert ask("f-select") is None and ask("f-syslog")
    assert counts.loaded == ["f-syslog"] and "does not hold" in counts.rebuilt["f-select"]


def test_a_cpu_that_lacks_a_feature_gets_no_library(ask: Ask) -> None:
    data = extension("select")
    shelf = Shelf(data)
    with native.serve(table(("avx2", "avx512_fp16", "fma"), select=data), shelf, frozenset({"avx2", "fma"})) as counts:
        assert ask("f-select") is None
    assert counts.rebuilt == {"f-select": "this CPU lacks avx512_fp16"} and shelf.asked == []


def test_this_cpu_has_what_its_own_libraries_need(ask: Ask) -> None:
    data, features = extension("select"), native.cpu_features()
    assert features is not None and "hypervisor" not in features
    with native.serve(table(tuple(features), select=data), Shelf(data)) as counts:
        assert ask("f-select")
    assert not counts.rebuilt


def test_bytes_that_are_no_library_are_rebuilt(ask: Ask) -> None:
    data = b"\x7fELF of another machine" * 100
    with native.serve(table(kernel=data), Shelf(data)) as counts:
        assert ask("f-kernel") is None
    assert "cannot be loaded here" in counts.rebuilt["f-kernel"]


def test_a_library_without_the_function_is_rebuilt(ask: Ask) -> None:
    data = extension("select")
    with native.serve(table(kernel=data), Shelf(data)) as counts:
        assert ask("f-kernel") is None
    assert "PyInit_kernel" in counts.rebuilt["f-kernel"]


@pytest.mark.parametrize("bad", [{}, {"isa": "", "cpu": [], "libraries": [{"digest": "0"}]}, {"isa": "", "cpu": 1}])
def test_a_table_of_another_shape_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError, match="table of kernels"), native.serve(bad, Shelf()):
        pass


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes torch have built libraries, by wrapper, then by fingerprint: (bytes or None for a lost file, isa, level)."""
    wrappers: dict[str, dict[str, Any]] = {}

    def library(fingerprint: str) -> kernels.Built | None:
        found = {k: v for asked in wrappers.values() for k, v in asked.items()}.get(fingerprint)
        if found is None:
            return None
        path = tmp_path / f"{fingerprint}.main.so"
        if found[0] is not None:
            path.write_bytes(found[0])
        return kernels.Built(f"{fingerprint}.kernel", path, *found[1:])

    monkeypatch.setattr(kernels, "of_graph", lambda source: tuple(wrappers[source]) if source in wrappers else None)
    monkeypatch.setattr(kernels, "built", library)
    return lambda **new: wrappers.update(new)


def test_a_bundle_holds_equal_libraries_once_and_its_table_names_every_request(built: Callable[..., None]) -> None:
    same, other = (b"same", "avx2"), (b"other", "avx2")
    built(forward={"a": same, "b": other}, backward={"a": same, "c": same})
    made = native.bundle(["forward", "backward"])
    assert made.libraries == {digest(b"same"): b"same", digest(b"other"): b"other"} and made.left_out == {}
    rows = made.table["libraries"]
    assert [(r["fingerprint"], r["name"], r["bytes"]) for r in rows] == [
        ("a", "a.kernel", 4), ("b", "b.kernel", 5), ("c", "c.kernel", 4),
    ]  # fmt: skip
    assert made.table["isa"] == "avx2" and set(made.table["cpu"]) == native.cpu_features()


def test_a_bundle_says_what_it_leaves_out_and_keeps_the_instruction_set(
    built: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(forward={"a": (None, "avx2")})
    made = native.bundle(["forward", "unknown wrapper"])
    assert "file is gone" in made.left_out["a"] and made.table["libraries"] == [] and made.table["isa"] == "avx2"


def test_on_a_cpu_whose_features_are_unknown_nothing_is_bundled(
    built: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(forward={"a": (b"code", "avx2")})
    monkeypatch.setattr(native, "cpu_features", lambda: None)
    made = native.bundle(["forward"])
    assert made.libraries == {} and "unknown" in made.left_out["a"]


def test_a_graph_written_for_two_instruction_sets_is_not_bundled(built: Callable[..., None]) -> None:
    built(forward={"a": (b"one", "avx2"), "b": (b"two", "avx512")})
    with pytest.raises(NotSerializable, match="avx2, avx512"):
        native.bundle(["forward"])


def test_libraries_for_a_level_need_what_the_level_has_and_not_what_this_cpu_has(built: Callable[..., None]) -> None:
    built(forward={"a": (b"code", "avx2", "x86-64-v3")})
    needed = frozenset(native.bundle(["forward"], "x86-64-v3").table["cpu"])
    assert {flag for flag in needed if not flag.startswith("machine:")} == machine.LEVELS["x86-64-v3"]
    assert needed.isdisjoint(native._NOT_INSTRUCTIONS), "the check of a hit would leave them out of what a CPU has"


@pytest.mark.parametrize(("there", "wanted"), [("", "x86-64-v3"), ("x86-64-v4", "x86-64-v3"), ("x86-64-v3", "")])
def test_a_library_for_another_level_than_the_key_says_is_not_stored(
    built: Callable[..., None], there: str, wanted: str
) -> None:
    built(forward={"a": (b"code", "avx2", there)})
    with pytest.raises(NotSerializable, match=f"for {there or 'this CPU'}, and not for {wanted or 'this CPU'}"):
        native.bundle(["forward"], wanted)


def test_kernels_that_an_entry_served_are_bundled_again(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    data = extension("select")
    before, shelf = table(select=data), Shelf(data)
    with native.serve(before, shelf):
        assert ask("f-select")
    monkeypatch.setattr(kernels, "of_graph", lambda source: ("f-select",))
    made = native.bundle(["forward"])
    assert made.left_out == {} and made.libraries == {digest(data): data}
    assert made.table["libraries"] == before["libraries"] and made.table["isa"] == before["isa"]


def test_a_served_kernel_that_needs_more_than_the_level_has_is_not_bundled_for_it(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = extension("select")
    with native.serve(table(("avx512f",), select=data), Shelf(data), frozenset({"avx512f"})):
        assert ask("f-select")
    monkeypatch.setattr(kernels, "of_graph", lambda source: ("f-select",))
    with pytest.raises(NotSerializable, match="avx512f, and not for x86-64-v3"):
        native.bundle(["forward"], "x86-64-v3")


def test_a_served_kernel_that_the_store_lost_is_left_out(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    data = extension("select")
    shelf = Shelf(data)
    with native.serve(table(select=data), shelf):
        assert ask("f-select")
    shelf.clear()
    monkeypatch.setattr(kernels, "of_graph", lambda source: ("f-select",))
    made = native.bundle(["forward"])
    assert made.libraries == {} and "does not hold" in made.left_out["f-select"]
