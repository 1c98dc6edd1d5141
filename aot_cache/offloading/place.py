"""Where the transfers of a chosen set of storages go: out as soon, in as late as the bounds allow. Pure: no torch.

Both halves are one sweep: time runs backwards in the backward, where coming in is going out. So there is one rule: what
is done with goes out at once, while no more than the bound is on its way; what has gone is dropped as soon as the link
is through with it, and earlier, by standing still, where near memory is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .problem import Problem, Storage
from .schedule import Budget, Link
from .simulate import Move, backward_span, forward_span, near, queued, sums, transfer_seconds


@dataclass(frozen=True)
class Placement:
    """Both ways of every storage that is moved; left: names of those for which the bounds leave no gap."""

    outs: list[Move]
    ins: list[Move]
    left: frozenset[str]


@dataclass
class _Flight:
    move: tuple[str, int]
    issue: int
    end: float


def unmoved(problem: Problem) -> tuple[list[int], list[int]]:
    """Bytes near at each step if nothing moves."""
    return near(problem, (), ())


def least(
    problem: Problem, chosen: Sequence[Storage], base: tuple[list[int], list[int]]
) -> tuple[list[int], list[int]]:
    """Bytes near at each step if the chosen were gone the moment they are done with: no placement has less."""
    forward = [(s.free_from + 1, forward_span(s, problem)[1], -s.bytes) for s in chosen]
    backward = [(backward_span(s)[0], s.first_backward, -s.bytes) for s in chosen]
    return _added(base[0], forward), _added(base[1], backward)


def place(
    problem: Problem,
    chosen: Sequence[Storage],
    link: Link,
    budget: Budget,
    base: tuple[list[int], list[int]],
    limit: int,
) -> Placement:
    """Places the transfers of `chosen`, which is in the order of importance; `base` is `unmoved(problem)`.

    limit: bytes of near memory from which on the lane waits for what is on its way. Below 0 every transfer is waited
    for in the gap of its issue, which takes the least memory, and the most waiting. Whether the result meets a budget
    is for the caller to see: waiting does not always help.
    """
    left = frozenset(storage.name for storage in chosen if storage.bytes > budget.inflight)
    while True:
        stay = [storage for storage in chosen if storage.name not in left]
        forward, backward = least(problem, stay, base)
        ready = {s.name: (s.free_from + 1, s.bytes) for s in stay}
        seconds = [step.seconds for step in problem.forward]
        sweep = _Sweep(seconds, forward, link, link.d2h, limit, budget.inflight)
        outs = sweep.run(ready, len(seconds) - 1)
        ready = {s.name: (len(backward) - s.first_backward, s.bytes) for s in stay}
        seconds = [step.seconds for step in reversed(problem.backward)]
        sweep = _Sweep(seconds, backward[::-1], link, link.h2d, limit, budget.inflight)
        ins = [
            Move(move.storage, move.bytes, len(backward) - move.wait, len(backward) - move.issue)
            for move in sweep.run(ready, len(seconds))
        ]
        placed = {move.storage for move in outs} & {move.storage for move in ins}
        if len(placed) == len(stay):
            return Placement(queued(outs), queued(ins), left)
        left |= {storage.name for storage in stay} - placed


class _Sweep:
    """One half in the order in which storages leave near memory."""

    def __init__(
        self, seconds: Sequence[float], least: Sequence[int], link: Link, rate: float, limit: int, inflight: int
    ) -> None:
        self.seconds, self.least, self.limit, self.inflight = seconds, least, limit, inflight
        self.link, self.rate = link, rate
        self.clock, self.lanes = 0.0, [0.0] * link.lanes
        self.flights: list[_Flight] = []
        self.done: list[Move] = []

    def run(self, ready: dict[str, tuple[int, int]], last: int) -> list[Move]:
        """The moves, of (gap in which it is done with, bytes) by name, that fit until the gap `last`."""
        coming: dict[int, list[tuple[str, int]]] = {}
        for name, (gap, size) in ready.items():
            coming.setdefault(gap, []).append((name, size))
        waiting: list[tuple[str, int]] = []
        held = 0
        for gap in range(1, last + 1):
            self.clock += self.seconds[gap - 1]
            # What is waited for in this gap is still on its way in it.
            room = self.inflight - sum(flight.move[1] for flight in self.flights)
            if self.flights:
                held -= self._land([flight for flight in self.flights if flight.end <= self.clock], gap)
            if gap in coming:
                waiting += coming[gap]
                held += sum(size for _, size in coming[gap])
            while waiting and waiting[0][1] <= room:
                room -= waiting[0][1]
                self._issue(waiting.pop(0), gap)
            while self.flights and (gap == last or self.least[gap] + held > self.limit):
                held -= self._land([min(self.flights, key=lambda flight: flight.end)], gap)
        return self.done

    def _issue(self, move: tuple[str, int], gap: int) -> None:
        lane = min(range(len(self.lanes)), key=self.lanes.__getitem__)
        self.lanes[lane] = max(self.clock, self.lanes[lane]) + transfer_seconds(move[1], self.link, self.rate)
        self.flights.append(_Flight(move, gap, self.lanes[lane]))

    def _land(self, flights: Sequence[_Flight], gap: int) -> int:
        """Drops what has arrived, waiting where it has not; the bytes."""
        for flight in flights:
            self.clock = max(self.clock, flight.end)
            self.flights.remove(flight)
            self.done.append(Move(*flight.move, flight.issue, gap))
        return sum(flight.move[1] for flight in flights)


def _added(base: Sequence[int], spans: Sequence[tuple[int, int, int]]) -> list[int]:
    return [total + more for total, more in zip(base, sums(spans, len(base)), strict=True)]
