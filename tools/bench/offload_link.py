"""A planned step carried out in threads on a link that is throttled by sleeping, to hold the simulation against."""

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
    """One copy from `source` to `target`, under way until `end` on the monotonic clock."""

    end: float
    target: torch.Tensor
    source: torch.Tensor
    there: threading.Event = field(default_factory=threading.Event)

    def done(self) -> bool:
        return self.there.is_set()

    def result(self) -> None:
        self.there.wait()


class Way:
    """One direction: first in, first out."""

    def __init__(self, rate: float, latency: float) -> None:
        self.rate, self.latency, self.free = rate, latency, 0.0
        self.waiting: queue.Queue[Crossing | None] = queue.Queue()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def begin(self, nbytes: int, target: torch.Tensor, source: torch.Tensor) -> Crossing:
        self.free = max(self.free, time.monotonic()) + self.latency + nbytes / self.rate
        crossing = Crossing(self.free, target, source)
        self.waiting.put(crossing)
        return crossing

    def _work(self) -> None:
        while (crossing := self.waiting.get()) is not None:
            crossing.target.copy_(crossing.source)
            time.sleep(max(0.0, crossing.end - time.monotonic()))
            crossing.there.set()


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

    outs, ins = moves(problem, schedule.rows)
    started = time.monotonic()
    _half([s.seconds for s in problem.forward], outs, put, lambda name: transfer.settle(slots[name]))
    _half(
        [s.seconds for s in problem.backward], ins, fetch, lambda name: back.update({name: transfer.get(coming[name])})
    )
    seconds = time.monotonic() - started
    tier.close()
    assert transfer.moved_out == transfer.moved_in == sum(row.bytes for row in schedule.rows)
    assert all(torch.equal(back[name], sent[name]) for name in sent)
    return seconds


def _half(seconds: list[float], column: list[Move], issue: Any, wait: Any) -> None:
    clock = time.monotonic()
    for index, cost in enumerate(seconds):
        for move in column:
            if move.issue == index:
                issue(move.storage)
        waits = [move for move in column if move.wait == index]
        for move in waits:
            wait(move.storage)
        # A step begins where the last one should have ended, or where a wait ended; sleeping too long adds nothing up.
        clock = max(clock, time.monotonic()) if waits else clock
        clock += cost
        time.sleep(max(0.0, clock - time.monotonic()))
