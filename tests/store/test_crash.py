"""Processes that die or meet in the middle of a write: every value is complete or absent, no row is left dangling."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aot_cache.store import values
from aot_cache.store.disk import INLINE_BELOW, DiskStore

from .conftest import forked

LARGE = b"x" * INLINE_BELOW
LIMIT = 600_000
ROOT = Path(__file__).parents[2]

WRITER = """
import hashlib, random, sys
from aot_cache.store.disk import DiskStore
directory, limit, seed, turns = sys.argv[1], *map(int, sys.argv[2:])
store, chance = DiskStore(directory, limit), random.Random(seed)
for turn in range(turns):
    body = chance.randbytes(chance.choice([10, 40_000, 90_000]))
    store.put(f"name{chance.randrange(20)}", hashlib.sha256(body).digest() + body)
    store.get(f"name{chance.randrange(20)}")
    if turn % 7 == 0:
        store.delete(f"name{chance.randrange(20)}")
    print(turn, flush=True)
"""


def writer(directory: Path, seed: int, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(directory), str(LIMIT), str(seed), str(turns)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def incomplete(name: str, data: bytes) -> str | None:
    return None if hashlib.sha256(data[32:]).digest() == data[:32] else "the value is not what was put"


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_writer_leaves_complete_values_and_no_dangling_row(tmp_path: Path) -> None:
    directory, chance = tmp_path / "cache", random.Random(0)
    store = DiskStore(directory, LIMIT)
    for seed in range(6):
        process = writer(directory, seed, 10**6)
        for _ in range(chance.randrange(1, 40)):
            assert process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        left = store.verify(incomplete)
        assert [problem for problem in left if not problem.name.startswith("values/")] == []
        assert len(left) <= 2
        assert [problem.fixed for problem in store.verify(incomplete, fix=True)] == [True] * len(left)
        assert store.verify(incomplete) == []
        assert len(list(store.entries())) > 0


@pytest.mark.parametrize(
    ("step", "patch", "after"),
    [
        ("before the file has its name", lambda: setattr(values.os, "replace", die), b"old"),
        ("before the row is written", lambda: setattr(DiskStore, "_write_row", die), b"old"),
        ("before the old file is removed", lambda: setattr(values, "remove", die), LARGE),
    ],
)
def test_a_put_killed_at_any_step_leaves_the_old_or_the_new_value(
    store: DiskStore, step: str, patch: Callable[[], None], after: bytes
) -> None:
    old = b"old" * INLINE_BELOW
    store.put("a", old)

    def dying() -> None:
        patch()
        store.put("a", LARGE)

    assert forked(dying) == -signal.SIGKILL
    assert store.get("a") == (old if after == b"old" else after)
    left = store.verify(fix=True)
    assert [problem.fixed for problem in left] == [True]
    assert left[0].name.startswith("values/")
    assert store.get("a") == (old if after == b"old" else after)


def test_an_eviction_killed_before_it_removes_files_leaves_no_dangling_row(store: DiskStore) -> None:
    store.put("a", LARGE)

    def dying() -> None:
        values.remove = die
        store.delete("a")

    assert forked(dying) == -signal.SIGKILL
    assert store.get("a") is None
    assert [problem.what for problem in store.verify(fix=True)] == ["a file that no row names"]


def test_two_processes_that_put_and_evict_at_once_keep_the_store_whole(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    processes = [writer(directory, seed, 60) for seed in (1, 2)]
    store = DiskStore(directory, LIMIT)
    while any(process.poll() is None for process in processes):
        for entry in store.entries():
            data = store.get(entry.name)
            assert data is None or incomplete(entry.name, data) is None
    for process in processes:
        assert len(process.communicate()[0].split()) == 60
        assert process.returncode == 0
    assert store.verify(incomplete) == []
    assert 0 < store.volume() <= LIMIT + 100_000
    store.put("last", b"")
    assert store.volume() <= LIMIT
