"""Which weights are near: each for as long as somebody uses it, all together within a budget.

What is asked for next is learned from the order of earlier requests, and begun ahead as far as the budget has room.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import TransferError
from ..units import exact_size, rounded_up, size
from .transfer import Arrival, Slot, Transfer

_numbers = itertools.count(1)


@dataclass(eq=False)
class Weight:
    """One storage of weights. Its bytes are in `slot`, which is replaced when they are written."""

    residence: Residence
    name: str
    nbytes: int
    device: torch.device
    slot: Slot
    number: int = field(default_factory=lambda: next(_numbers))


class Residence:
    """Brings weights in by `transfer`, with at most `budget` bytes of them near, in use or on their way.

    far: bytes of weights whose master is in the far tier. near, peak: bytes that are near now, and at most so far.
    ahead: transfers begun before they were asked for; wasted: those of them that were not asked for after all.
    held: names of weights whose first memory somebody else keeps, so that offloading them freed nothing.
    """

    def __init__(self, transfer: Transfer, budget: int) -> None:
        self.transfer, self.budget = transfer, budget
        self.peak = self.ahead = self.wasted = 0
        self.held: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._weights: weakref.WeakValueDictionary[int, Weight] = weakref.WeakValueDictionary()
        # Finalizers run anywhere, also under our lock in this very thread: they only append.
        self._gone: deque[int] = deque()
        self._used = 0
        self._coming: dict[int, Arrival] = {}
        # By the last two requests, since one weight may be used at several places: what came next.
        self._next: dict[tuple[int, int], int] = {}
        self._at = (0, 0)

    @property
    def far(self) -> int:
        return sum(weight.nbytes for weight in list(self._weights.values()))

    @property
    def near(self) -> int:
        with self._lock:
            return self._in_use() + self._on_the_way()

    @property
    def moved_in(self) -> int:
        """Bytes that were copied in so far, those that were not asked for after all included."""
        return self.transfer.moved_in

    def take(self, name: str, flat: Tensor) -> Weight:
        """Copy the bytes of a storage out. Raises FarTierFull, TransferError."""
        slot = self.transfer.put(flat)
        self.transfer.settle(slot)
        weight = Weight(self, name, slot.nbytes, flat.device, slot)
        self._weights[weight.number] = weight
        return weight

    def bring(self, weight: Weight) -> Tensor:
        """The bytes of a weight, in memory of its own; they count until that is freed.

        Raises:
            TransferError: what is in use leaves no room for it in the budget, or it cannot be read.
        """
        with self._lock:
            arrival = self._expected(weight)
            if arrival is None:
                self._make_room(weight)
                arrival = self._fetch(weight)
            flat = self.transfer.get(arrival)
            self._used += weight.nbytes
            weakref.finalize(flat.untyped_storage(), self._gone.append, weight.nbytes).atexit = False
            self.peak = max(self.peak, self.near)
            self._look_ahead()
            return flat

    def write(self, weight: Weight, flat: Tensor) -> None:
        """Replace the bytes of a weight. Raises FarTierFull, TransferError: it stays as it was."""
        with self._lock:
            slot = self.transfer.put(flat)
            self.transfer.settle(slot)
            weight.slot = slot
            self._drop(weight.number)

    def _expected(self, weight: Weight) -> Arrival | None:
        """Note what was asked for; the copy that was begun ahead, if this was foreseen."""
        if self._next.get(self._at) != weight.number:
            for number in list(self._coming):
                if number != weight.number:
                    self._drop(number)
        self._next[self._at] = weight.number
        self._at = (self._at[1], weight.number)
        return self._coming.pop(weight.number, None)

    def _make_room(self, weight: Weight) -> None:
        while self._coming and self.near + weight.nbytes > self.budget:
            self._drop(next(reversed(self._coming)))
        if self.near + weight.nbytes > self.budget:
            least = exact_size(rounded_up(self.near + weight.nbytes))
            raise TransferError(
                f"{weight.name} ({size(weight.nbytes)}) is needed while {size(self.near)} of other weights are in use, "
                f"which passes the budget of {size(self.budget)}: give it at least {least}"
            )

    def _look_ahead(self) -> None:
        at, seen = self._at, set()
        while at not in seen and (number := self._next.get(at)) is not None:
            seen.add(at)
            at = (at[1], number)
            if number in self._coming:
                continue
            weight = self._weights.get(number)
            if weight is None or self.near + weight.nbytes > self.budget:
                return
            self._coming[number] = self._fetch(weight)
            self.ahead += 1
            self.peak = max(self.peak, self.near)

    def _fetch(self, weight: Weight) -> Arrival:
        return self.transfer.fetch(weight.slot, ((weight.nbytes,), (1,), torch.uint8, weight.device))

    def _drop(self, number: int) -> None:
        arrival = self._coming.pop(number, None)
        if arrival is None:
            return
        self.wasted += 1
        try:
            self.transfer.get(arrival)  # its memory is written to until then
        except TransferError:
            pass  # nobody asked for it; who does will hear

    def _in_use(self) -> int:
        for _ in range(len(self._gone)):
            self._used -= self._gone.popleft()
        return self._used

    def _on_the_way(self) -> int:
        return sum(arrival.slot.nbytes for arrival in self._coming.values())
