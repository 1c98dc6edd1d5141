"""The file format: what is packed comes back, and nothing that was damaged does."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.artifact import envelope
from aot_cache.artifact.envelope import FORMAT, HEADER_BYTES, MAGIC, Envelope, Manifest, pack
from aot_cache.errors import EnvelopeError, ForeignEntry
from aot_cache.key.parts import KeyPart

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
PARTS = st.lists(st.builds(KeyPart.of, TEXT, st.binary(max_size=4), st.dictionaries(TEXT, TEXT, max_size=2)), max_size=3)
MANIFESTS = st.builds(
    Manifest,
    key=TEXT, parts=PARTS.map(tuple), name=TEXT, kind=TEXT, guards=st.none() | TEXT, created=FINITE,
    seconds=st.dictionaries(TEXT, FINITE, max_size=2), facts=st.dictionaries(TEXT, TEXT, max_size=2),
    extra=st.dictionaries(TEXT, PLAIN, max_size=2),
)  # fmt: skip
SECTIONS = st.dictionaries(TEXT, st.binary(max_size=40), max_size=3)

PLAIN_MANIFEST = Manifest(
    key="k" * 32, parts=(KeyPart.of("graph", b"g", {"nodes": "3"}),), name="f", kind="training", guards=None,
    created=1.5, seconds={"forward": 2.0}, facts={"torch": "2"}, extra={},
)  # fmt: skip
PACKED = pack(PLAIN_MANIFEST, {"result": b"0123456789", "empty": b"", "text.forward": b"abc"})


def opened_completely(data: bytes) -> Envelope:
    found = Envelope(data)
    found.check()
    return found


def repacked(change: Any) -> bytes:
    """PACKED with another manifest under a header that agrees with it."""
    length = struct.unpack_from("<I", PACKED, 10)[0]
    body = json.loads(PACKED[HEADER_BYTES : HEADER_BYTES + length])
    text = change(body)
    text = text if isinstance(text, bytes) else json.dumps(body if text is None else text).encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    header = struct.pack("<8sHI16s", MAGIC, FORMAT, len(text), digest)
    return header + text + PACKED[HEADER_BYTES + length :]


@given(MANIFESTS, SECTIONS)
def test_manifest_and_sections_come_back(manifest: Manifest, sections: dict[str, bytes]) -> None:
    found = opened_completely(pack(manifest, sections))
    assert found.manifest == manifest
    assert {name: bytes(found.section(name)) for name in found.names} == sections
    assert found.names == list(sections)
    assert found.sizes() == {name: len(data) for name, data in sections.items()}


@given(MANIFESTS, SECTIONS)
def test_the_same_content_gives_the_same_bytes(manifest: Manifest, sections: dict[str, bytes]) -> None:
    copy = Envelope(pack(manifest, sections)).manifest
    assert pack(copy, sections) == pack(manifest, sections)


def test_the_header_is_laid_out_as_documented() -> None:
    magic, version, length, digest = struct.unpack_from("<8sHI16s", PACKED)
    text = PACKED[30 : 30 + length]
    assert (magic, version, HEADER_BYTES) == (b"AOTCACHE", 1, 30)
    assert digest == hashlib.blake2b(text, digest_size=16).digest()
    body = json.loads(text)
    assert body["key"] == "k" * 32 and [s[:2] for s in body["sections"]] == [
        ["result", 10], ["empty", 0], ["text.forward", 3],
    ]  # fmt: skip
    assert PACKED[30 + length :] == b"0123456789abc"


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_seen(flip: int) -> None:
    for at in range(len(PACKED)):
        damaged = PACKED[:at] + bytes([PACKED[at] ^ flip]) + PACKED[at + 1 :]
        with pytest.raises(EnvelopeError):
            opened_completely(damaged)


def test_a_flipped_byte_of_the_manifest_or_header_is_seen_before_any_section_is_read() -> None:
    for at in range(len(PACKED) - len(b"0123456789abc")):
        with pytest.raises(EnvelopeError):
            Envelope(PACKED[:at] + bytes([PACKED[at] ^ 1]) + PACKED[at + 1 :])


def test_every_truncation_is_seen_at_once() -> None:
    for length in range(len(PACKED)):
        with pytest.raises(EnvelopeError):
            Envelope(PACKED[:length])


@given(st.binary(min_size=1, max_size=40))
def test_bytes_after_the_end_are_seen(more: bytes) -> None:
    with pytest.raises(EnvelopeError, match="bytes instead of"):
        Envelope(PACKED + more)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_no_entry(data: bytes) -> None:
    with pytest.raises(EnvelopeError):
        Envelope(data)


@given(st.binary(max_size=60))
def test_an_arbitrary_rest_after_the_magic_is_no_entry(data: bytes) -> None:
    with pytest.raises(EnvelopeError):
        Envelope(MAGIC + data)


def test_sections_that_changed_places_are_seen() -> None:
    one, other = (pack(PLAIN_MANIFEST, {"a": data, "b": rest}) for data, rest in ((b"11", b"22"), (b"22", b"11")))
    mixed = one[:-4] + other[-4:]
    with pytest.raises(EnvelopeError, match="'a' is damaged"):
        opened_completely(mixed)


def test_an_undamaged_section_is_readable_beside_a_damaged_one() -> None:
    found = Envelope(PACKED[:-1] + b"?")
    assert bytes(found.section("result")) == b"0123456789"
    with pytest.raises(EnvelopeError, match="text.forward"):
        found.section("text.forward")


def test_another_format_is_foreign_and_said_so_before_anything_is_parsed() -> None:
    other = PACKED[:8] + struct.pack("<H", FORMAT + 1) + b"no manifest that this program could read"
    with pytest.raises(ForeignEntry, match=f"format {FORMAT + 1}"):
        Envelope(other)


def test_a_length_beyond_reason_is_refused_without_reading() -> None:
    huge = struct.pack("<8sHI16s", MAGIC, FORMAT, 2**32 - 1, b"\0" * 16)
    with pytest.raises(EnvelopeError, match="cut short"):
        Envelope(huge + b"x" * 100)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: b"not json",
        lambda body: b"\xff\xfe",
        lambda body: [],
        lambda body: {},
        lambda body: body.pop("key") and None,
        lambda body: body.update(parts=[{"name": "graph"}]),
        lambda body: body.update(parts=7),
        lambda body: body.update(created="yesterday"),
        lambda body: body.update(seconds=[1]),
        lambda body: body.update(extra=None),
        lambda body: body.update(sections=[["result", -10, ""]]),
        lambda body: body.update(sections=[["result", "10", ""]]),
        lambda body: body.update(sections=[["result", 10]]),
        lambda body: body.update(sections=[[["result"], 10, ""]]),
    ],
)
def test_a_manifest_of_the_wrong_shape_is_damage_even_if_its_digest_agrees(change: Any) -> None:
    with pytest.raises(EnvelopeError):
        Envelope(repacked(change))


def test_sections_that_do_not_add_up_are_damage() -> None:
    with pytest.raises(EnvelopeError, match="instead of"):
        Envelope(repacked(lambda body: body["sections"].pop() and None))


def test_a_manifest_may_say_more_than_this_version_knows() -> None:
    assert Envelope(repacked(lambda body: body.update(later=1))).manifest == PLAIN_MANIFEST


def test_a_missing_section_is_an_error_that_names_it() -> None:
    with pytest.raises(EnvelopeError, match="'nothing'"):
        Envelope(PACKED).section("nothing")


def test_a_section_is_a_view_and_no_copy() -> None:
    assert Envelope(PACKED).section("result").obj is PACKED


def test_what_is_checked_is_what_was_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "_digest", lambda data: b"\0" * 16)
    forged = pack(dataclasses.replace(PLAIN_MANIFEST, name="other"), {"a": b"1"})
    monkeypatch.undo()
    with pytest.raises(EnvelopeError, match="digest"):
        Envelope(forged)
