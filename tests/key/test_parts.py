"""Key parts: digests, differences in the user's terms, and the entry that is most like a key."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.key import parts
from aot_cache.key.parts import DEFAULT, CacheKey, Difference, KeyPart, diff, nearest

TEXT = st.text(max_size=8)
SUMMARY = st.dictionaries(TEXT.filter(lambda name: not name.endswith(DEFAULT)), TEXT, max_size=4)
PART = st.builds(KeyPart.of, st.sampled_from(["graph", "inputs", "config", "ambient"]), st.binary(max_size=4), SUMMARY)
KEY = st.lists(PART, max_size=4, unique_by=lambda part: part.name).map(tuple)


def part(name: str, data: bytes = b"", **summary: str) -> KeyPart:
    return KeyPart.of(name, data, summary)


def test_the_digest_is_fixed_so_that_processes_and_releases_agree() -> None:
    assert parts.digest(b"") == "cae66941d9efbd404e4d88758ea67670"
    assert parts.digest(b"abc") == "cf4ab791c62b8d2b2109c90275287816"


def test_the_digest_of_a_key_covers_version_names_digests_and_order() -> None:
    key = CacheKey((part("a", b"1"), part("b", b"2")))
    others = [
        CacheKey((part("b", b"2"), part("a", b"1"))),
        CacheKey((part("a", b"2"), part("b", b"2"))),
        CacheKey((part("c", b"1"), part("b", b"2"))),
        CacheKey((part("a", b"1"),)),
        CacheKey(()),
    ]
    assert len({key.digest, *(other.digest for other in others)}) == 6
    assert key.digest == CacheKey((part("a", b"1"), part("b", b"2"))).digest


def test_another_key_version_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = CacheKey((part("a"),))
    before = key.digest
    monkeypatch.setattr(parts, "KEY_VERSION", parts.KEY_VERSION + 1)
    assert key.digest != before


def test_the_summary_is_for_people_and_changes_no_key() -> None:
    assert CacheKey((part("a", b"1", x="1"),)).digest == CacheKey((part("a", b"1", x="2"),)).digest


def test_a_part_keeps_its_summary_as_it_was_when_it_was_made() -> None:
    summary = {"x": "1"}
    made = KeyPart.of("a", b"", summary)
    summary["x"] = "2"
    assert made.summary == {"x": "1"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]


@given(PART)
def test_a_part_survives_json(one: KeyPart) -> None:
    assert KeyPart.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_numbers_in_names_are_in_the_order_of_numbers() -> None:
    one = KeyPart.of("inputs", b"", dict.fromkeys(["10", "9.b", "9.a", "0", "a10", "a9"], ""))
    assert list(KeyPart.from_json(one.to_json()).summary) == ["0", "9.a", "9.b", "10", "a9", "a10"]


@pytest.mark.parametrize("data", [{}, {"name": "a", "digest": "b"}, {"name": "a", "digest": "b", "summary": []}])
def test_json_that_is_no_part_is_refused(data: dict[str, object]) -> None:
    with pytest.raises((KeyError, AttributeError)):
        KeyPart.from_json(data)


def test_a_changed_value_is_named_with_its_part_and_both_values() -> None:
    old = [part("graph", b"g"), part("config", b"1", a="1", b="2")]
    new = [part("graph", b"g"), part("config", b"2", a="1", b="3")]
    assert diff(old, new) == [Difference("config", "b", "2", "3")]
    assert str(diff(old, new)[0]) == "config.b: 2 -> 3"


def test_a_value_that_only_one_side_mentions_is_none_on_the_other() -> None:
    found = diff([part("inputs", b"1", a="x")], [part("inputs", b"2", b="y")])
    assert found == [Difference("inputs", "a", "x", None), Difference("inputs", "b", None, "y")]


def test_a_setting_that_only_one_side_changed_is_at_its_default_on_the_other() -> None:
    plain = part("config", b"1")
    changed = KeyPart.of("config", b"2", {"inductor.max_autotune": "True", f"inductor.max_autotune{DEFAULT}": "False"})
    assert [str(d) for d in diff([plain], [changed])] == ["config.inductor.max_autotune: False -> True"]
    assert [str(d) for d in diff([changed], [plain])] == ["config.inductor.max_autotune: True -> False"]


def test_a_default_that_moved_between_two_releases_is_no_difference_of_its_own() -> None:
    old = KeyPart.of("config", b"1", {"a": "1", f"a{DEFAULT}": "0"})
    new = KeyPart.of("config", b"2", {"a": "2", f"a{DEFAULT}": "9"})
    assert diff([old], [new]) == [Difference("config", "a", "1", "2")]


def test_a_part_whose_summary_does_not_show_the_change_is_named_by_its_digests() -> None:
    (found,) = diff([part("graph", b"1", nodes="3")], [part("graph", b"2", nodes="3")])
    assert found == Difference("graph", "digest", parts.digest(b"1"), parts.digest(b"2"))
    assert "does not show" in str(found)


def test_equal_digests_are_equal_whatever_the_summary_says() -> None:
    assert diff([part("graph", b"1", nodes="3")], [part("graph", b"1", nodes="4")]) == []


def test_a_part_that_one_key_lacks_is_a_difference() -> None:
    assert diff([], [part("a", b"1")]) == [Difference("a", "digest", None, parts.digest(b"1"))]
    assert diff([part("a", b"1", x="1")], []) == [Difference("a", "x", "1", None)]


@given(KEY, KEY)
def test_two_keys_differ_exactly_if_some_difference_is_named(a: tuple[KeyPart, ...], b: tuple[KeyPart, ...]) -> None:
    same = {(p.name, p.digest) for p in a} == {(p.name, p.digest) for p in b}
    assert (diff(a, b) == []) == same


@given(KEY, KEY)
def test_differences_backwards_are_the_same_with_the_sides_exchanged(
    a: tuple[KeyPart, ...], b: tuple[KeyPart, ...]
) -> None:
    there = {(d.part, d.name): (d.old, d.new) for d in diff(a, b)}
    back = {(d.part, d.name): (d.new, d.old) for d in diff(b, a)}
    assert there == back


@dataclass(frozen=True)
class Entry:
    parts: tuple[KeyPart, ...]
    name: str = "f"
    created: float = 0.0


def key(graph: str, inputs: str = "", config: str = "") -> tuple[KeyPart, ...]:
    return tuple(part(n, v.encode()) for n, v in (("graph", graph), ("inputs", inputs), ("config", config)))


MINE = key("g", "i", "c")
# Each is more like MINE than the one after it.
LIKENESS = [
    Entry(key("g", "i", "x"), created=9),
    Entry(key("g", "i", "x"), created=1),
    Entry(key("g", "y", "x"), created=9),
    Entry(key("g", "i", "x"), name="other", created=9),
    Entry(key("z", "i", "c"), created=1),
    Entry(key("z", "y", "x"), created=9),
    Entry(key("z", "i", "c"), name="other", created=9),
    Entry(key("z", "y", "x"), name="other"),
]


@pytest.mark.parametrize("first", range(len(LIKENESS)))
def test_the_graph_counts_most_then_the_name_then_equal_parts_then_the_date(first: int) -> None:
    rest = LIKENESS[first:]
    assert nearest("f", MINE, rest) is rest[0]
    assert nearest("f", MINE, rest[::-1]) is rest[0]


def test_among_equals_the_entry_with_the_fewest_differing_values_is_nearest() -> None:
    mine = (part("config", b"1", a="1", b="2", c="3"),)
    one = Entry((part("config", b"2", a="9", b="2", c="3"),), created=1)
    two = Entry((part("config", b"3", a="9", b="9", c="3"),), created=2)
    assert nearest("f", mine, [one, two]) is nearest("f", mine, [two, one]) is one


def test_a_frame_of_the_same_code_is_nearer_than_one_of_the_same_name() -> None:
    mine = (part("frame", b"1", code="c", module="m"),)
    code = Entry((part("frame", b"2", code="c", module="n"),), name="other", created=1)
    name = Entry((part("frame", b"3", code="d", module="m"),), created=2)
    assert nearest("f", mine, [code, name]) is nearest("f", mine, [name, code]) is code


def test_entries_of_the_same_key_are_not_near_but_equal() -> None:
    assert nearest("f", MINE, [Entry(MINE), LIKENESS[-1]]) is LIKENESS[-1]
    assert nearest("f", MINE, [Entry(MINE)]) is None
    assert nearest("f", MINE, []) is None
