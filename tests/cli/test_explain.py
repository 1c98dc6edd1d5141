"""explain: the last run, one key, two keys."""

from __future__ import annotations

import pytest

from aot_cache.artifact import alike
from aot_cache.cli.graph_text import difference
from aot_cache.key.parts import KeyPart
from aot_cache.outcome import Bypass, Failed, Reason
from aot_cache.store import runs

from .conftest import Run
from .reports import START, miss, parts, put, report, values
from .sample import Cache, damaged


def test_a_miss_names_the_nearest_entry_and_each_value_that_differs(empty: Cache, run: Run) -> None:
    near = put(empty, parts())
    put(empty, parts("other"), name="other")
    missed = miss(empty, parts(inputs="float32[8]", tuned=True), at=10)
    result = run("explain")
    assert result.code == 0
    assert result.facts["key"] == missed and result.facts["reason"] == Reason.ABSENT.value
    assert (result.facts["nearest"], result.facts["nearest.same"]) == (near, "graph")
    assert values(result.out, "differs") == [
        "inputs.0: float32[4] -> float32[8]", "config.inductor.max_autotune: False -> True",
    ]  # fmt: skip
    assert "train.py (process 7" in result.err and "miss: 1" in result.err


def test_a_miss_is_compared_with_the_cache_as_it_was_then(empty: Cache, run: Run) -> None:
    before = put(empty, parts(), at=5)
    miss(empty, parts(inputs="float32[8]"), at=10)
    put(empty, parts(inputs="float32[8]"), at=11)
    put(empty, parts(inputs="float32[9]"), at=12)
    assert run("explain").facts["nearest"] == before


def test_nothing_alike_is_said_and_not_listed(empty: Cache, run: Run) -> None:
    put(empty, parts("other"), name="other")
    miss(empty, parts(), at=10)
    result = run("explain")
    assert "none with this graph" in result.facts["nearest"] and values(result.out, "differs") == []


def test_a_graph_that_changed_shows_the_lines_that_did(empty: Cache, run: Run) -> None:
    put(empty, parts("a"), text="mul = mul(x, 2);  x = None  # f.py:3\nadd = add(mul, 1)\n")
    miss(empty, parts("b"), at=10)
    result = run("explain")
    assert values(result.out, "line") == [] and "does not show what differs" in result.out
    put(empty, parts("b"), at=11, text="# moved\nmul = mul(x, 3)  # f.py:9\nadd = add(mul, 1)\n")
    result = run("explain")
    assert result.facts["nearest.same"] == "name"
    assert values(result.out, "line") == ["- mul = mul(x, 2)", "+ mul = mul(x, 3)"]
    assert values(result.out, "differs") == ["graph: the lines below"]


def test_comments_and_frees_are_no_change() -> None:
    assert difference("a = f(x);  x = None\n# one\n", "\n  a = f(x)  # two\n") == []


def test_a_guard_that_did_not_hold_is_shown(empty: Cache, run: Run) -> None:
    put(empty, parts(), guards="s0 > 4")
    put(empty, parts(), guards="s0 < 2", at=20)
    miss(empty, parts(), at=10, reason=Reason.GUARD)
    result = run("explain")
    assert values(result.out, "guards") == ["s0 > 4"] and values(result.out, "nearest") == []


def test_a_bypass_and_a_failure_show_detail_and_remedy(empty: Cache, run: Run) -> None:
    op = "custom operator mylib::foo, at train.py:12 forward"
    report(empty, Bypass("graph", None, 0.1, Reason.UNKNOWN_CALLABLE, op, "register it"), at=1)
    report(empty, Failed("graph", "g-1.2", 0.1, Reason.WRITE, "no space"), at=2)
    result = run("explain")
    assert values(result.out, "detail") == [op, "no space"] and values(result.out, "remedy") == ["register it"]
    assert values(result.out, "outcome") == ["bypass", "failed"] and "\n\n" in result.out
    assert values(result.out, "reason") == [Reason.UNKNOWN_CALLABLE.value, Reason.WRITE.value]


