"""Encodings: no two different values share one, and no process gives a value another one."""

from __future__ import annotations

import enum
import math
import struct
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import FreshProcess

from aot_cache.key.encode import CannotKey, Encoder
from aot_cache.outcome import Reason

HASHABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
VALUES = st.recursive(
    HASHABLE
    | st.just(...)
    | st.builds(slice, st.integers(), st.integers(), st.none())
    | st.builds(range, st.integers(0, 9)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HASHABLE, inner, max_size=3) | st.tuples(inner),
    max_leaves=8,
)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Shade(enum.IntEnum):
    RED = 1


Pair = namedtuple("Pair", "a b")


def encode(*values: Any) -> bytes:
    encoder = Encoder()
    for value in values:
        encoder.value(value)
    return encoder.bytes()


def canonical(value: Any) -> Any:
    """Equal exactly for values that must share an encoding: typed, floats by their bits, sets without order."""
    kind = type(value).__name__
    if isinstance(value, float):
        return kind, struct.pack("<d", value)
    if isinstance(value, complex):
        return kind, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, (list, tuple)):
        return kind, tuple(map(canonical, value))
    if isinstance(value, dict):
        return kind, tuple((canonical(k), canonical(v)) for k, v in value.items())
    if isinstance(value, frozenset):
        return kind, frozenset(map(canonical, value)), len(value)
    if isinstance(value, slice):
        return kind, tuple(map(canonical, (value.start, value.stop, value.step)))
    if isinstance(value, range):
        return kind, value.start, value.stop, value.step
    return kind, value


@given(VALUES, VALUES)
@example(0.0, -0.0)
@example(1, True)
@example(1, 1.0)
@example("1", 1)
@example(b"a", "a")
@example([], ())
@example({}, set())
@example([[], []], [[[]]])
@example(("ab", "c"), ("a", "bc"))
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@example(range(0, 4, 2), range(0, 3, 2))
def test_two_values_share_an_encoding_exactly_if_they_are_the_same(a: Any, b: Any) -> None:
    assert (encode(a) == encode(b)) == (canonical(a) == canonical(b))


@given(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4))
def test_sequences_of_values_do_not_run_into_each_other(a: list[Any], b: list[Any]) -> None:
    assert (encode(*a) == encode(*b)) == (canonical(a) == canonical(b))


@given(VALUES, VALUES)
def test_no_encoding_starts_another(a: Any, b: Any) -> None:
    if canonical(a) != canonical(b):
        assert not encode(a).startswith(encode(b))


@given(st.lists(VALUES, max_size=5))
def test_what_an_encoder_saw_before_changes_no_encoding(values: list[Any]) -> None:
    assert encode(*values, *values) == b"".join(map(encode, values)) * 2


@given(st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=9)), max_size=3))
def test_tags_and_data_do_not_run_into_each_other(pairs: list[tuple[str, bytes]]) -> None:
    encoder = Encoder()
    for tag, data in pairs:
        encoder.tag(tag, data)
    rest, found = encoder.bytes(), []
    while rest:
        name, length = struct.unpack("<BQ", rest[:9])
        found.append((rest[9 : 9 + name].decode(), rest[9 + name : 9 + name + length]))
        rest = rest[9 + name + length :]
    assert found == pairs


def test_every_nan_keeps_its_bits() -> None:
    other = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    assert math.isnan(other) and encode(math.nan) != encode(other)
    assert encode(math.nan) == encode(math.nan)


def test_a_lone_surrogate_is_text_like_any_other() -> None:
    assert encode("\ud800") != encode("\ud801")


def test_subclasses_of_containers_are_not_the_plain_ones() -> None:
    assert len({encode(Pair(1, 2)), encode((1, 2)), encode([1, 2])}) == 3
    assert encode(OrderedDict(a=1)) != encode({"a": 1})


def test_enumerations_are_named_and_no_integers() -> None:
    assert len({encode(Color.RED), encode(Color.BLUE), encode(Shade.RED), encode(1)}) == 4


def test_fx_collections_are_the_plain_ones() -> None:
    from torch.fx.immutable_collections import immutable_dict, immutable_list

    assert encode(immutable_list([1, 2])) == encode([1, 2])
    assert encode(immutable_dict(a=1)) == encode({"a": 1})


@pytest.mark.parametrize("value", [object(), lambda: 0, [object()], {"a": {1: object()}}, {object()}, slice(object())])
def test_an_unknown_object_is_refused_by_its_type_and_never_by_its_address(value: Any) -> None:
    with pytest.raises(CannotKey) as caught:
        encode(value)
    assert caught.value.reason is Reason.UNKNOWN_OBJECT and "0x" not in str(caught.value)


def test_extend_teaches_new_values_also_inside_of_containers_and_sets() -> None:
    def extend(encoder: Encoder, value: Any) -> bool:
        if isinstance(value, type):
            encoder.text("class", value.__name__)
        return isinstance(value, type)

    def taught(value: Any) -> bytes:
        encoder = Encoder(extend)
        encoder.value(value)
        return encoder.bytes()

    assert len({taught(value) for value in (int, str, [int], (int,), {int}, {1: int}, "int")}) == 7
    with pytest.raises(CannotKey):
        taught([object()])


def test_the_encoding_is_the_same_in_every_process(fresh_process: FreshProcess) -> None:
    code = """
import hashlib, json
from aot_cache.key.encode import Encoder
encoder = Encoder()
encoder.value([{"b": {"x", "y", "z", ("q", 1)}, "a": frozenset("abcdefgh")}, 1.5, None, slice(1, None), "é"])
print(json.dumps(hashlib.sha256(encoder.bytes()).hexdigest()))
"""
    assert len({fresh_process(code, hashseed=seed) for seed in (0, 1, 2)}) == 1


def test_enumerations_of_one_name_and_different_values_differ() -> None:
    kinds: list[Any] = [enum.Enum, enum.IntEnum]
    for kind in kinds:
        members = [kind("Level", {"LOW": value}, module="program").LOW for value in (1, 2)]
        assert encode(members[0]) != encode(members[1])
