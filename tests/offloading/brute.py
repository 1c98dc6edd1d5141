"""The best that there is, by trying everything: for problems of a few storages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

from aot_cache.errors import BudgetTooSmall
from aot_cache.offloading.bound import compute
from aot_cache.offloading.choose import ALWAYS_WAIT
from aot_cache.offloading.legality import immovable
from aot_cache.offloading.place import least, place, unmoved
from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import Problem, Step, Storage
from aot_cache.offloading.schedule import Budget, Link
from aot_cache.offloading.simulate import Move, inflight, near, queued, run

Best = Callable[[Problem, Link, Budget], "float | None"]


def subsets(problem: Problem) -> Iterator[tuple[Storage, ...]]:
    movable = [storage for storage in problem.storages if not immovable(storage)]
    return (chosen for size in range(len(movable) + 1) for chosen in combinations(movable, size))


def best_subset(problem: Problem, link: Link, budget: Budget) -> float | None:
    """Seconds of the shortest step over every set of storages, each placed as the planner places it."""
    base, best = unmoved(problem), None
    for chosen in subsets(problem):
        if best == compute(problem):
            break
        if max(map(max, least(problem, chosen, base))) > budget.near:
            continue
        biggest = max((storage.bytes for storage in chosen), default=0)
        for limit in (budget.near, budget.near - biggest, ALWAYS_WAIT):
            placed = place(problem, chosen, link, budget, base, limit)
            if sum(move.bytes for move in placed.outs) > budget.far:
                continue
            told = run(problem, placed.outs, placed.ins, link).prediction
            if max(told.peak_forward, told.peak_backward) <= budget.near and (best is None or told.step < best):
                best = told.step
    return best


def best_of_all(problem: Problem, link: Link, budget: Budget) -> float | None:
    """Seconds of the shortest step over every set of storages and every legal place of their transfers."""
    found = []
    for chosen in subsets(problem):
        if sum(storage.bytes for storage in chosen) > budget.far:
            continue
        outs = [_moves(s, range(s.free_from + 1, len(problem.forward))) for s in chosen]
        ins = [_moves(s, range(s.first_backward + 1)) for s in chosen]
        # The halves do not meet: what is best for one is best whatever the other does.
        forward = _shortest(problem, outs, link, budget, 0)
        backward = _shortest(problem, ins, link, budget, 1)
        if forward is not None and backward is not None:
            found.append(forward + backward)
    return min(found, default=None)


def _moves(storage: Storage, gaps: range) -> list[Move]:
    return [Move(storage.name, storage.bytes, issue, wait) for issue in gaps for wait in gaps if issue <= wait]


def _shortest(problem: Problem, ways: Sequence[list[Move]], link: Link, budget: Budget, half: int) -> float | None:
    best = None
    for column in map(queued, product(*ways)):
        both = ((column, []), ([], column))[half]
        held = near(problem, *both)[half]
        if max(held) <= budget.near and max(inflight(column, len(held))) <= budget.inflight:
            done = run(problem, *both, link)
            seconds = (done.forward, done.backward)[half].seconds
            best = seconds if best is None else min(best, seconds)
    return best


def smallest(problem: Problem, link: Link, far: int, inflight: int) -> int:
    """The smallest budget of near memory that the planner says it can meet."""
    try:
        plan([(1.0, problem)], link, Budget(0, far, inflight), "unit")
    except BudgetTooSmall as error:
        return error.smallest
    return 0


def stack(seed: int, layers: int, links: tuple[int, ...] = (1, 2, 4)) -> tuple[Problem, Link, Budget]:
    """A stack of uneven layers, a link that needs about the time of the forward for all of it, and a tight budget."""
    rng = random.Random(seed)
    sizes = [rng.choice([1, 2, 4, 8]) * 64 * 1024 for _ in range(layers)]
    forward = tuple(Step(f"f{i}", rng.uniform(0.5, 2)) for i in range(layers)) + (Step("output", 0.0),)
    backward = tuple(Step(f"b{i}", rng.uniform(1, 4)) for i in range(layers)) + (Step("output", 0.0),)
    storages = []
    for i, size in enumerate(sizes):
        first, last = layers - 1 - i, min(layers - 1, i + rng.choice([0, 1, 1, 2]))
        storages.append(
            Storage(f"a{i}", size, "act", i, last, first, min(layers - 1, first + rng.choice([0, 1])), True)
        )
    problem = Problem(forward, backward, tuple(storages), "fw", "bw")
    pace = sum(sizes) / sum(step.seconds for step in forward) / 2
    link = Link(pace * rng.choice(links), pace * rng.choice(links))
    far, inflight = sum(sizes), max(sizes) * rng.choice([1, 2, 3])
    low = smallest(problem, link, far, inflight)
    return problem, link, Budget(low + int((sum(sizes) - low) * rng.choice([0.0, 0.2, 0.5])), far, inflight)
