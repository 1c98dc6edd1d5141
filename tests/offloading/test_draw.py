from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given

from aot_cache.offloading.draw import svg, text
from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Budget, Link, Schedule

from .problems import chain, plans

PROBLEM = chain([100] * 6)
SCHEDULE = plan([(1.0, PROBLEM)], Link(80.0, 100.0), Budget(450, 10**6, 200), "unit").schedule
PICTURE = """\
      610 B      ::|:
                :::|::
                :::|::
    450 B - ---####|#::----
               ####|#::
              #####|##::
              #####|##::
             ######|#####
             ######|#####
            #######|######
            #######|######
            #######|#######
            -------|-------
        out   >>>> |
         in        |   <<<
      waits        |
            forward backwar

peak 410 B forward, 410 B backward; without offload 610 B, 610 B
2 storages move 400 B; step 12 s, waits 0.0%
"""
SVG = "{http://www.w3.org/2000/svg}"


def test_the_text_shows_memory_with_and_without_transfers_and_the_budget() -> None:
    assert text(SCHEDULE, PROBLEM) == PICTURE


def test_waiting_shows_where_the_link_is_slow() -> None:
    lines = text(SCHEDULE, PROBLEM, Link(40.0, 100.0)).splitlines()
    assert next(line for line in lines if "waits" in line).split("waits")[1] == "     !! |"
    assert lines[-1] == "2 storages move 400 B; step 14 s, waits 14.3%"


@given(plans())
def test_any_plan_fits_a_hundred_columns(planned: tuple[Problem, Schedule]) -> None:
    problem, schedule = planned
    lines = text(schedule, problem).splitlines()
    assert max(map(len, lines)) <= 100
    rows = [line for line in lines if "|" in line]
    assert len({line.index("|") for line in rows}) == 1


def test_a_long_plan_fits_a_hundred_columns_and_a_small_file() -> None:
    problem = chain([100] * 1500)
    schedule = plan([(1.0, problem)], Link(100.0, 100.0), Budget(100_000, 10**6, 400), "unit").schedule
    assert max(map(len, text(schedule, problem).splitlines())) <= 100
    assert len(svg(schedule, problem)) < 150_000


def test_the_svg_has_both_areas_and_a_box_for_each_transfer() -> None:
    root = ElementTree.fromstring(svg(SCHEDULE, PROBLEM))
    assert len(root.findall(f"{SVG}polygon")) == 2
    titles = [title.text for title in root.iterfind(f"{SVG}rect/{SVG}title")]
    assert sorted(titles) == ["act_0: 100 B"] * 2 + ["act_1: 100 B"] * 2
    waiting = ElementTree.fromstring(svg(SCHEDULE, PROBLEM, Link(40.0, 100.0)))
    assert len(waiting.findall(f"{SVG}rect")) == 4 + 2


@given(plans())
def test_the_svg_of_any_plan_is_well_formed(planned: tuple[Problem, Schedule]) -> None:
    problem, schedule = planned
    root = ElementTree.fromstring(svg(schedule, problem))
    for polygon in root.iterfind(f"{SVG}polygon"):
        numbers = [float(n) for pair in polygon.get("points", "").split() for n in pair.split(",")]
        assert 0 <= min(numbers) <= max(numbers) <= 900


def test_a_problem_without_steps_or_bytes_is_drawn() -> None:
    problem = Problem((), (), (), "fw", "bw")
    schedule = plan([(1.0, problem)], Link(1.0, 1.0), Budget(0, 0, 0), "unit").schedule
    assert "0 storages move 0 B" in text(schedule, problem)
    ElementTree.fromstring(svg(schedule, problem))


def test_a_picture_is_the_same_each_time() -> None:
    again = replace(SCHEDULE, rows=SCHEDULE.rows[::-1])
    assert (text(again, PROBLEM), svg(again, PROBLEM)) == (text(SCHEDULE, PROBLEM), svg(SCHEDULE, PROBLEM))
