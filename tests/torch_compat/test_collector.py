"""The collector of cyclic garbage does not run while torch's compiler is imported and a hit is loaded, and runs after."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from support import FreshProcess

from aot_cache.torch_compat import collector


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """The collections that begin meanwhile."""
    begun: list[str] = []

    def note(phase: str, info: object) -> None:
        begun.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)


def garbage() -> None:
    """More than any threshold."""
    kept = [[] for _ in range(10 * gc.get_threshold()[0])]
    assert kept


def test_nothing_is_collected_inside_and_something_is_outside(collections: list[str]) -> None:
    with collector.paused():
        collections.clear()
        garbage()
        assert collections == []
    garbage()
    assert collections


def test_what_was_made_inside_is_old_afterwards_and_sets_nothing_off(collections: list[str]) -> None:
    with collector.paused():
        kept = [[] for _ in range(100 * gc.get_threshold()[0])]
        collections.clear()
    assert not collections and gc.get_count()[0] < gc.get_threshold()[0]
    assert any(kept is one for one in gc.get_objects(generation=2)) and gc.get_freeze_count() == 0


def test_what_the_caller_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector.paused():
            pass
        assert gc.get_freeze_count() == frozen > 0
    finally:
        gc.unfreeze()


def test_garbage_of_the_caller_is_collected_before() -> None:
    class Node:
        pass

    node = Node()
    node.me, gone = node, weakref.ref(node)  # type: ignore[attr-defined]
    del node
    with collector.paused():
        assert gone() is None


def test_it_runs_again_after_an_exception() -> None:
    with pytest.raises(KeyError), collector.paused():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector.paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_of_overlapping_pauses_the_last_to_end_turns_it_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collector.paused():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with collector.paused():
        thread.start()
        inside.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


IMPORTING = """
import gc, json, sys
import torch
if sys.argv[1] == "on":
    import aot_cache
    aot_cache.enable()
begun = []
gc.callbacks.append(lambda phase, info: begun.append(phase))
import torch._dynamo.convert_frame
torch.compile(torch.nn.Linear(1, 1))
gc.callbacks.clear()
print(json.dumps([len(begun), gc.isenabled()]))
"""


def test_torchs_compiler_is_imported_almost_without_collections(fresh_process: FreshProcess) -> None:
    without, _ = fresh_process(IMPORTING, "off", env={"AOT_CACHE": "0"})
    begun, is_on = fresh_process(IMPORTING, "on")
    assert is_on
    assert begun < without / 3