def test_the_same_outcome_again_is_counted_and_not_repeated(empty: Cache, run: Run) -> None:
    for at in range(3):
        report(empty, Bypass("graph", None, 0.1 * at, Reason.BACKEND, "backend 'eager'"), at)
    result = run("explain")
    assert values(result.out, "outcome") == ["bypass"] and result.facts["times"] == "3" and "bypass: 3" in result.err


def test_only_the_last_process_is_explained(empty: Cache, run: Run) -> None:
    miss(empty, parts(), at=1, pid=1)
    last = miss(empty, parts("h"), at=2, pid=2)
    assert values(run("explain").out, "key") == [last]


def test_without_a_report_there_is_nothing_to_explain(empty: Cache, run: Run) -> None:
    result = run("explain")
    assert (result.code, result.out) == (0, "") and "no process has reported anything yet" in result.err and not empty.directory.exists()
    assert run("explain", "--json").json == {"warm": None, "process": None, "events": [], "looked_at": 0}


def test_a_report_of_another_version_is_left_out(empty: Cache, run: Run) -> None:
    empty.directory.mkdir(mode=0o700)
    for event in ({"what": 1}, {"time": "soon"}, {"parts": 3}):
        runs.append(empty.directory, START + 9, 9, event)
    assert run("explain").out == ""
    key = miss(empty, parts(), at=1)
    assert run("explain").facts["key"] == key


def test_the_last_run_as_json_has_everything_in_plain_values(empty: Cache, run: Run) -> None:
    near = put(empty, parts())
    missed = miss(empty, parts(tuned=True), at=10)
    answer = run("explain", "--json").json
    assert answer["process"] == {"started": START + 7, "pid": 7, "program": "train.py"} and answer["looked_at"] == 1
    (event,) = answer["events"]
    assert (event["outcome"], event["key"], event["times"], event["time"]) == ("miss", missed, 1, START + 10)
    assert event["nearest"] == {"key": near, "name": "f", "created": START, "same": "graph"}
    changed = {"part": "config", "name": "inductor.max_autotune", "old": "False", "new": "True"}
    assert event["differences"] == [changed] and event["lines"] == []


def test_one_key_has_its_nearest_other_entry_and_what_was_reported_of_it(empty: Cache, run: Run) -> None:
    near, key = put(empty, parts()), put(empty, parts(inputs="float32[8]"))
    put(empty, parts("other"), name="other", at=99)
    miss(empty, parts(inputs="float32[8]"), at=1, pid=1)
    report(empty, Failed("graph", f"g-{key}.0", 0.1, Reason.DAMAGED, "cut short"), at=2, pid=2)
    miss(empty, parts(), at=3, pid=3)
    result = run("explain", key[:12])
    assert result.code == 0 and result.facts["key"] == key and result.facts["nearest"] == near
    assert values(result.out, "differs") == ["inputs.0: float32[4] -> float32[8]"]
    assert values(result.out, "reported.miss") == [Reason.ABSENT.value]
    assert values(result.out, "reported.failed") == [f"{Reason.DAMAGED.value}: cut short"]
    reports = run("explain", key, "--json").json["reports"]
    assert [(one["pid"], one["outcome"], one["time"]) for one in reports] == [
        (2, "failed", START + 2), (1, "miss", START + 1),
    ]  # fmt: skip


def test_one_key_alone_has_nothing_near_it(empty: Cache, run: Run) -> None:
    key = put(empty, parts())
    result = run("explain", key)
    assert result.code == 0 and "no entry of another key" in result.err


def test_two_keys_show_what_differs_from_the_first_to_the_second(empty: Cache, run: Run) -> None:
    old, new = put(empty, parts()), put(empty, parts(tuned=True))
    assert run("explain", old, new).out == "differs\tconfig.inductor.max_autotune: False -> True\n"
    assert run("explain", new, f"g-{old[:16].upper()}").out == "differs\tconfig.inductor.max_autotune: True -> False\n"
    answer = run("explain", old, new, "--json").json
    assert (answer["old"], answer["new"], len(answer["differences"])) == (old, new, 1)


