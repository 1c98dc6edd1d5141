"""What a user asks for is checked before anything is compiled, and what decides a plan is told for the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aot_cache.errors import ScheduleSyntax, SettingError
from aot_cache.offloading.options import UNLIMITED, Options, finer
from aot_cache.offloading.schedule import Budget, Link, Prediction, Schedule, render


def of(**how: Any) -> Options:
    return Options.of(**{"budget": "4GB", "far": None, **how})


def record(near: int = 10) -> str:
    predict = Prediction(1, 1, 1.0, 0.0, 0)
    return render(Schedule("f", "b", 0, Link(1e9, 1e9), Budget(near, 20, 5), "c", "s", 1.0, predict, ()))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan"
    path.write_text(record())
    return path


def test_half_of_the_budget_may_be_on_its_way_and_the_far_tier_has_no_bound() -> None:
    assert of().budget == Budget(4 * 10**9, UNLIMITED, 2 * 10**9)


def test_another_amount_of_near_memory_has_the_bounds_that_asking_for_it_would_have_given() -> None:
    for how in ({}, {"inflight": "1MB"}, {"far_limit": 7}):
        assert of(**how).at(10**9) == of(budget="1GB", **how).budget


def test_what_decides_a_plan_is_told_as_a_record_tells_it() -> None:
    facts = of(link=(25e9, 1e9, 1e-5)).facts()
    assert (facts["near"], facts["far"], facts["inflight"]) == ("4GB", "unlimited", "2GB")
    assert facts["link"] == "d2h=25GB/s h2d=1GB/s lanes=1 latency=10us source=given"


def test_next_to_a_knob_are_two_that_are_shares() -> None:
    assert finer(0.5) == [0.45, 0.55]
    assert finer(1.0) == [0.95]


def test_bounds_that_are_given_count() -> None:
    assert of(inflight="1MB", far_limit=7).budget == Budget(4 * 10**9, 7, 10**6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("budget", "lots"),
        ("budget", None),
        ("budget", 0),
        ("budget", True),
        ("inflight", "-1"),
        ("far_limit", "x"),
        ("far", "tape"),
        ("far", "disk:"),
        ("far", "host:0"),
        ("link", 3),
        ("link", (1e9,)),
        ("link", (1e9, 0)),
        ("link", (1e9, True)),
        ("link", "12"),
        ("link", (1e9, float("inf"))),
        ("policy", "must"),
        ("plan", "/nowhere/at/all"),
    ],
    ids=lambda value: str(value),
)
def test_a_bad_value_is_refused_by_its_name(name: str, value: Any) -> None:
    how = {name: value} if name != "plan" else {"plan": value, "budget": None}
    with pytest.raises(SettingError) as caught:
        of(**how)
    assert caught.value.name == name


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="the directory must be there"):
        of(far=f"disk:{tmp_path / 'absent'}")


def test_a_directory_is_taken_as_it_is_spelled_after_the_colon(tmp_path: Path) -> None:
    path = tmp_path / "a:b"
    path.mkdir()
    assert (of(far=f"disk:{path}").kind, of(far=f"disk:{path}").directory) == ("disk", path)


def test_the_default_directory_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert of().directory == tmp_path


def test_a_plan_brings_its_own_budget(plan: Path) -> None:
    assert of(budget=None, plan=plan).budget == Budget(10, 20, 5)


@pytest.mark.parametrize(("name", "value"), [("budget", "4GB"), ("inflight", 1), ("far_limit", 1), ("link", (1, 1))])
def test_what_a_plan_has_must_not_be_given_beside_it(plan: Path, name: str, value: Any) -> None:
    with pytest.raises(SettingError, match="left out where a plan is given"):
        of(**{"budget": None, "plan": plan, name: value})


def test_a_policy_must_not_be_given_beside_a_plan(plan: Path) -> None:
    with pytest.raises(SettingError, match="policy"):
        of(budget=None, plan=plan, policy=lambda storage: None)


def test_a_damaged_plan_names_its_line(plan: Path) -> None:
    plan.write_text(record().replace("fw=f", "fw=/"))
    with pytest.raises(ScheduleSyntax, match="line 2"):
        of(budget=None, plan=plan)


@pytest.mark.parametrize(
    "how",
    [{"budget": "3GB"}, {"inflight": "1GB"}, {"far_limit": "9GB"}, {"link": (1e9, 1e9)}],
    ids=lambda how: next(iter(how)),
)
def test_facts_tell_what_decides_a_plan(how: dict[str, Any]) -> None:
    assert of(**how).facts() != of().facts()


def test_facts_tell_one_plan_from_another(plan: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(record(11))
    same = tmp_path / "same"
    same.write_text(record())
    facts = {path.name: of(budget=None, plan=path).facts() for path in (plan, other, same)}
    assert facts["plan"] == facts["same"] != facts["other"]


def test_facts_do_not_tell_where_the_far_tier_is(tmp_path: Path) -> None:
    assert of(far=f"disk:{tmp_path}").facts() == of(far="disk").facts() == of().facts()


def test_comments_and_blank_lines_of_a_plan_make_no_other_key(plan: Path) -> None:
    plain = of(budget=None, plan=plan)
    plan.write_text("\n# by hand\n" + record().replace("\n", "\n\n") + "# the end\n")
    assert of(budget=None, plan=plan).facts() == plain.facts()
    plan.write_text(record(near=11))
    assert of(budget=None, plan=plan).facts()["plan"] != plain.facts()["plan"]
