"""What no plan for one problem can be faster than: what must leave and come back takes the link's time. Pure: no torch.

Latency, the far tier and what may be on its way are left out: they could only add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from .legality import immovable
from .place import least, unmoved
from .problem import Problem, Storage
from .schedule import Link

# Sums of sizes are told apart if there are so many at most.
SUMS = 1 << 16


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
    # Backwards in time, coming in is going out.
    leaves = _excess(forward, near, [(storage.free_from, storage.bytes) for storage in movable(problem)])
    returns = _excess(
        backward[::-1], near, [(last - storage.first_backward, storage.bytes) for storage in movable(problem)]
    )
    # What the one half must be rid of goes both ways, and each way within its half.
    moved = max([0.0, *(excess for excess, _ in leaves), *(excess for excess, _ in returns)])
    out = [*leaves[:-1], (moved, leaves[-1][1])] if leaves else []
    back = [*returns, (moved, sum(storage.bytes for storage in movable(problem)))]
    return (
        compute(problem)
        + _waits([step.seconds for step in problem.forward], out, link.d2h)
        + _waits([0.0, *(step.seconds for step in problem.backward)][::-1], back, link.h2d)
    )


def _excess(held: Sequence[int], near: int, ready: Iterable[tuple[int, int]]) -> list[tuple[float, int]]:
    """For each step the bytes that must be gone by it, and those that were done with before it. Storages move whole:
    it is the least sum of some that does. ready: the step that a storage is done with in, and its bytes.
    """
    done: list[list[int]] = [[] for _ in held]
    for step, size in ready:
        done[step].append(size)
    unit = gcd(*(size for sizes in done for size in sizes))
    fine = not unit or sum(map(sum, done)) // unit > SUMS
    found: list[tuple[float, int]] = []
    gone, sums = 0, 1  # Bit n says that some storages have n units together.
    for index, total in enumerate(held):
        excess: float = max(0, total - near)
        if excess > gone:
            excess = float("inf")
        elif excess and not fine:
            enough = sums >> (first := -(-int(excess) // unit))
            excess = unit * (first + (enough & -enough).bit_length() - 1)
        found.append((excess, gone))
        gone += sum(done[index])
        for size in [] if fine else done[index]:
            sums |= sums << size // unit
    return found


def _waits(seconds: Sequence[float], excess: Sequence[tuple[float, int]], rate: float) -> float:
    """Seconds that the lane stands still at least.

    Of what must be gone by a step p, what was not done with before a step q goes between the end of q and the beginning
    of p: what the steps between take is for nothing, the rest is waiting.
    """
    waited, clock, start = 0.0, 0.0, -float("inf")
    for cost, (needed, gone) in zip(seconds, excess, strict=True):
        if needed > 0:
            waited = max(waited, needed / rate - clock + start)
        # `start` is the best of all q so far: the waiting until q, q's end, and less what was done with before it.
        start = max(start, waited + clock + cost - gone / rate)
        clock += cost
    return waited