def test_a_key_does_not_differ_from_itself(empty: Cache, run: Run) -> None:
    key = put(empty, parts())
    result = run("explain", key, key)
    assert (result.code, result.out) == (0, "") and "nothing differs" in result.err


def test_a_key_that_only_a_report_knows_is_known(empty: Cache, run: Run) -> None:
    old = put(empty, parts())
    new = miss(empty, parts(tuned=True), at=1)
    assert run("explain", old, new).out == "differs\tconfig.inductor.max_autotune: False -> True\n"
    assert run("explain", new).facts["nearest"] == old


@pytest.mark.parametrize("arguments", [("ff",), ("{key}", "ff"), ("ff", "{key}"), ("ff", "ff", "--json")])
def test_an_unknown_key_is_a_no(empty: Cache, run: Run, arguments: tuple[str, ...]) -> None:
    key = put(empty, parts())
    assert not key.startswith("ff")
    result = run("explain", *(argument.format(key=key) for argument in arguments))
    assert (result.code, result.out) == (1, "") and "no graph or frame has the key 'ff'" in result.err


def test_an_ambiguous_prefix_is_a_no_with_the_candidates(empty: Cache, run: Run) -> None:
    keys = [put(empty, parts()), miss(empty, parts(tuned=True), at=1)]
    result = run("explain", "")
    assert (result.code, result.out) == (1, "") and all(key in result.err for key in keys)


def test_a_key_whose_entry_is_damaged_is_a_no(empty: Cache, run: Run) -> None:
    key = put(empty, parts())
    (name,) = empty.names()
    data = empty.store().get(name)
    assert data is not None
    empty.put((name, data[:60] + b"?" + data[61:]))
    result = run("explain", key)
    assert result.code == 1 and "cannot be read" in result.err and "damaged" in result.err


def test_a_damaged_text_only_costs_the_lines(empty: Cache, run: Run) -> None:
    old, new = put(empty, parts("a"), text="x"), put(empty, parts("b"), text="y")
    assert values(run("explain", old, new).out, "line") == ["- x", "+ y"]
    name = next(name for name in empty.names() if old in name)
    data = empty.store().get(name)
    assert data is not None
    empty.put((name, damaged(data)))
    result = run("explain", old, new)
    assert result.code == 0 and values(result.out, "line") == [] and len(values(result.out, "differs")) == 1


def test_a_terminal_gets_the_first_differences_and_a_pipe_all(
    empty: Cache, run: Run, request: pytest.FixtureRequest
) -> None:
    old, new = (tuple(KeyPart.of("inputs", v, {str(n): repr(v) for n in range(30)}) for _ in "1") for v in (b"a", b"b"))
    keys = put(empty, old), put(empty, new)
    assert len(values(run("explain", *keys).out, "differs")) == 30
    request.getfixturevalue("terminal")
    out = run("explain", *keys).out
    assert out.count("->") == 20 and "and 10 more" in out


def test_a_large_store_is_not_read_completely_and_that_is_said(
    empty: Cache, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        put(empty, parts(inputs=str(number)))
    miss(empty, parts(), at=1)
    assert "only the" not in run("explain").err
    monkeypatch.setattr(alike, "LOOKED_AT", 3)
    monkeypatch.setattr("aot_cache.cli.explain.LOOKED_AT", 3)
    assert "only the 3 entries that were used last" in run("explain").err


def test_looking_is_no_use_of_an_entry(empty: Cache, run: Run) -> None:
    key = put(empty, parts())
    miss(empty, parts(tuned=True), at=1)
    for arguments in ((), (key,), (key, key)):
        run("explain", *arguments)
    assert set(empty.hits().values()) == {0}


def test_control_characters_of_a_report_reach_no_terminal(empty: Cache, run: Run, terminal: None) -> None:
    report(empty, Bypass("graph", None, 0.1, Reason.BACKEND, "\x1b[2J\n"), at=1)
    result = run("explain")
    assert "\x1b" not in result.out and r"\x1b[2J\n" in result.out


def test_three_keys_are_usage(run: Run) -> None:
    assert run("explain", "a", "b", "c").code == 2
