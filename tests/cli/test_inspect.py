"""inspect: the list, one entry, prefixes, damage."""

from __future__ import annotations

import pytest

from .conftest import Run
from .sample import KEYS, TEXTS, Cache, damaged, entry


def test_the_list_has_every_graph_in_full_and_kernels_as_totals_on_stderr(cache: Cache, run: Run) -> None:
    result = run("inspect")
    assert result.code == 0
    assert sorted(row[0] for row in result.rows) == KEYS
    row = next(row for row in result.rows if row[0] == KEYS[2])
    assert row[2:6] == ["2023-11-14T22:13:20Z", "inference", "Model.forward", "0"]
    assert int(row[6]) == len(entry(KEYS[2], kind="inference", torch="2.12.0+cpu")[1])
    assert "kernels: 1 entry (304 B)" in result.err


def test_saved_is_compile_seconds_times_hits_and_looking_counts_no_hit(cache: Cache, run: Run) -> None:
    store = cache.store()
    name = entry(KEYS[0])[0]
    for _ in range(3):
        store.get(name)
    for _ in range(2):
        run("inspect", KEYS[0])
        listed = {one["key"]: one for one in run("inspect", "--json").json["graphs"]}
    assert (listed[KEYS[0]]["hits"], listed[KEYS[0]]["saved"]) == (3, 15.0)
    assert (listed[KEYS[1]]["hits"], listed[KEYS[1]]["saved"]) == (0, 0.0)


def test_on_a_terminal_keys_are_short_and_numbers_human(cache: Cache, run: Run, terminal: None) -> None:
    lines = run("inspect").out.splitlines()
    assert lines[0].split() == ["key", "made", "kind", "name", "hits", "size", "saved", "used"]
    assert "\t" not in "".join(lines)
    line = next(line for line in lines if line.startswith(KEYS[0][:12]))
    assert KEYS[0] not in line and "y ago" in line and "kB" in line and "just now" in line
    assert len({line.index("Model.forward") for line in lines[1:]}) == 1


def test_a_unique_prefix_shows_the_entry_with_parts_guards_and_sections(cache: Cache, run: Run) -> None:
    result = run("inspect", KEYS[1][:2].upper())
    assert result.code == 0
    facts = result.facts
    assert facts["key"] == KEYS[1] and facts["guards"] == "s0 > 4" and facts["kind"] == "training"
    assert facts["fact.torch"] == "2.13.0+cpu" and facts["seconds.backward"] == "3"
    assert facts["section.forward"] == "1000" and len(facts["part.graph"]) == 32 and facts["part.graph.nodes"] == "12"
    assert "placeholder" not in result.out


def test_graph_prints_the_text_sections_and_only_those(cache: Cache, run: Run) -> None:
    result = run("inspect", KEYS[0], "--graph")
    for name, text in TEXTS.items():
        assert f"# {name}\n{text.decode().rstrip()}\n" in result.out
    assert "ffff" not in result.out
    (one,) = run("inspect", KEYS[0], "--graph", "--json").json["graphs"]
    assert one["text"] == {name: text.decode() for name, text in TEXTS.items()}


def test_one_key_with_several_guards_shows_them_all(empty: Cache, run: Run) -> None:
    empty.put(entry(KEYS[0], "s0 > 4"), entry(KEYS[0], "s0 <= 4"))
    result = run("inspect", KEYS[0][:6], "--json")
    assert result.code == 0
    assert {one["guards"] for one in result.json["graphs"]} == {"s0 > 4", "s0 <= 4"}
    (one,) = run("inspect", entry(KEYS[0], "s0 > 4")[0], "--json").json["graphs"]
    assert one["guards"] == "s0 > 4"


def test_an_ambiguous_prefix_lists_the_candidates_and_is_a_no(cache: Cache, run: Run) -> None:
    result = run("inspect", "a")
    assert (result.code, result.out) == (1, "")
    assert KEYS[0] in result.err and KEYS[1] in result.err and KEYS[2] not in result.err


@pytest.mark.parametrize("key", ["ff", "not-hex", "a\x1b[31m", KEYS[0] + "0"])
def test_an_unknown_key_is_a_no(cache: Cache, run: Run, key: str) -> None:
    result = run("inspect", key)
    assert (result.code, result.out) == (1, "")
    assert "no graph or frame has the key" in result.err and "\x1b" not in result.err


def test_a_damaged_manifest_is_listed_as_damaged(cache: Cache, run: Run) -> None:
    name, data = entry(KEYS[0])
    cache.put((name, data[:60] + b"?" + data[61:]))
    result = run("inspect")
    assert result.code == 1 and len(result.rows) == 3
    assert ["damaged" in row[-1] for row in result.rows if row[0] == KEYS[0]] == [True]
    assert all(row[-1] == "" for row in result.rows if row[0] != KEYS[0])
    assert run("inspect", KEYS[0]).code == 1


def test_a_damaged_section_is_seen_when_its_entry_is_shown(cache: Cache, run: Run) -> None:
    name, data = entry(KEYS[0])
    cache.put((name, damaged(data)))
    result = run("inspect", KEYS[0], "--graph")
    assert result.code == 1 and "digest does not agree" in result.facts["problem"]


def test_an_entry_under_another_key_is_damaged(empty: Cache, run: Run) -> None:
    empty.put((entry(KEYS[1])[0], entry(KEYS[0])[1]))
    result = run("inspect", KEYS[1])
    assert result.code == 1 and KEYS[0] in result.facts["problem"]


def test_control_characters_of_an_entry_reach_no_terminal(empty: Cache, run: Run, terminal: None) -> None:
    empty.put(entry(KEYS[0], "s0\x1b[2J\t\n"))
    out = run("inspect", KEYS[0]).out
    assert "\x1b" not in out and r"s0\x1b[2J\t\n" in out


def test_graph_without_a_key_is_usage(cache: Cache, run: Run) -> None:
    assert run("inspect", "--graph").code == 2
