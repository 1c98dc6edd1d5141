"""Values: equal ones have equal digests, different ones have different digests."""

from __future__ import annotations

import array
import collections
import copy
import datetime
import decimal
import math
import pathlib
import re
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.key.callables import Unidentified, identity, walk

from .callables_support import digest

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(datetime.timezone.utc)),
    st.timedeltas(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.frozensets(SCALARS, max_size=3),
        st.sets(SCALARS, max_size=3),
    ),
    max_leaves=8,
)


def is_number(value: object) -> bool:
    return type(value) in (bool, int, float, complex)


def exact(value: Any) -> object:
    """A form in which values are equal only if they are of the same type and have the same bits."""
    kind = type(value).__name__
    if isinstance(value, float):
        return kind, math.copysign(1.0, value), "nan" if math.isnan(value) else value
    if isinstance(value, complex):
        return kind, exact(value.real), exact(value.imag)
    if isinstance(value, dict):
        return kind, tuple((exact(k), exact(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return kind, tuple(exact(v) for v in value)
    if isinstance(value, (set, frozenset)):
        items = [exact(v) for v in value]
        return kind, tuple(items if all(map(is_number, value)) else sorted(items, key=repr))
    return kind, value


@given(VALUES)
def test_a_deep_copy_has_the_same_digest(value: object) -> None:
    copied = copy.deepcopy(value)
    # A set of numbers may lie in another order after it was filled anew.
    assert digest(value) == digest(copied) or exact(value) != exact(copied)


@given(VALUES, VALUES)
def test_two_values_have_one_digest_exactly_if_they_are_the_same(one: object, two: object) -> None:
    if "nan" not in repr((one, two)):
        assert (digest(one) == digest(two)) == (exact(one) == exact(two))


@given(st.lists(SCALARS, unique_by=repr, max_size=6), st.randoms())
def test_the_order_in_which_a_set_was_filled_counts_if_code_that_loops_over_it_sees_it_everywhere(
    items: list[Any], random: Any
) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    for kind in (set, frozenset):
        one, other = kind(items), kind(shuffled)
        if len(one) == len(items):
            is_seen = all(map(is_number, items)) and list(map(repr, one)) != list(map(repr, other))
            assert (digest(one) != digest(other)) == is_seen


def test_numbers_that_lie_in_another_order_make_another_set() -> None:
    one, other = {False, 8.0}, {8.0, False}
    assert list(one) != list(other)
    assert digest(one) != digest(other)


ALIKE = [0, False, 0.0, -0.0, 0j, complex(0.0, -0.0), "", b"", (), [], {}, set(), frozenset()]
ALIKE += [None, bytearray(), range(0)]
ALIKE += [1, True, 1.0, "1", b"1", (1,), [1], {1}, frozenset({1}), {1: 1}, float("nan"), "None", "nan"]
ALIKE += [(1, (2,)), ((1,), 2), (1, 2), ("a", "b"), ("ab",), ("a", "", "b"), ([1], [2]), ([1, 2],), [[1], 2], [1, [2]]]
ALIKE += [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}, {"a": 1}]
ALIKE += [collections.OrderedDict(a=1, b=2), collections.Counter("ab"), types.MappingProxyType({"a": 1})]
ALIKE += [collections.defaultdict(list, a=1), collections.defaultdict(int, a=1)]
ALIKE += [collections.deque([1]), collections.deque([1], 4), array.array("b", [1]), array.array("h", [1])]
ALIKE += [range(1), range(1, 2), slice(1), slice(1, None), slice(None, 1, None), slice(0, 1), slice([1], 2)]
ALIKE += [re.compile("a"), re.compile("b"), re.compile("a", re.I), re.compile(b"a"), "a"]
ALIKE += [pathlib.PurePosixPath("a"), pathlib.PureWindowsPath("a"), pathlib.PurePosixPath("a/b")]
ALIKE += [decimal.Decimal("1.0"), decimal.Decimal("1.00"), datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)]
ALIKE += [types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), types.SimpleNamespace(b=1), Ellipsis, NotImplemented]
ALIKE += [list[int], list[str], int | str, int | float, int, object]


def test_values_that_look_alike_are_told_apart() -> None:
    by_digest: dict[str, list[object]] = {}
    for value in ALIKE:
        by_digest.setdefault(digest(value), []).append(value)
    doubles = [group for group in by_digest.values() if len(group) > 1]
    # slice(1) is slice(None, 1, None).
    assert doubles == [[slice(1), slice(None, 1, None)]]


def test_every_kind_of_value_has_a_digest_that_a_copy_shares() -> None:
    for value in ALIKE:
        twin = value if isinstance(value, types.MappingProxyType) else copy.deepcopy(value)
        assert digest(value) == digest(twin), value


def test_an_integer_may_be_very_long() -> None:
    assert digest(10**5000) != digest(10**5000 + 1)


def test_a_lone_surrogate_is_a_value_too() -> None:
    assert digest("\udc80") != digest("?")


def test_which_parts_of_a_value_are_one_object_counts() -> None:
    part: list[int] = [1]
    assert digest([part, part]) == digest([part, part]) != digest([part, [1]])


def test_a_container_in_itself_ends() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    other: list[object] = [1]
    other.append([other])
    assert digest(loop) != digest(other)
    knot: dict[str, object] = {}
    knot["me"] = (knot, knot)
    assert digest(knot)


def test_a_set_may_hold_functions() -> None:
    assert digest({len, abs}) == digest({abs, len}) != digest({len, max})


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value: tuple[object, ...] = ()
    for _ in range(100_000):
        value = (value,)
    with pytest.raises(Unidentified, match="nested too deeply"):
        identity(value)


def test_a_long_chain_of_lists_is_not_too_deep() -> None:
    value: list[object] = []
    for _ in range(10_000):
        value = [value]
    assert digest(value) != digest([value])


def test_more_than_can_be_looked_at_in_reasonable_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    value = [[] for _ in range(2_000)]
    assert digest(value)
    monkeypatch.setattr(walk, "_MOST_VISITS", 1_000)
    with pytest.raises(Unidentified, match="too much"):
        identity(value)


class Opaque:
    def __init__(self, name: str) -> None:
        self.name = name
        self.handle = types.SimpleNamespace()


def test_the_callers_rule_for_values_is_asked_first() -> None:
    def values(obj: object) -> bytes | None:
        return obj.name.encode() if type(obj) is Opaque else None

    one, same, two = ([Opaque(name)] for name in ("a", "a", "b"))
    same[0].handle = types.SimpleNamespace(other=1)
    assert identity(one, values) == identity(same, values) != identity(two, values)
    assert identity(one[0], values) == identity(same[0], values) != identity(two[0], values)
    assert digest(one) != digest(same)


def test_the_callers_rule_may_name_a_further_object_to_follow() -> None:
    code: dict[str, Any] = {"a": [len]}

    def values(obj: object) -> tuple[bytes, object] | None:
        return (b"op", code[obj.name]) if type(obj) is Opaque else None

    op = Opaque("a")
    before = identity([op], values)
    assert identity([Opaque("a")], values) == before
    code["a"] = [abs]
    assert identity([op], values) != before
    code["a"] = [op]  # an operator whose code calls the operator
    assert identity([op], values)


def test_the_callers_rule_is_asked_in_sets_too() -> None:
    def values(obj: object) -> bytes | None:
        return obj.name.encode() if type(obj) is Opaque else None

    assert identity({Opaque("a")}, values) == identity({Opaque("a")}, values) != identity({Opaque("b")}, values)
