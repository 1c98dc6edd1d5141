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
    best: tuple[float, Choice, Chooser] | None = None
    misses: list[Chooser] = []
    for knob, problem in candidates:
        chooser = Chooser(problem, link, budget)
        if sum(storage.must for storage in problem.storages) < musts:
            notes.append(f"recompute={knob}: it recomputes a storage that must be offloaded")
            continue
        choice = chooser.cheapest()
        notes.append(f"recompute={knob}: " + (_told(choice) if choice else "the budget cannot be met"))
        misses += [] if choice else [chooser]
        if choice and (best is None or choice.cost < best[1].cost):
            best = knob, choice, chooser
    if best is None:
        raise _too_small(misses, budget)
    knob, choice, chooser = best
    schedule = _schedule(chooser.problem, choice, link, budget, cost, knob)
    return Plan(schedule, chooser.problem, choice.simulation, (*notes, *chooser.reasons(choice)))


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
