"""The cheapest schedule that meets a budget: longest slack first, and as much recomputation as pays. Pure: no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..errors import BudgetTooSmall, MustNotMove, OffloadError
from ..units import rounded_up, seconds, size
from .bound import lowest, shortest
from .choose import Choice, Chooser
from .improve import improved
from .problem import Problem, Storage
from .schedule import Budget, Link, Row, Schedule
from .simulate import Simulation

# Raise this whenever equal input gives another plan.
SOLVER = "slack-greedy-2"
# The candidates that are improved upon, of those that are cheapest before that.
IMPROVED = 8
# The smallest budget is told to so fine a share of it.
FINE = 2000


@dataclass(frozen=True)
class Plan:
    """A schedule, the problem that it is for, how a step goes with it, and why it is as it is, one text a reason."""

    schedule: Schedule
    problem: Problem
    simulation: Simulation
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Way:
    """One candidate that meets the budget. shortest: seconds that no plan of it can be under."""

    knob: float
    chooser: Chooser
    shortest: float
    choice: Choice


def plan(
    candidates: Sequence[tuple[float, Problem]],
    link: Link,
    budget: Budget,
    cost: str,
    at: Callable[[int], Budget] | None = None,
) -> Plan:
    """The plan with the shortest step by simulation, over candidates of (knob of the recomputation, its problem).

    Among equals the first candidate wins. cost: the name of the table that the steps' seconds come from. at: the budget
    if other bytes are asked for near; if left out, that with all other bounds as they are.

    Raises:
        BudgetTooSmall: no candidate can meet it; says what can be met, and what keeps it from less.
        MustNotMove: a storage that must be offloaded cannot be.
        OffloadError: there is no candidate.
    """
    if not candidates:
        raise OffloadError("there is nothing to plan: no pair of graphs was given")
    musts = max(sum(storage.must for storage in problem.storages) for _, problem in candidates)
    full = [(knob, problem) for knob, problem in candidates if sum(s.must for s in problem.storages) == musts]
    notes = {knob: f"recompute={knob}: it recomputes a storage that must be offloaded" for knob, _ in candidates}
    found = _ways(full, link, budget, notes)
    if not found:
        raise _too_small(
            [problem for _, problem in full], link, at or (lambda near: replace(budget, near=near)), budget
        )
    best = _best(found)
    told = [notes[knob] for knob, _ in candidates]
    told.append(f"the plan is that of recompute={best.knob}, improved: {_told(best.choice)}")
    least = min(shortest(problem, link, budget.near) for _, problem in full)
    told.append(f"no plan of these graphs can take less than {seconds(least)} a step")
    schedule = _schedule(best, link, budget, cost)
    reasons = best.chooser.reasons(best.choice)
    return Plan(schedule, best.chooser.problem, best.choice.simulation, (*told, *reasons))


def _ways(
    candidates: Sequence[tuple[float, Problem]], link: Link, budget: Budget, notes: dict[float, str]
) -> list[_Way]:
    """The candidates that meet the budget and may be the fastest; tells what became of each in `notes`."""
    bounds = [shortest(problem, link, budget.near) for _, problem in candidates]
    found: list[_Way] = []
    for index in sorted(range(len(candidates)), key=bounds.__getitem__):
        knob, problem = candidates[index]
        chooser = Chooser(problem, link, budget)
        if found and bounds[index] >= min(way.choice.cost[0] for way in found):
            notes[knob] = f"recompute={knob}: {seconds(bounds[index])} a step at least, which is too long"
        elif choice := chooser.rough():
            found.append(_Way(knob, chooser, bounds[index], choice))
            notes[knob] = f"recompute={knob}: {_told(choice)}"
        else:
            notes[knob] = f"recompute={knob}: the budget cannot be met"
    return found


def _best(found: Sequence[_Way]) -> _Way:
    """The fastest after improvement; the likeliest are improved first, and none that cannot win."""
    best = None
    for way in sorted(found, key=lambda way: way.choice.cost)[:IMPROVED]:
        if best is None or way.shortest < best.choice.cost[0]:
            better = replace(way, choice=improved(way.chooser, way.choice, way.shortest))
            best = better if best is None or better.choice.cost < best.choice.cost else best
    assert best is not None
    return best


def _told(choice: Choice) -> str:
    predict = choice.simulation.prediction
    return f"{seconds(predict.step)} a step, {len(choice.placement.outs)} storages move {size(predict.moved)}"


def _too_small(problems: Sequence[Problem], link: Link, at: Callable[[int], Budget], budget: Budget) -> BudgetTooSmall:
    """By how much: gallops up from what no plan can be under, then halves the rest."""
    known: dict[int, Chooser | None] = {}

    def meets(near: int) -> Chooser | None:
        if near not in known:
            known[near] = next(
                (one for one in map(partial(_chooser, link, at(near)), problems) if one and one.can()), None
            )
        return known[near]

    low = max(budget.near, min(map(lowest, problems)) - 1)
    high, stride = low + 1, 1
    while not meets(high):
        low, high, stride = high, high + stride, 2 * stride
    while high - low > max(1, high // FINE):
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    smallest = rounded_up(high) if meets(rounded_up(high)) else high
    chooser = meets(smallest)
    assert chooser is not None
    return BudgetTooSmall(budget.near, smallest, chooser.needed())


def _chooser(link: Link, budget: Budget, problem: Problem) -> Chooser | None:
    try:
        return Chooser(problem, link, budget)
    except MustNotMove:
        return None


def _schedule(best: _Way, link: Link, budget: Budget, cost: str) -> Schedule:
    problem, choice = best.chooser.problem, best.choice
    ins = {move.storage: move for move in choice.placement.ins}
    rows = []
    for out in choice.placement.outs:
        enter = ins[out.storage]
        steps = (
            problem.forward[out.issue - 1].name,
            problem.forward[out.wait].name,
            problem.backward[enter.issue].name,
            problem.backward[enter.wait].name,
        )
        storage: Storage = problem.by_name[out.storage]
        rows.append(Row(storage.name, storage.bytes, storage.kind, *steps, storage.replay))
    saved = sum(storage.saved for storage in problem.storages)
    graphs = (problem.forward_digest, problem.backward_digest, saved)
    return Schedule(*graphs, link, budget, cost, SOLVER, best.knob, choice.simulation.prediction.told, tuple(rows))
