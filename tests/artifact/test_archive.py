"""Archives: what goes in comes out, equal content gives equal bytes."""

from __future__ import annotations

import io
import random

import pytest
import sample_graphs

from aot_cache.artifact import archive
from aot_cache.errors import StoreError

LIMIT = 10**8
SHARED, OWN = sample_graphs.kernel(b"shared"), sample_graphs.kernel(random.Random(0).randbytes(50_000))
VALUES = dict([sample_graphs.graph("a", [SHARED, OWN]), sample_graphs.graph("b", [SHARED], guards="s0 > 4"), SHARED, OWN])


def write(values: dict[str, bytes], names: list[str] | None = None) -> bytes:
    file = io.BytesIO()
    archive.write(file, names or list(values), values.get, None, lambda done: None)
    return file.getvalue()


def opened(data: bytes, limit: int = LIMIT) -> archive.Archive:
    return archive.Archive(io.BytesIO(data), limit)


def test_what_goes_in_comes_out() -> None:
    found = opened(write(VALUES))
    assert {name: found.read(name) for name in found.rows} == VALUES


def test_equal_content_gives_equal_bytes_in_whatever_order_it_comes() -> None:
    names = list(VALUES)
    assert write(VALUES, names) == write(VALUES, names[::-1]) == write(VALUES, names + names)


def test_other_content_gives_other_bytes() -> None:
    name, data = sample_graphs.graph("a", [SHARED, OWN], content=b"another")
    assert name in VALUES and write(VALUES) != write({**VALUES, name: data})


def test_what_compresses_is_compressed_and_what_does_not_is_stored() -> None:
    rows = opened(write(VALUES)).rows
    assert rows[SHARED[0]].stored < rows[SHARED[0]].size / 10
    assert rows[OWN[0]].stored == rows[OWN[0]].size


def test_the_sizes_are_known_before_anything_is_read() -> None:
    rows = opened(write(VALUES)).rows
    assert {name: row.size for name, row in rows.items()} == {name: len(data) for name, data in VALUES.items()}


def test_a_check_gives_the_graphs_with_what_they_need_and_shows_progress() -> None:
    steps: list[int] = []
    graphs = opened(write(VALUES)).check(steps.append)
    assert {one.title: one.kernels for one in graphs} == {
        "Model.a": {SHARED[0], OWN[0]},
        "Model.b": {SHARED[0]},
    }
    assert all(one.key_is_ours and one.environment["cpu.vector"] is not None for one in graphs)
    assert steps == [1, 2, 3, 4]


def test_a_key_that_is_not_made_of_its_parts_is_told() -> None:
    name, data = sample_graphs.graph("a", key="0" * 32)
    assert archive.entry(name, data).key_is_ours is False


def test_an_archive_of_nothing_is_one() -> None:
    assert opened(write({})).check(lambda done: None) == []


def test_a_value_that_goes_while_it_is_written_is_an_error() -> None:
    with pytest.raises(StoreError, match="export again"):
        write(VALUES, [*VALUES, "k-" + "0" * 32])


def test_one_value_at_a_time_is_in_memory() -> None:
    names = [sample_graphs.kernel(b"%d" % number) for number in range(3)]
    alive: list[str] = []

    def get(name: str) -> bytes:
        alive.append(name)
        return dict(names)[name]

    file = io.BytesIO()
    archive.write(file, dict(names), get, None, lambda done: alive.append(str(done)))
    assert alive == [item for number, (name, _) in enumerate(sorted(names), 1) for item in (name, str(number))]
