"""Archives that are damaged, cut, foreign or made to harm: each is refused with an EnvelopeError that says why."""

from __future__ import annotations

import io
import json
import math
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sample_graphs

from aot_cache.artifact import archive
from aot_cache.errors import EnvelopeError, ForeignEntry
from aot_cache.key.parts import digest

LIMIT = 10**7
KERNEL = sample_graphs.kernel(b"k")
GRAPH = sample_graphs.graph("a", [KERNEL])
VALUES = dict([GRAPH, KERNEL])


def written(values: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    archive.write(file, values, values.get, None, lambda done: None)
    return file.getvalue()


SOUND = written(VALUES)


def crafted(header: Any, payload: bytes = b"", magic: bytes = archive.MAGIC, version: int = archive.FORMAT) -> bytes:
    """An archive whose header has a good digest, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<8sHI16s", magic, version, len(text), archive._blake(text)) + text + payload


def check(data: bytes, limit: int = LIMIT) -> list[archive.Carried]:
    return archive.Archive(io.BytesIO(data), limit).check(lambda done: None)


def test_the_sound_archive_is_accepted() -> None:
    assert [one.name for one in check(SOUND)] == [GRAPH[0]]


def test_every_length_but_the_whole_is_refused() -> None:
    near = {*range(200), *range(len(SOUND) - 50, len(SOUND)), *range(0, len(SOUND), 97)}
    for length in near:
        with pytest.raises(EnvelopeError):
            check(SOUND[:length])
    with pytest.raises(EnvelopeError, match="followed by something else"):
        check(SOUND + b"\0")


def test_every_changed_byte_is_noticed() -> None:
    for position in range(len(SOUND)):
        changed = SOUND[:position] + bytes([SOUND[position] ^ 0x41]) + SOUND[position + 1 :]
        with pytest.raises(EnvelopeError):
            check(changed)


def test_another_format_is_foreign() -> None:
    with pytest.raises(ForeignEntry, match="format 2"):
        check(crafted([], version=2))


@pytest.mark.parametrize("data", [b"", b"AOTCACHE" + b"\0" * 100, b"PK\x03\x04" + b"\0" * 100, GRAPH[1]])
def test_another_kind_of_file_is_named_as_such(data: bytes) -> None:
    with pytest.raises(EnvelopeError, match="not an archive"):
        check(data)


GOOD = [KERNEL[0], len(KERNEL[1]), len(KERNEL[1]), digest(KERNEL[1])]
HEADERS: dict[str, Any] = {
    "not JSON": b"[[",
    "deep": b"[" * 100_000,
    "an object": {"k-" + "0" * 32: GOOD},
    "a number": 7,
    "short row": [GOOD[:3]],
    "path": [["../../etc/passwd", *GOOD[1:]]],
    "absolute": [["/k-" + "0" * 32, *GOOD[1:]]],
    "other name in the store": [["r-last", *GOOD[1:]]],
    "capitals": [[KERNEL[0].upper(), *GOOD[1:]]],
    "newline": [[KERNEL[0] + "\n", *GOOD[1:]]],
    "no text": [[7, *GOOD[1:]]],
    "twice": [GOOD, GOOD],
    "wrong order": [["k-" + "f" * 32, *GOOD[1:]], GOOD],
    "negative": [[KERNEL[0], -1, -1, GOOD[3]]],
    "empty": [[KERNEL[0], 0, 0, GOOD[3]]],
    "fraction": [[KERNEL[0], 1.5, 1, GOOD[3]]],
    "switch": [[KERNEL[0], True, True, GOOD[3]]],
    "more stored than there is": [[KERNEL[0], 10, 11, GOOD[3]]],
    "no digest": [[KERNEL[0], 10, 10, None]],
    "large": [[KERNEL[0], 10**4000, 1, GOOD[3]]],
    "larger": b'[["k-' + b"0" * 32 + b'", 1' + b"0" * 5000 + b', 1, ""]]',
}


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_header_that_no_writer_makes_is_refused(name: str) -> None:
    with pytest.raises(EnvelopeError, match="header is not one of ours"):
        check(crafted(HEADERS[name], KERNEL[1]))


def test_a_header_longer_than_allowed_is_not_read() -> None:
    data = struct.pack("<8sHI16s", archive.MAGIC, archive.FORMAT, 2**32 - 1, b"\0" * 16)
    with pytest.raises(EnvelopeError, match="cut short"):
        check(data)


def test_more_than_the_store_may_hold_is_refused_before_it_is_read() -> None:
    total = sum(map(len, VALUES.values()))
    assert check(SOUND, total)
    with pytest.raises(EnvelopeError, match="AOT_CACHE_SIZE_LIMIT"):
        check(SOUND, total - 1)


@pytest.mark.parametrize("claimed", [1, 100_000])
def test_a_bomb_is_not_expanded_beyond_what_its_header_says(claimed: int) -> None:
    bomb = zlib.compress(b"\0" * 50_000_000, 9)
    data = crafted([["k-" + "0" * 32, len(bomb) + claimed, len(bomb), digest(bomb)]], bomb)
    del bomb
    tracemalloc.start()
    try:
        with pytest.raises(EnvelopeError, match="is not .* bytes in"):
            check(data)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_compressed_bytes_that_end_early_or_late_are_refused() -> None:
    value = b"v" * 5000
    for packed in (zlib.compress(value)[:-1], zlib.compress(value) + b"x", zlib.compress(value[:-1])):
        row = [f"k-{digest(value)}", len(value), len(packed), digest(packed)]
        with pytest.raises(EnvelopeError):
            check(crafted([row], packed))


def contents() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Archives of sound framing whose values are not what they say."""
    yield "needs k-", dict([GRAPH])
    yield "digest is not its name", {**VALUES, KERNEL[0]: KERNEL[1] + b"!"}
    yield "holds the entry", {"g-" + "0" * 32 + "." + "0" * 16: GRAPH[1], **dict([KERNEL])}
    yield "holds the entry", {GRAPH[0][:-1] + ("0" if GRAPH[0][-1] != "0" else "1"): GRAPH[1], **dict([KERNEL])}
    yield "do not start as an entry does", {**VALUES, GRAPH[0]: b"x" * 100}
    yield "digest does not agree", {**VALUES, GRAPH[0]: GRAPH[1][:-1] + b"!"}
    for created in (math.nan, math.inf):
        yield "no time", dict([sample_graphs.graph("a", created=created)])
    for extra in ({"kernels": 7}, {"kernels": {"libraries": 7}}, {"kernels": {"libraries": ["x"]}}):
        yield "not listed", dict([sample_graphs.graph("a", extra=extra)])
    for wrong in ("../x", 7, None, "F" * 32):
        yield "not listed", dict([sample_graphs.graph("a", extra={"kernels": {"libraries": [{"digest": wrong}]}})])


@pytest.mark.parametrize(("said", "values"), list(contents()))
def test_values_that_are_not_what_their_names_say_are_refused(said: str, values: dict[str, bytes]) -> None:
    with pytest.raises(EnvelopeError, match=said):
        check(written(values))


def test_reading_checks_again_so_a_file_that_changes_meanwhile_is_noticed() -> None:
    file = io.BytesIO(SOUND)
    opened = archive.Archive(file, LIMIT)
    opened.check(lambda done: None)
    change: Callable[[int], object] = lambda at: (file.seek(at), file.write(b"\xff\xff"))
    change(opened.rows[KERNEL[0]].offset + 3)
    with pytest.raises(EnvelopeError):
        opened.read(KERNEL[0])
