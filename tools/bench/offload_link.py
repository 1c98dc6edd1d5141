"""A planned step carried out in threads on a link that is throttled by the clock, to hold the simulation against.

That the system wakes a thread too late would add up, and is no matter of the plan: a step begins where the last one
should have ended, or when what it waits for was through the link and copied, whenever the thread learns of it.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Link, Schedule
from aot_cache.offloading.simulate import Move, moves
from aot_cache.offloading.transfer import Slot, Transfer


@dataclass
class Throttled:
    """A far tier that keeps the bytes in memory, behind a link with a thread each way."""

    link: Link
    ways: dict[str, Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ways = {"out": Way(self.link.d2h, self.link.latency), "in": Way(self.link.h2d, self.link.latency)}

    @property
    def through(self) -> float:
        """When the last of the transfers that were waited for so far was through, on the monotonic clock."""
        return max(way.through for way in self.ways.values())

    def allocate(self, size: int) -> Any:
        return torch.empty(size, dtype=torch.uint8)

    def free(self, place: Any) -> None:
        pass

    def store(self, near: torch.Tensor, nbytes: int, place: Any) -> Crossing:
        return self.ways["out"].begin(nbytes, place, near)

    def load(self, place: Any, nbytes: int, near: torch.Tensor) -> Crossing:
        return self.ways["in"].begin(nbytes, near, place)

    def close(self) -> None:
        for way in self.ways.values():
            way.waiting.put(None)
            way.thread.join()


@dataclass
class Crossing:
    """One copy from `source` to `target`, under way until `end` on the monotonic clock, or until it was made."""

    way: Way
    end: float
    target: torch.Tensor
    source: torch.Tensor
    copied: threading.Event = field(default_factory=threading.Event)

    def done(self) -> bool:
        return self.copied.is_set() and time.monotonic() >= self.end

    def result(self) -> None:
        self.copied.wait()
        sleep_until(self.end)
        self.way.through = max(self.way.through, self.end)


class Way:
    """One direction: first in, first out."""

    def __init__(self, rate: float, latency: float) -> None:
        self.rate, self.latency, self.free, self.through = rate, latency, 0.0, 0.0
        self.waiting: queue.Queue[Crossing | None] = queue.Queue()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def begin(self, nbytes: int, target: torch.Tensor, source: torch.Tensor) -> Crossing:
        self.free = max(self.free, time.monotonic()) + self.latency + nbytes / self.rate
        crossing = Crossing(self, self.free, target, source)
        self.waiting.put(crossing)
        return crossing

    def _work(self) -> None:
        while (crossing := self.waiting.get()) is not None:
            crossing.target.copy_(crossing.source)
            crossing.end = max(crossing.end, time.monotonic())
            crossing.copied.set()


# The system may wake a thread so much too late.
_LATE = 2e-3


def sleep_until(end: float) -> None:
    """Until `end` on the monotonic clock, and hardly longer."""
    time.sleep(max(0.0, end - time.monotonic() - _LATE))
    while time.monotonic() < end:
        time.sleep(0)  # lets the other threads of this process work


def step(problem: Problem, schedule: Schedule) -> float:
    """Seconds of one forward and backward of `problem` whose steps sleep, with the transfers of `schedule`.

    Raises:
        AssertionError: something came back other than it went out, or not all of it.
    """
    tier = Throttled(schedule.link)
    transfer = Transfer(tier, schedule.budget.inflight)
    sent = {row.storage: torch.randint(0, 256, (row.bytes,), dtype=torch.uint8) for row in schedule.rows}
    slots: dict[str, Slot] = {}
    coming: dict[str, Any] = {}
    back: dict[str, torch.Tensor] = {}

    def put(name: str) -> None:
        slots[name] = transfer.put(sent[name])

    def fetch(name: str) -> None:
        like = (sent[name].shape, sent[name].stride(), torch.uint8, torch.device("cpu"))
        coming[name] = transfer.fetch(slots[name], like)

    def get(name: str) -> None:
        back[name] = transfer.get(coming[name])

    outs, ins = moves(problem, schedule.rows)
    started = time.monotonic()
    _half(tier, [s.seconds for s in problem.forward], outs, put, lambda name: transfer.settle(slots[name]))
    _half(tier, [s.seconds for s in problem.backward], ins, fetch, get)
    seconds = time.monotonic() - started
    tier.close()
    assert transfer.moved_out == transfer.moved_in == sum(row.bytes for row in schedule.rows)
    assert all(torch.equal(back[name], sent[name]) for name in sent)
    return seconds


def _half(tier: Throttled, seconds: list[float], column: list[Move], issue: Any, wait: Any) -> None:
    clock = time.monotonic()
    for index, cost in enumerate(seconds):
        for move in column:
            if move.issue == index:
                issue(move.storage)
        for move in column:
            if move.wait == index:
                wait(move.storage)
        clock = max(clock, tier.through) + cost
        sleep_until(clock)
