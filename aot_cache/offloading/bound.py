"""What no plan for one problem can be faster than: what must leave and come back takes the link's time. Pure: no torch.

Latency, the far tier, what may be on its way, and that storages move whole are left out: they could only add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .legality import immovable
from .place import least, unmoved
from .problem import Problem, Storage
from .schedule import Link


def compute(problem: Problem) -> float:
    """Seconds of a step in which nothing waits."""
    return sum(step.seconds for step in problem.forward) + sum(step.seconds for step in problem.backward)


def lowest(problem: Problem) -> int:
    """Bytes that are near at some step at least, whatever moves."""
    halves = least(problem, movable(problem), unmoved(problem))
    return max(max(half, default=0) for half in halves)


def movable(problem: Problem) -> list[Storage]:
    return [storage for storage in problem.storages if not immovable(storage)]


def shortest(problem: Problem, link: Link, near: int) -> float:
    """Seconds that a step takes at least if no more than `near` bytes may be near; infinite if they cannot."""
    forward, backward = unmoved(problem)
    last = len(backward) - 1
    leaves = [(storage.free_from, storage.bytes) for storage in movable(problem)]
    # Backwards in time, coming in is going out.
    returns = [(last - storage.first_backward, storage.bytes) for storage in movable(problem)]
    # What the one half must be rid of goes both ways, and each way within its half.
    moved = max([0, *forward, *backward]) - near
    seconds = [step.seconds for step in problem.forward]
    first = _waits(seconds, [*forward[:-1], near + moved], leaves, near, link.d2h)
    seconds = [0.0, *(step.seconds for step in problem.backward)]
    second = _waits(seconds[::-1], [near + moved, *backward][::-1], returns, near, link.h2d)
    return compute(problem) + first + second


def _waits(
    seconds: Sequence[float], held: Sequence[int], ready: Iterable[tuple[int, int]], near: int, rate: float
) -> float:
    """Seconds that the lane stands still at least. ready: the step that a storage is done with in, and its bytes.

    By a step p, `held[p] - near` bytes must be gone. Those that were not done with before a step q go between the end
    of q and the beginning of p: what the steps between take is for nothing, the rest is waiting.
    """
    done = [0] * (len(seconds) + 1)
    for step, size in ready:
        done[step] += size
    waited, gone, clock, start = 0.0, 0, 0.0, -float("inf")
    for index, cost in enumerate(seconds):
        excess = held[index] - near
        if excess > gone:
            return float("inf")
        if excess > 0:
            waited = max(waited, excess / rate - clock + start)
        # `start` is the best of all q so far: the waiting until q, q's end, and less what was done with before it.
        start = max(start, waited + clock + cost - gone / rate)
        gone += done[index]
        clock += cost
    return waited
