"""The table of tools/soundness as tests, and that its judge sees every kind of trouble."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import TOOLS

sys.path.append(str(TOOLS / "soundness"))

import changes  # noqa: E402
import runs  # noqa: E402
from table import Change, Expect, bypassed, guarded, other, same  # noqa: E402

BATCHED = [c for c in changes.TABLE if not c.env and runs.LIBRARIES not in c.before]
ALONE = [c for c in changes.TABLE if c not in BATCHED]
ROWS = """
graph code|opaque callables in a nested body|custom op: implementation|custom op: schema|custom ops from a loaded library
custom `autograd.Function`|tensor subclass|inputs: dtype|inputs: which share storage|inputs: storage offset|dynamic shapes
grad mode|autocast dtype and cache flag|SDPA back-end switches|saved-tensor hooks|selective checkpointing policies
Inductor and functorch configuration|functorch `joint_custom_pass`, node meta|Inductor custom passes|decomposition tables
monkey patches|CPU features|neutral
"""
# Kinds after which torch's own caches, which are on by default, go on with what the first process compiled.
FALSE_HITS_OF_TORCH = ["opaque_in_checkpoint", "op_backward", "op_composite_kernel", "joint_pass"]
FALSE_HITS_OF_TORCH += ["lowering", "pattern_replacement"]


@pytest.fixture(scope="module")
def batched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, runs.Verdict]:
    home = tmp_path_factory.mktemp("soundness")
    return {verdict.change.name: verdict for verdict in runs.run(BATCHED, home)}


@pytest.mark.parametrize("name", [c.name for c in BATCHED])
def test_a_change_has_the_effect_that_the_table_says(name: str, batched: dict[str, runs.Verdict]) -> None:
    assert batched[name].problems == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, runs.Verdict]:
    home = tmp_path_factory.mktemp("soundness")
    return {verdict.change.name: verdict for verdict in runs.run(ALONE, home)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [c.name for c in ALONE])
def test_a_change_of_the_surroundings_has_the_effect_that_the_table_says(
    name: str, alone: dict[str, runs.Verdict]
) -> None:
    assert alone[name].problems == []


def test_variables_that_must_not_matter_are_set_together_and_others_alone() -> None:
    neutral = [same(name, "x", env=env) for name, env in {"a": {"A": "1"}, "b": {"B": "1"}, "c": {"A": "2"}}.items()]
    material = Change("d", "row", Expect.OTHER_KEY, "x", "x", {"C": "1"})
    plain = same("e", "x")
    groups = [(env, [c.name for c in mine]) for env, mine in runs._surroundings([*neutral, material, plain])]
    assert groups == [({}, ["e"]), ({"A": "1", "B": "1"}, ["a", "b"]), ({"A": "2"}, ["c"]), ({"C": "1"}, ["d"])]


@pytest.mark.slow
def test_the_changes_are_such_that_torch_goes_wrong_after_them(tmp_path: Path) -> None:
    chosen = [c for c in changes.TABLE if c.name in FALSE_HITS_OF_TORCH]
    assert runs.stale(chosen, tmp_path) == dict.fromkeys(FALSE_HITS_OF_TORCH, True)


def test_the_table_has_every_row_and_enough_changes() -> None:
    assert {c.row for c in changes.TABLE} == set(ROWS.strip().replace("\n", "|").split("|"))
    assert len(changes.TABLE) >= 60
    assert sum(c.expect is Expect.SAME_KEY for c in changes.TABLE) >= 15


MISS, HIT = ["Miss", "ABSENT", "miss"], ["Hit", "", "hit"]
BYPASS = ["Bypass", "UNKNOWN_CALLABLE", "bypass: mylib::op"]


def seen(**roles: Any) -> dict[str, runs.Seen]:
    """What four processes tell: `role=(value, events)`."""
    return {
        role: {"values": value, "shown": value, "events": events, "error": ""} for role, (value, events) in roles.items()
    }


OTHER, SAME = other("a", "row", "x", ("x", "y")), same("a", "x")
BYPASSED, GUARDED = bypassed("a", "row", "x", "mylib::op", ("x", "y")), guarded("a", "row", "x", ("x", "y"))
FINE: dict[str, tuple[Change, dict[str, runs.Seen]]] = {
    "other": (OTHER, seen(before=("1", [MISS]), again=("1", [HIT]), after=("2", [MISS]), reference=("2", []))),
    "same": (SAME, seen(before=("1", [MISS]), again=("1", [HIT]), after=("1", [HIT]), reference=("1", []))),
    "bypass": (BYPASSED, seen(before=("1", [BYPASS]), again=("1", [BYPASS]), after=("2", [BYPASS]), reference=("2", []))),
    "guard": (GUARDED, seen(before=("1", [MISS]), again=("1", [HIT]), after=("2", [HIT, MISS]), reference=("2", []))),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_as_it_should_be_is_not_accused(name: str) -> None:
    assert runs.judge(*FINE[name]).problems == []


Spoil = Callable[[dict[str, runs.Seen]], Any]
SPOILT: list[tuple[str, str, Spoil, str]] = [
    ("unsound", "other", lambda s: s["after"].update(values="1"), "wrong values"),
    ("unsound", "same", lambda s: s["after"].update(values="2"), "wrong values"),
    ("unsound", "guard", lambda s: s["again"].update(values="2"), "wrong values when unchanged"),
    ("unsound", "other", lambda s: s["before"].update(values="2") or s["again"].update(values="2"), "does not matter"),
    ("unsound", "other", lambda s: s["after"].update(error="Traceback"), "Traceback"),
    ("spurious", "same", lambda s: s["after"].update(events=[MISS]), "after"),
    ("spurious", "other", lambda s: s["again"].update(events=[MISS]), "again"),
    ("silent", "other", lambda s: s["after"].update(events=[]), "nothing was looked up"),
    ("silent", "other", lambda s: s["after"].update(events=[BYPASS]), "mylib::op"),
    ("silent", "bypass", lambda s: s["after"].update(events=[["Bypass", "", "bypass"]]), "does not say"),
    ("", "bypass", lambda s: s["after"].update(events=[HIT]), "no bypass"),
    ("", "other", lambda s: s["after"].update(events=[HIT]), "hit"),
    ("", "other", lambda s: s["before"].update(events=[HIT]), "empty cache"),
    ("", "guard", lambda s: s["after"].update(events=[HIT]), "no guard"),
]


MISSED: dict[str, list[list[str]]] = {"before": [MISS], "again": [HIT], "after": [MISS], "reference": []}


def with_frames(name: str, **frames: list[list[str]]) -> tuple[Change, dict[str, runs.Seen]]:
    """One of FINE where frames were kept as well: a frame that was found looks up no graph."""
    change, good = FINE[name]
    found = {role: dict(result) | {"frames": (MISSED | frames)[role]} for role, result in good.items()}
    for result in found.values():
        if result["frames"] == [HIT]:
            result["events"] = []
    return change, found


@pytest.mark.parametrize(
    ("name", "after"), [("other", [MISS]), ("same", [HIT]), ("same", [MISS]), ("same", [BYPASS]), ("guard", [HIT, MISS])]
)
def test_frames_that_are_as_they_should_be_are_not_accused(name: str, after: list[list[str]]) -> None:
    assert runs.judge(*with_frames(name, after=after), frames=True).problems == []


@pytest.mark.parametrize(
    ("kind", "name", "frames", "complaint"),
    [
        ("silent", "same", {"again": []}, "again: nothing was looked up"),
        ("", "other", {"after": [HIT]}, "after: Hit"),
        ("", "same", {"after": [["Failed", "INTERNAL", "broken"]]}, "broken"),
        ("", "bypass", {"after": [HIT]}, "no bypass"),
        ("", "guard", {"after": [HIT]}, "no guard"),
        ("", "other", {"before": [HIT]}, "empty cache"),
    ],
    ids=["silent", "stale", "failed", "bypass", "guard", "at first"],
)
def test_trouble_with_frames_is_seen(kind: str, name: str, frames: dict[str, list[list[str]]], complaint: str) -> None:
    verdict = runs.judge(*with_frames(name, **frames), frames=True)
    assert complaint in "; ".join(verdict.problems)
    assert not kind or getattr(verdict, kind)


@pytest.mark.parametrize(("kind", "name", "spoil", "complaint"), SPOILT)
def test_trouble_of_every_kind_is_seen(kind: str, name: str, spoil: Spoil, complaint: str) -> None:
    change, good = FINE[name]
    spoilt = {role: dict(result) for role, result in good.items()}
    spoil(spoilt)
    verdict = runs.judge(change, spoilt)
    assert complaint in "; ".join(verdict.problems)
    if kind:
        assert getattr(verdict, kind)
