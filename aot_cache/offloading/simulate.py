"""A step as a discrete-event simulation: one compute lane, and a first-in, first-out link each way. Pure: no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

from .problem import BACKWARD, Problem, Storage
from .schedule import Link, Prediction, Row


@dataclass(frozen=True)
class Transfer:
    """One way of one storage: seconds, on the clock of its half, when it is issued, begins and ends."""

    storage: str
    bytes: int
    issued: float
    begin: float
    end: float


@dataclass(frozen=True)
class Half:
    """A forward or a backward, one value a step.

    starts: seconds at which the step begins. waits: seconds that the lane stood still before it. near: bytes that are
    near while it runs. inflight: bytes that are on their way in the gap before it.
    """

    starts: tuple[float, ...]
    waits: tuple[float, ...]
    near: tuple[int, ...]
    inflight: tuple[int, ...]
    transfers: tuple[Transfer, ...]
    seconds: float


@dataclass(frozen=True)
class Simulation:
    forward: Half
    backward: Half

    @property
    def prediction(self) -> Prediction:
        halves = (self.forward, self.backward)
        peaks = [max(half.near, default=0) for half in halves]
        stall = sum(sum(half.waits) for half in halves)
        moved = sum(transfer.bytes for half in halves for transfer in half.transfers)
        return Prediction(*peaks, sum(half.seconds for half in halves), stall, moved)


@dataclass(frozen=True)
class Move:
    """One way of one storage: issued in the gap before step `issue`, waited for in the gap before step `wait`."""

    storage: str
    bytes: int
    issue: int
    wait: int


def simulate(problem: Problem, rows: Sequence[Row], link: Link) -> Simulation:
    """One forward and one backward of `problem` with `rows` (of activations, and legal) over `link`."""
    return run(problem, *moves(problem, rows), link)


def run(problem: Problem, outs: Sequence[Move], ins: Sequence[Move], link: Link) -> Simulation:
    """The same, of ways in the order of their link."""
    near_forward, near_backward = near(problem, outs, ins)
    return Simulation(
        _half([step.seconds for step in problem.forward], outs, near_forward, link, link.d2h),
        _half([step.seconds for step in problem.backward], ins, near_backward, link, link.h2d),
    )


def moves(problem: Problem, rows: Sequence[Row]) -> tuple[list[Move], list[Move]]:
    """The ways out and the ways in, each in the order of its link."""
    forward, backward = problem.forward_index, problem.backward_index
    outs = [Move(r.storage, r.bytes, forward[r.out_after or ""] + 1, forward[r.free_at or ""]) for r in rows]
    ins = [Move(r.storage, r.bytes, backward[r.in_before], backward[r.need_at]) for r in rows]
    return queued(outs), queued(ins)


def queued(column: Iterable[Move]) -> list[Move]:
    """In the order of the link."""
    return sorted(column, key=lambda move: (move.issue, move.wait, move.storage))


def near(problem: Problem, outs: Sequence[Move], ins: Sequence[Move]) -> tuple[list[int], list[int]]:
    """Bytes that are near while each step of the forward and of the backward runs."""
    leaves, returns = {move.storage: move.wait for move in outs}, {move.storage: move.issue for move in ins}
    forward, backward = [], []
    for storage in problem.storages:
        begin, end = forward_span(storage, problem)
        forward.append((begin, leaves.get(storage.name, end), storage.bytes))
        begin, end = backward_span(storage)
        backward.append((returns.get(storage.name, begin), end, storage.bytes))
    return sums(forward, len(problem.forward)), sums(backward, len(problem.backward))


def forward_span(storage: Storage, problem: Problem) -> tuple[int, int]:
    """The forward steps, from and up to but without, during which an unmoved storage is near."""
    if storage.produced == BACKWARD:
        return 0, 0
    return max(storage.produced, 0), len(problem.forward) if storage.saved else storage.free_from + 1


def backward_span(storage: Storage) -> tuple[int, int]:
    """The same in the backward."""
    return max(storage.first_backward, 0) if storage.produced == BACKWARD else 0, storage.last_backward + 1


def inflight(column: Sequence[Move], gaps: int) -> list[int]:
    """Bytes on their way in the gap before each step."""
    return sums([(move.issue, move.wait + 1, move.bytes) for move in column], gaps)


def sums(spans: Iterable[tuple[int, int, int]], length: int) -> list[int]:
    """At each index the sum of the bytes of the spans (from, up to but without, bytes) that hold it."""
    steps = [0] * (length + 1)
    for begin, end, size in spans:
        if begin < end:
            steps[begin] += size
            steps[end] -= size
    return list(accumulate(steps[:length]))


def _half(seconds: Sequence[float], column: Sequence[Move], near: list[int], link: Link, rate: float) -> Half:
    clock, lanes = 0.0, [0.0] * link.lanes
    starts, waits, done = [], [], []
    waited: dict[int, float] = {}
    queue = iter(column)
    move = next(queue, None)
    for index, cost in enumerate(seconds):
        while move and move.issue == index:
            begin = max(clock, heappop(lanes))
            end = begin + transfer_seconds(move.bytes, link, rate)
            heappush(lanes, end)
            done.append(Transfer(move.storage, move.bytes, clock, begin, end))
            waited[move.wait] = max(waited.get(move.wait, 0.0), end)
            move = next(queue, None)
        starts.append(max(clock, waited.get(index, 0.0)))
        waits.append(starts[-1] - clock)
        clock = starts[-1] + cost
    return Half(tuple(starts), tuple(waits), tuple(near), tuple(inflight(column, len(seconds))), tuple(done), clock)


def transfer_seconds(size: int, link: Link, rate: float) -> float:
    """Seconds that one lane of `link` takes for `size` bytes, where all lanes together move `rate` bytes a second."""
    return link.latency + size * link.lanes / rate
