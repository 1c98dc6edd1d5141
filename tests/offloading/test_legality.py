from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot_cache.errors import IllegalSchedule
from aot_cache.offloading.legality import check, verify
from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Budget, Link, Row, Schedule

from .problems import chain, plans

PROBLEM = chain([100] * 6, act_5="mutated later")
GOOD = plan([(1.0, PROBLEM)], Link(100.0, 100.0), Budget(450, 1000, 200), "unit").schedule
FIRST, SECOND = GOOD.rows


def with_row(**changes: object) -> Schedule:
    return replace(GOOD, rows=(replace(FIRST, **changes), SECOND))  # type: ignore[arg-type]


def test_a_plan_is_legal_and_verifies_to_its_own_prediction() -> None:
    assert (FIRST.out_after, FIRST.free_at, FIRST.in_before, FIRST.need_at) == ("f1", "f3", "b4", "b5")
    assert check(GOOD, PROBLEM) == []
    assert verify(GOOD, PROBLEM) == GOOD.predict


def test_another_link_gives_another_step_with_the_same_bytes() -> None:
    found = verify(GOOD, PROBLEM, Link(10.0, 10.0))
    assert found.step > GOOD.predict.step
    assert found.moved == GOOD.predict.moved


BAD = {
    "before_the_last_use": (
        with_row(out_after="f0"),
        "act_0 goes out after f0, before its last use",
    ),
    "freed_first": (with_row(out_after="f3"), "act_0 is freed at f3, before it goes out after f3"),
    "waited_too_late": (with_row(need_at="output"), "act_0 is waited for at output, and b5 reads it before that"),
    "waited_first": (with_row(in_before="b5", need_at="b4"), "comes in before b5, and is waited for at b4 already"),
    "no_step": (with_row(out_after="f9"), "act_0: out-after is f9, which is no step of that half"),
    "other_half": (with_row(need_at="f3"), "act_0: need-at is f3, which is no step of that half"),
    "no_way_out": (with_row(out_after=None), "act_0: out-after is -, which is no step of that half"),
    "bytes": (with_row(bytes=99), "act_0 has bytes '100 B', and its row says '99 B'"),
    "replay": (with_row(replay=("t",)), "act_0 has replay '', and its row says 't'"),
    "kind": (with_row(kind="weight"), "act_0 is a row of kind weight, and only act can be checked"),
    "unknown": (with_row(storage="act_9"), "act_9 is no storage of these graphs"),
    "twice": (with_row(storage="act_1"), "act_1 has 2 rows"),
    "refused": (with_row(storage="act_5"), "act_5 may not be moved: mutated later"),
    "graphs": (replace(GOOD, backward="x"), "made for other graphs: forward fw1 and backward x, not fw1 and bw1"),
    "tensors": (replace(GOOD, tensors=3), "made for 3 saved storages, and there are 7"),
    "far": (replace(GOOD, budget=replace(GOOD.budget, far=199)), "the far tier takes 199 B, and the rows have 200 B"),
    "inflight": (replace(GOOD, budget=replace(GOOD.budget, inflight=199)), "200 B are on their way at f3, and 199 B"),
    "near": (replace(GOOD, budget=replace(GOOD.budget, near=409)), "410 B are near at f5, and 409 B are allowed"),
    "row_gone": (replace(GOOD, rows=(FIRST,)), "510 B are near at"),
    "peak": (replace(GOOD, predict=replace(GOOD.predict, peak_forward=1)), "the record tells peak_forward=1 B"),
    "moved": (replace(GOOD, predict=replace(GOOD.predict, moved=1)), "the record tells moved=1 B, and it is 400 B"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_illegal_schedule_is_refused_with_the_fault(name: str) -> None:
    schedule, complaint = BAD[name]
    with pytest.raises(IllegalSchedule) as caught:
        verify(schedule, PROBLEM)
    assert any(complaint in fault for fault in caught.value.faults), caught.value.faults


def test_a_storage_that_must_be_offloaded_needs_a_row() -> None:
    problem = replace(PROBLEM, storages=tuple(replace(s, must=s.name == "act_2") for s in PROBLEM.storages))
    assert check(GOOD, problem) == ["act_2 must be offloaded, and has no row"]


def test_every_fault_is_told() -> None:
    bad = replace(GOOD, rows=(replace(FIRST, bytes=1), replace(SECOND, free_at="f0")))
    assert len(check(bad, PROBLEM)) == 2


STEPS = ("out_after", "free_at", "in_before", "need_at")


@given(st.data())
def test_of_all_moves_of_one_step_just_those_that_lose_data_or_pass_a_bound_are_refused(data: st.DataObject) -> None:
    problem, schedule = data.draw(plans())
    budget = schedule.budget
    index = data.draw(st.integers(0, len(schedule.rows) - 1))
    column = data.draw(st.sampled_from(STEPS))
    half = problem.forward if column in STEPS[:2] else problem.backward
    row = replace(schedule.rows[index], **{column: data.draw(st.sampled_from(half)).name})
    rows = (*schedule.rows[:index], row, *schedule.rows[index + 1 :])
    assert bool(check(replace(schedule, rows=rows), problem)) == (
        loses_data(row, problem) or passes_a_bound(rows, problem, budget)
    )


def loses_data(row: Row, problem: Problem) -> bool:
    """By a walk over both halves that does what the row says, and sees what each reader finds."""
    storage, copied, near = problem.by_name[row.storage], False, True
    for index, step in enumerate(problem.forward):
        if step.name == row.free_at:
            if not copied:
                return True
            near = False
        if index <= storage.last_forward and (copied or not near):
            return True
        copied = copied or step.name == row.out_after
    if near:
        return True
    coming = False
    for index, step in enumerate(problem.backward):
        coming = coming or step.name == row.in_before
        if step.name == row.need_at:
            if not coming:
                return True
            near = True
        if storage.first_backward <= index <= storage.last_backward and not near:
            return True
    return False


def passes_a_bound(rows: tuple[Row, ...], problem: Problem, budget: Budget) -> bool:
    """By a plain count, step by step."""
    by_name = {row.storage: row for row in rows}
    for half, index in ((problem.forward, problem.forward_index), (problem.backward, problem.backward_index)):
        forward = half is problem.forward
        for step in range(len(half)):
            held = flying = 0
            for storage in problem.storages:
                row = by_name.get(storage.name)
                if forward:
                    end = len(half) if storage.saved else storage.free_from + 1
                    end = index[row.free_at or ""] if row else end
                    held += storage.bytes * (max(storage.produced, 0) <= step < end and storage.produced != -2)
                    flying += bool(row) and storage.bytes * (index[row.out_after] < step <= index[row.free_at])
                else:
                    begin = storage.first_backward if storage.produced == -2 else 0
                    begin = index[row.in_before] if row else begin
                    held += storage.bytes * (begin <= step <= storage.last_backward)
                    flying += bool(row) and storage.bytes * (index[row.in_before] <= step <= index[row.need_at])
            if held > budget.near or flying > budget.inflight:
                return True
    return False
