"""Which storages of one problem move: prefixes of the order by slack, then one by one back again. Pure: no torch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..errors import MustNotMove
from .legality import immovable
from .place import Placement, least, place, unmoved
from .problem import Problem, Storage
from .schedule import Budget, Link
from .simulate import Simulation, near, run

# Prefixes of the order that are tried: over all of it, and next to the shortest that could do; and how many storages
# are then tried to be left near.
PREFIXES, NEAREST, RETURNS = 48, 8, 96
# A limit of near memory under which every transfer is waited for at once.
ALWAYS_WAIT = -1


@dataclass(frozen=True)
class Choice:
    """What moves when, and how a step goes with it."""

    chosen: tuple[Storage, ...]
    placement: Placement
    simulation: Simulation

    @property
    def cost(self) -> tuple[float, int, int]:
        """Seconds of a step, then bytes moved, then the number of storages: less is better."""
        predict = self.simulation.prediction
        return predict.step, predict.moved, len(self.placement.outs)


class Chooser:
    """One problem with one link and one budget.

    Raises:
        MustNotMove: a storage that must be offloaded may not be, or a bound other than that of near memory forbids it.
    """

    def __init__(self, problem: Problem, link: Link, budget: Budget) -> None:
        self.problem, self.link, self.budget = problem, link, budget
        self.base = unmoved(problem)
        self.barred = {s.name: why for s in problem.storages if _wanted(s) for why in [_barred(s, budget)] if why}
        slack = _slacks(problem)
        movable = [s for s in problem.storages if _wanted(s) and s.name not in self.barred]
        self.order = sorted(movable, key=lambda s: (-slack[s.name], s.name))
        self.musts = tuple(s for s in self.order if s.must)
        self.prefers = tuple(s for s in self.order if s.prefer and not s.must)
        for storage in problem.storages:
            if storage.must and (why := self.barred.get(storage.name) or self._no_room(storage)):
                raise MustNotMove(storage.name, why)

    def cheapest(self) -> Choice | None:
        """The cheapest choice that was found to meet the budget, with all that is preferred if such a one was found."""
        for head in self._heads():
            full = self._full(head)
            first = self._first(full, len(head))
            counts = [*range(first, first + NEAREST), *(n for n in _grid(len(head), len(full)) if n >= first)]
            choices = [self._choice(full[:count]) for count in sorted(set(counts)) if count <= len(full)]
            found = [choice for choice in choices if choice]
            if found:
                return self._without(min(found, key=lambda choice: choice.cost), len(head))
        return None

    def smallest(self) -> int:
        """Bytes of the smallest budget for near memory that `cheapest` meets, with the other bounds as they are."""
        return self._lowest()[0]

    def needed(self) -> str:
        """What keeps `smallest` from being smaller."""
        _, step, placed = self._lowest()
        texts = [f"{step} needs that much"]
        moved = sum(move.bytes for move in placed.outs)
        movable = sum(storage.bytes for storage in self.order)
        if moved < movable:
            bounds = f"far={self.budget.far} and inflight={self.budget.inflight}"
            texts.append(f"{movable - moved} bytes that may be moved stay near because of {bounds}")
        refused: dict[str, int] = {}
        for name, why in self.barred.items():
            refused[why] = refused.get(why, 0) + self.problem.by_name[name].bytes
        for why, size in sorted(refused.items(), key=lambda item: (-item[1], item[0])):
            texts.append(f"{size} saved bytes may not be moved: {why}")
        return "; ".join(texts)

    def reasons(self, choice: Choice) -> list[str]:
        """Why what is preferred stays near, one text each."""
        moved = {move.storage for move in choice.placement.outs}
        lost = [s for s in self.problem.storages if s.prefer and s.name not in moved]
        default = "the bounds cannot be kept with it"
        return [f"{s.name} is preferred, and stays near: {self.barred.get(s.name, default)}" for s in lost]

    def _heads(self) -> list[tuple[Storage, ...]]:
        return [self.musts + self.prefers, self.musts] if self.prefers else [self.musts]

    def _full(self, head: Sequence[Storage]) -> list[Storage]:
        """All that may move, `head` first, as far as the far tier has room."""
        first = {storage.name for storage in head}
        full, room = [], self.budget.far
        for storage in [*head, *(s for s in self.order if s.name not in first)]:
            if storage.bytes <= room:
                full.append(storage)
                room -= storage.bytes
        return full

    def _first(self, full: Sequence[Storage], low: int) -> int:
        """The smallest prefix of `full` that could meet the budget if transfers took no time."""
        counts = range(low, len(full) + 1)
        return low + bisect_left(counts, True, key=lambda n: self._could(full[:n]))

    def _could(self, chosen: Sequence[Storage]) -> bool:
        return max(map(_peak, least(self.problem, chosen, self.base))) <= self.budget.near

    def _choice(self, chosen: Sequence[Storage]) -> Choice | None:
        """`chosen`, with as little waiting as the budget lets; None if it cannot be met."""
        near = self.budget.near
        for limit in (near, near - max((s.bytes for s in chosen), default=0), ALWAYS_WAIT):
            placed = place(self.problem, chosen, self.link, self.budget, self.base, limit)
            done = run(self.problem, placed.outs, placed.ins, self.link)
            if max(done.prediction.peak_forward, done.prediction.peak_backward) <= near:
                return None if any(s.name in placed.left for s in self.musts) else Choice(tuple(chosen), placed, done)
        return None

    def _without(self, best: Choice, head: int) -> Choice:
        """`best` less what does not pay, shortest slack first; its first `head` storages stay."""
        for storage in reversed(best.chosen[head:][-RETURNS:]):
            fewer = self._choice([s for s in best.chosen if s is not storage])
            if fewer and fewer.cost < best.cost:
                best = fewer
        return best

    def _lowest(self) -> tuple[int, str, Placement]:
        """Bytes at the lowest peak, the step that it is at, and the placement."""
        found = []
        for head in self._heads():
            full = self._full(head)
            for count in _grid(len(head), len(full)):
                placed = place(self.problem, full[:count], self.link, self.budget, self.base, ALWAYS_WAIT)
                halves = near(self.problem, placed.outs, placed.ins)
                found.append((max(map(_peak, halves)), self._step_of_peak(halves), placed))
        return min(found, key=lambda item: item[0])

    def _step_of_peak(self, halves: tuple[list[int], list[int]]) -> str:
        forward, backward = halves
        if _peak(forward) >= _peak(backward):
            return (
                f"{self.problem.forward[forward.index(_peak(forward))].name} in the forward" if forward else "no step"
            )
        return f"{self.problem.backward[backward.index(_peak(backward))].name} in the backward"

    def _no_room(self, storage: Storage) -> str:
        """Why the bounds other than that of near memory keep `storage`, which must move, from moving with its like."""
        if storage not in self._full(self.musts):
            return f"the far tier takes only {self.budget.far} bytes"
        placed = place(self.problem, self.musts, self.link, self.budget, self.base, ALWAYS_WAIT)
        bound = f"only {self.budget.inflight} bytes may be on their way at a time"
        return f"no gap is left for it, since {bound}" if storage.name in placed.left else ""


def _wanted(storage: Storage) -> bool:
    return storage.saved or storage.must or storage.prefer


def _barred(storage: Storage, budget: Budget) -> str:
    if storage.bytes > budget.inflight and not immovable(storage):
        return f"it is larger than the {budget.inflight} bytes that may be on their way"
    return immovable(storage)


def _slacks(problem: Problem) -> dict[str, float]:
    """Seconds from the last use in the forward to the first in the backward, by storage, if nothing waits."""
    forward = [0.0, *accumulate(step.seconds for step in problem.forward)]
    backward = [0.0, *accumulate(step.seconds for step in problem.backward)]
    return {
        s.name: forward[-1] - forward[s.free_from + 1] + backward[max(s.first_backward, 0)] for s in problem.storages
    }


def _grid(low: int, high: int) -> list[int]:
    """At most PREFIXES counts from `low` to `high`, evenly, both included."""
    steps = max(1, min(PREFIXES - 1, high - low))
    return sorted({low + (high - low) * step // steps for step in range(steps + 1)})


def _peak(half: Sequence[int]) -> int:
    return max(half, default=0)
