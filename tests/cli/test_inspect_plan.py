"""inspect --schedule: the record, the timeline, the drawing, and entries that have no plan or a bad one."""

from __future__ import annotations

import dataclasses
import json
import xml.dom.minidom
from pathlib import Path
from typing import Any

import pytest
from offloading.problems import chain

from aot_cache.artifact.envelope import Envelope, pack
from aot_cache.offloading import draw, record
from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Budget, Link, Schedule, parse, render

from .conftest import Run
from .sample import KEYS, Cache, entry

KIB = 1024


def planned() -> tuple[Problem, Schedule]:
    problem = chain([64 * KIB] * 6, act_2="mutated")
    budget = Budget(250 * KIB, 1 << 30, 128 * KIB)
    return problem, plan([(1.0, problem)], Link(1e5, 1e5), budget, "unit").schedule


def with_extra(extra: dict[str, Any], key: str = KEYS[0], guards: str | None = None) -> tuple[str, bytes]:
    name, data = entry(key, guards)
    opened = Envelope(data)
    sections = {section: bytes(opened.section(section)) for section in opened.names}
    return name, pack(dataclasses.replace(opened.manifest, extra=extra), sections)


def extra(**changed: Any) -> dict[str, Any]:
    problem, schedule = planned()
    return {"schedule": render(schedule), "problem": record.plain(problem), "kernels": {}, **changed}


def test_the_schedule_is_the_record_and_the_timeline_as_one_plan_that_can_be_given_back(empty: Cache, run: Run) -> None:
    problem, schedule = planned()
    assert schedule.rows
    empty.put(with_extra(extra()))
    result = run("inspect", KEYS[0], "--schedule")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(render(schedule))
    assert parse(result.out) == schedule
    for line in draw.text(schedule, problem).splitlines():
        assert f"# {line}".rstrip() in result.out.splitlines()


def test_the_schedule_as_json_has_record_timeline_and_numbers(empty: Cache, run: Run) -> None:
    problem, schedule = planned()
    empty.put(with_extra(extra()))
    (one,) = run("inspect", KEYS[0], "--schedule", "--json").json["schedules"]
    assert one["record"] == render(schedule)
    assert one["timeline"] == draw.text(schedule, problem)
    assert one["moved"] == 2 * sum(row.bytes for row in schedule.rows) > 0
    told = schedule.predict
    assert (one["peak_forward"], one["peak_backward"]) == (told.peak_forward, told.peak_backward)
    assert one["refused"] == {"it is an input": 10, "mutated": 64 * KIB}


def test_svg_draws_the_plan_into_the_file(empty: Cache, run: Run, tmp_path: Path) -> None:
    problem, schedule = planned()
    empty.put(with_extra(extra()))
    target = tmp_path / "plan.svg"
    assert run("inspect", KEYS[0], "--schedule", "--svg", str(target)).code == 0
    assert target.read_text() == draw.svg(schedule, problem)
    assert xml.dom.minidom.parse(str(target)).documentElement.tagName == "svg"


def test_a_drawing_that_cannot_be_written_is_a_no_that_says_so(empty: Cache, run: Run, tmp_path: Path) -> None:
    empty.put(with_extra(extra()))
    result = run("inspect", KEYS[0], "--schedule", "--svg", str(tmp_path / "none" / "plan.svg"))
    assert result.code == 1
    assert "nothing was drawn" in result.err


def test_an_entry_without_a_schedule_is_a_no_that_says_so(empty: Cache, run: Run, tmp_path: Path) -> None:
    empty.put(entry(KEYS[0]))
    target = tmp_path / "plan.svg"
    result = run("inspect", KEYS[0], "--schedule", "--svg", str(target))
    assert (result.code, result.out) == (1, "")
    assert "has no offload schedule" in result.err
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [("no problem", "cannot be read"), ("another graph", "made for other graphs"), ("no record", "title")],
    ids=["no-problem", "another-graph", "no-record"],
)
def test_a_plan_that_does_not_do_for_its_graphs_is_a_no_that_says_why(
    empty: Cache, run: Run, name: str, said: str
) -> None:
    other = record.plain(dataclasses.replace(planned()[0], forward_digest="fw2"))
    changed = {"no problem": {"problem": {}}, "another graph": {"problem": other}, "no record": {"schedule": "x"}}
    empty.put(with_extra(extra(**changed[name])))
    result = run("inspect", KEYS[0], "--schedule")
    assert (result.code, result.out) == (1, "")
    assert said in result.err
    assert said in run("inspect", KEYS[0]).facts["plan"]


def test_of_several_entries_each_plan_is_shown_and_none_is_drawn_unless_one_is_named(
    empty: Cache, run: Run, tmp_path: Path
) -> None:
    names = [with_extra(extra(), guards=guards) for guards in ("s0 > 4", "s0 <= 4")]
    empty.put(*names)
    target = tmp_path / "plan.svg"
    both = run("inspect", KEYS[0], "--schedule", "--svg", str(target))
    assert both.code == 1
    assert both.out.count("offload-plan 1") == 2
    assert not target.exists()
    for name, _ in names:
        assert name in both.out
        assert name in both.err
    assert run("inspect", names[0][0], "--schedule", "--svg", str(target)).code == 0
    assert target.exists()


def test_an_entry_shows_a_line_on_its_plan_and_not_the_plan_itself(empty: Cache, run: Run) -> None:
    _, schedule = planned()
    empty.put(with_extra(extra()))
    facts = run("inspect", KEYS[0]).facts
    assert facts["plan"].startswith(f"{len(schedule.rows)} of 7 saved storages move")
    assert "extra.schedule" not in facts and "extra.problem" not in facts
    assert facts["extra.kernels"] == "{}"


def test_a_long_list_is_counted_and_complete_as_json(empty: Cache, run: Run) -> None:
    libraries = [{"digest": f"{number:032x}", "bytes": 1} for number in range(20)]
    empty.put(with_extra({"kernels": {"libraries": libraries, "cpu": "avx2"}, "externs": ["a" * 30] * 10}))
    facts = run("inspect", KEYS[0]).facts
    assert facts["extra.kernels"] == "libraries: 20 (--json has all)"
    assert facts["extra.externs"] == "10 values (--json has all)"
    (one,) = run("inspect", KEYS[0], "--json").json["graphs"]
    assert one["extra"]["kernels"]["libraries"] == libraries


@pytest.mark.parametrize(
    "arguments",
    [("--schedule",), ("--svg", "x"), (KEYS[0], "--svg", "x"), (KEYS[0], "--schedule", "--graph")],
    ids=["no-key", "svg-alone", "svg-without-schedule", "graph-too"],
)
def test_a_combination_that_means_nothing_is_usage(empty: Cache, run: Run, arguments: tuple[str, ...]) -> None:
    empty.put(with_extra(extra()))
    assert run("inspect", *arguments).code == 2


def test_a_problem_comes_back_from_json_as_it_was() -> None:
    problem, _ = planned()
    assert record.problem(json.loads(json.dumps(record.plain(problem)))) == problem
