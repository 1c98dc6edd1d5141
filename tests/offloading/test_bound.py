"""No plan is faster than what is said to be the least; and that is not far below what can be had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.offloading.bound import compute, lowest, shortest
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Link

from . import brute
from .problems import chain, links, plans, problems

DIGITS = 1e-5  # that a record has of seconds


@given(st.data())
def test_a_plan_is_never_faster_than_what_is_said_to_be_the_least(data: st.DataObject) -> None:
    problem, schedule = data.draw(plans())
    least = shortest(problem, schedule.link, schedule.budget.near)
    assert compute(problem) <= least <= schedule.predict.step * (1 + DIGITS)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_all_is_never_faster_than_what_is_said_to_be_the_least(seed: int) -> None:
    problem, link, budget = brute.stack(seed, 4)
    best = brute.best_of_all(problem, link, budget)
    assert best is not None
    assert shortest(problem, link, budget.near) <= best * (1 + 1e-9)


def test_the_least_that_a_step_takes_counts_what_the_link_cannot_do_beside_it() -> None:
    # act_0 is done with at 2 and takes 2 seconds. Within 310 bytes it must be gone when f3 begins, at 3; within 210
    # when f2 does, at 2, and act_1, which is done with after f2, when f3 does.
    problem = chain([100] * 4)
    assert shortest(problem, Link(50.0, 1e9), 310) == pytest.approx(8.0 + 1.0)
    assert shortest(problem, Link(50.0, 1e9), 210) == pytest.approx(8.0 + 2.0 + 2.0)
    assert shortest(problem, Link(1e9, 1e9), 410) == compute(problem) == 8.0
    assert shortest(problem, Link(1e9, 1e9), 109) == float("inf")


def test_storages_move_whole() -> None:
    # One byte too many is a storage of 100, which takes 4 seconds from 2 on, and is to be gone when f3 begins, at 3.
    problem = chain([100] * 4, act_1="pinned", act_2="pinned", act_3="pinned")
    assert shortest(problem, Link(25.0, 1e9), 409) == pytest.approx(8.0 + 3.0)


@given(problems(), links)
def test_with_room_for_the_peak_the_least_is_what_computing_takes(problem: Problem, link: Link) -> None:
    peak = max(map(max, brute.unmoved(problem)))
    assert shortest(problem, link, peak) == compute(problem)
    assert shortest(problem, link, lowest(problem) - 1) == float("inf")


def test_of_small_stacks_the_least_is_close_to_the_best_of_all() -> None:
    found = []
    for seed in range(20):
        problem, link, budget = brute.stack(seed, 4)
        best = brute.best_of_all(problem, link, budget)
        assert best is not None
        found.append(best / shortest(problem, link, budget.near) - 1)
    assert sum(found) / len(found) < 0.1
