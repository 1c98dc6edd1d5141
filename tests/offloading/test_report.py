"""What the report says of plans, and of a step against them."""

from __future__ import annotations

from typing import Any

import pytest

from aot_cache.errors import BudgetTooSmall
from aot_cache.offloading import report
from aot_cache.offloading.options import Options
from aot_cache.offloading.place import unmoved
from aot_cache.offloading.planner import plan
from aot_cache.offloading.schedule import Budget, Link
from aot_cache.offloading.session import Planned, Session
from aot_cache.units import size

from .problems import chain

MIB = 2**20


@pytest.fixture
def session() -> Session:
    budget = Budget(5 * MIB, 1 << 40, 2 * MIB)
    found = plan([(1.0, chain([MIB] * 6, act_5="mutated later"))], Link(1e9, 1e9), budget, "unit")
    opened = Session(Options.of("5MB", None))
    opened.plans.append(Planned(found.schedule, found.problem, found.notes, "planned", "cpu"))
    return opened


def moved(session: Session) -> int:
    return sum(row.bytes for row in session.plans[0].schedule.rows)


def test_it_says_what_moves_what_may_not_and_why(session: Session) -> None:
    text = report.text(session, None)
    assert moved(session) > 0
    assert f"{size(moved(session))} each way" in text
    assert "1.0 MB may not move: mutated later" in text
    assert "budget 5.2 MB" in text
    assert "measured" not in text


def test_a_step_stands_against_the_plan(session: Session) -> None:
    text = report.text(session, report.Measured(out=moved(session), back=0, peak=3 * MIB))
    planned = size(moved(session))
    assert f"{planned} out and 0 B in; planned {planned} each" in text
    assert "memory above what there was before it: 3.1 MB; planned" in text


def test_memory_above_what_there_was_leaves_out_what_is_given(session: Session) -> None:
    (planned,) = session.plans
    peak = max(map(max, unmoved(planned.problem)))
    assert report.above(planned, with_plan=False) == peak - 10  # the weight
    assert report.above(planned) == peak - 10 - moved(session)


def test_failures_and_empty_blocks_say_so() -> None:
    opened = Session(Options.of("5MB", None))
    assert "nothing was planned" in report.text(opened, None)
    opened.failures.append(BudgetTooSmall(1, 2, "three"))
    assert "failed: a budget of 1 B cannot be met" in report.text(opened, None)


def test_a_step_on_the_cpu_is_measured_by_the_resident_set() -> None:
    kept: list[Any] = []
    with report.measured("cpu") as found:
        kept.append(bytearray(64 * MIB))
    assert found.peak == pytest.approx(64 * MIB, rel=0.05)
    assert (found.out, found.back) == (0, 0)
