"""The cheapest schedule that meets a budget: longest slack first, and as much recomputation as pays. Pure: no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BudgetTooSmall, OffloadError
from .choose import Choice, Chooser
from .problem import Problem, Storage
from .schedule import Budget, Link, Row, Schedule
from .simulate import Simulation

# Raise this whenever equal input gives another plan.
SOLVER = "slack-greedy-1"
# The candidates that are improved upon, of those that are cheapest before that.
IMPROVED = 3


@dataclass(frozen=True)
class Plan:
    """A schedule, the problem that it is for, how a step goes with it, and why it is as it is, one text a reason."""

    schedule: Schedule
    problem: Problem
    simulation: Simulation
    notes: tuple[str, ...]


def plan(candidates: Sequence[tuple[float, Problem]], link: Link, budget: Budget, cost: str) -> Plan:
    """The plan with the shortest step by simulation, over candidates of (knob of the recomputation, its problem).

    Among equals the first candidate wins. cost: the name of the table that the steps' seconds come from.

    Raises:
        BudgetTooSmall: no candidate can meet it; says what can be met, and what keeps it from less.
        MustNotMove: a storage that must be offloaded cannot be.
        OffloadError: there is no candidate.
    """
    if not candidates:
        raise OffloadError("there is nothing to plan: no pair of graphs was given")
    musts = max(sum(storage.must for storage in problem.storages) for _, problem in candidates)
    notes: list[str] = []
    found: list[tuple[float, Choice, Chooser]] = []
    misses: list[Chooser] = []
    for knob, problem in candidates:
        chooser = Chooser(problem, link, budget)
        if sum(storage.must for storage in problem.storages) < musts:
            notes.append(f"recompute={knob}: it recomputes a storage that must be offloaded")
        elif found and compute(problem) > min(choice.cost[0] for _, choice, _ in found):
            notes.append(f"recompute={knob}: {compute(problem):.6g} s a step if nothing waits, which is too long")
        elif choice := chooser.rough():
            found.append((knob, choice, chooser))
            notes.append(f"recompute={knob}: {_told(choice)}")
        else:
            misses.append(chooser)
            notes.append(f"recompute={knob}: the budget cannot be met")
    if not found:
        raise _too_small(misses, budget)
    found.sort(key=lambda item: item[1].cost)
    tried = [(knob, chooser.improved(choice), chooser) for knob, choice, chooser in found[:IMPROVED]]
    knob, choice, chooser = min(tried, key=lambda item: item[1].cost)
    notes.append(f"the plan is that of recompute={knob}, improved: {_told(choice)}")
    schedule = _schedule(chooser.problem, choice, link, budget, cost, knob)
    return Plan(schedule, chooser.problem, choice.simulation, (*notes, *chooser.reasons(choice)))


def compute(problem: Problem) -> float:
    """Seconds of a step in which nothing waits."""
    return sum(step.seconds for step in problem.forward) + sum(step.seconds for step in problem.backward)


def _told(choice: Choice) -> str:
    predict = choice.simulation.prediction
    return f"{predict.step:.6g} s a step, {len(choice.placement.outs)} storages move {predict.moved} bytes"


def _too_small(misses: Sequence[Chooser], budget: Budget) -> BudgetTooSmall:
    smallest, chooser = min(((miss.smallest(), miss) for miss in misses), key=lambda pair: pair[0])
    return BudgetTooSmall(budget.near, smallest, chooser.needed())


def _schedule(problem: Problem, choice: Choice, link: Link, budget: Budget, cost: str, knob: float) -> Schedule:
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
    return Schedule(*graphs, link, budget, cost, SOLVER, knob, choice.simulation.prediction, tuple(rows))
