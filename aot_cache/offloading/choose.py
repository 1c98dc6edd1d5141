"""Which storages of one problem move: prefixes of the order by slack. Pure: no torch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ..errors import MustNotMove
from ..units import exact_size, size
from .fields import BOUND
from .legality import immovable
from .place import Placement, least, place, unmoved
from .problem import Problem, Storage
from .schedule import Budget, Link
from .simulate import Simulation, near, run

# Prefixes of the order that are tried: over all of it, and next to the shortest that could do.
PREFIXES, NEAREST = 48, 8
# Orders that are tried: by slack alone, and with the largest half, third, ... before the others.
ORDERS = 4
# How often the bound of what is on its way is halved, if the lane waits.
HALVINGS = 2
# A limit of near memory under which every transfer is waited for at once.
ALWAYS_WAIT = -1


@dataclass(frozen=True)
class Choice:
    """What moves when, and how a step goes with it; the first `head` storages move whether it pays or not.

    flying: bytes that were let on their way when it was placed, which may be less than are allowed.
    """

    chosen: tuple[Storage, ...]
    head: int
    flying: int
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
        slack = slacks(problem)
        movable = [s for s in problem.storages if _wanted(s) and s.name not in self.barred]
        self.order = sorted(movable, key=lambda s: (-slack[s.name], s.name))
        self.musts = tuple(s for s in self.order if s.must)
        self.prefers = tuple(s for s in self.order if s.prefer and not s.must)
        for storage in problem.storages:
            if storage.must and (why := self.barred.get(storage.name) or self._no_room(storage)):
                raise MustNotMove(storage.name, why)

    def rough(self) -> Choice | None:
        """The cheapest prefix that meets the budget, with all that is preferred if there is such a one."""
        for head in self._heads():
            found = [
                (choice, full)
                for full in self._fulls(head)
                for choice in self._fitting(full, len(head), self.budget.inflight)
            ]
            if found:
                best, full = min(found, key=lambda one: one[0].cost)
                waits = best.simulation.prediction.stall > 0
                less = [one for flying in self._less() if waits for one in self._fitting(full, len(head), flying)]
                return min([best, *less], key=lambda choice: choice.cost)
        return None

    def _less(self) -> list[int]:
        """Less than may be on its way: then what is more urgent does not stand behind it on the link."""
        biggest = max((storage.bytes for storage in self.order), default=0)
        less = (self.budget.inflight // 2**halving for halving in range(1, HALVINGS + 1))
        return [flying for flying in less if flying >= biggest > 0]

    def _fitting(self, full: Sequence[Storage], head: int, flying: int) -> Iterator[Choice]:
        for count in self._counts(full, head):
            if choice := self.choice(full[:count], head, flying):
                yield choice
                if choice.simulation.prediction.stall == 0:
                    return  # More would move more, and could not be faster.

    def can(self) -> bool:
        """Whether some prefix meets the budget, whatever the link: each transfer is waited for at once."""
        return any(
            self._meets(full[:count])
            for head in self._heads()
            for full in self._fulls(head)
            for count in self._counts(full, len(head))
        )

    def needed(self) -> str:
        """What keeps the budget, which is the smallest that can be met, from being smaller."""
        texts = [f"{self._narrowest()} needs that much"]
        full = self._full(self.musts)
        placed = self._placed(full, ALWAYS_WAIT)
        kept = sum(s.bytes for s in self.order) - sum(move.bytes for move in placed.outs)
        if kept:
            bounds = " and ".join(
                f"{name}={BOUND.write(name, getattr(self.budget, name))}" for name in ("far", "inflight")
            )
            texts.append(f"{size(kept)} that may be moved stay near because of {bounds}")
        refused: dict[str, int] = {}
        for name, why in self.barred.items():
            refused[why] = refused.get(why, 0) + self.problem.by_name[name].bytes
        for why, total in sorted(refused.items(), key=lambda item: (-item[1], item[0])):
            texts.append(f"{size(total)} of what is saved may not be moved: {why}")
        return "; ".join(texts)

    def reasons(self, choice: Choice) -> list[str]:
        """Why what is preferred stays near, one text each."""
        moved = {move.storage for move in choice.placement.outs}
        lost = [s for s in self.problem.storages if s.prefer and s.name not in moved]
        default = "the bounds cannot be kept with it"
        return [f"{s.name} is preferred, and stays near: {self.barred.get(s.name, default)}" for s in lost]

    def _heads(self) -> list[tuple[Storage, ...]]:
        return [self.musts + self.prefers, self.musts] if self.prefers else [self.musts]

    def _counts(self, full: Sequence[Storage], head: int) -> list[int]:
        """Of the prefixes of `full` that are tried: the shortest that could do, the next, and a grid."""
        first = self._first(full, head)
        counts = {*range(first, first + NEAREST), *(n for n in _grid(head, len(full)) if n >= first)}
        return sorted(n for n in counts if n <= len(full))

    def _fulls(self, head: Sequence[Storage]) -> Iterator[list[Storage]]:
        """All that may move, `head` first, by slack; then with larger ones before others: each transfer has latency."""
        sizes = sorted({storage.bytes for storage in self.order})
        for at in sorted({len(sizes) * part // ORDERS for part in range(ORDERS)}):
            yield self._full(head, sizes[at] if sizes else 0)

    def _full(self, head: Sequence[Storage], large: int = 0) -> list[Storage]:
        """All that may move as far as the far tier has room: `head`, then what has `large` bytes and more, by slack."""
        first = {storage.name for storage in head}
        full, room = [], self.budget.far
        rest = [storage for storage in self.order if storage.name not in first]
        for storage in [*head, *sorted(rest, key=lambda s: s.bytes < large)]:  # Stable: the order by slack stays.
            if storage.bytes <= room:
                full.append(storage)
                room -= storage.bytes
        return full

    def _first(self, full: Sequence[Storage], low: int) -> int:
        """The smallest prefix of `full` that could meet the budget if transfers took no time."""
        counts = range(low, len(full) + 1)
        return low + bisect_left(counts, True, key=lambda n: self.could(full[:n]))

    def could(self, chosen: Sequence[Storage]) -> bool:
        """Whether `chosen` would keep the budget if transfers took no time."""
        return max(map(_peak, least(self.problem, chosen, self.base))) <= self.budget.near

    def choice(self, chosen: Sequence[Storage], head: int = 0, flying: int | None = None) -> Choice | None:
        """`chosen`, with as little waiting as the budget lets; None if it cannot be met."""
        near = self.budget.near
        flying = self.budget.inflight if flying is None else flying
        if not self.could(chosen):
            return None
        for limit in (near, near - max((s.bytes for s in chosen), default=0), ALWAYS_WAIT):
            placed = self._placed(chosen, limit, flying)
            done = run(self.problem, placed.outs, placed.ins, self.link)
            told = done.prediction
            if max(told.peak_forward, told.peak_backward) <= near and not self._lost(placed):
                return Choice(tuple(chosen), head, flying, placed, done)
        return None

    def _lost(self, placed: Placement) -> bool:
        """Whether what must move found no gap, since others took it."""
        return any(storage.name in placed.left for storage in self.musts)

    def _meets(self, chosen: Sequence[Storage]) -> bool:
        """Whether `chosen` keep the budget if each transfer is waited for at once, which takes the least memory."""
        if not self.could(chosen):
            return False
        placed = self._placed(chosen, ALWAYS_WAIT)
        return max(map(_peak, near(self.problem, placed.outs, placed.ins))) <= self.budget.near and not self._lost(
            placed
        )

    def _placed(self, chosen: Sequence[Storage], limit: int, flying: int | None = None) -> Placement:
        budget = self.budget if flying is None else replace(self.budget, inflight=flying)
        return place(self.problem, chosen, self.link, budget, self.base, limit)

    def _narrowest(self) -> str:
        """The step that has the most near when as little is near as can be."""
        found = []
        for head in self._heads():
            full = self._full(head)
            for count in _grid(len(head), len(full)):
                placed = self._placed(full[:count], ALWAYS_WAIT)
                if not self._lost(placed):
                    halves = near(self.problem, placed.outs, placed.ins)
                    found.append((max(map(_peak, halves)), self._step_of_peak(halves)))
        return min(found)[1]

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
            return f"the far tier takes only {exact_size(self.budget.far)}"
        placed = self._placed(self.musts, ALWAYS_WAIT)
        bound = f"only {exact_size(self.budget.inflight)} may be on its way at a time"
        return f"no gap is left for it, since {bound}" if storage.name in placed.left else ""


def _wanted(storage: Storage) -> bool:
    return storage.saved or storage.must or storage.prefer


def _barred(storage: Storage, budget: Budget) -> str:
    if storage.bytes > budget.inflight and not immovable(storage):
        return f"it is larger than the {exact_size(budget.inflight)} that may be on its way"
    return immovable(storage)


def slacks(problem: Problem) -> dict[str, float]:
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
