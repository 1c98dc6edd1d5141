"""Moving tensors to a far tier and back: what is on its way is bounded, and what nobody holds any more is freed.

`put` begins a copy out and `settle` ends it; `fetch` begins a copy in and `get` ends it. A slot's place in the far tier
is free again as soon as nothing refers to the slot. Errors of a copy are raised where it ends, or by the next `put`.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..errors import FarTierFull, TransferError
from ..units import exact_size


class Copy(Protocol):
    """A copy that was begun; a Future, or an event of a stream."""

    def done(self) -> bool: ...

    def result(self) -> None:
        """Wait (or make the current stream wait) until it is done; raises what went wrong."""


class Tier(Protocol):
    """Far memory. `allocate` raises FarTierFull; `store` and `load` only begin, and keep `near` until they are done."""

    def allocate(self, size: int) -> Any: ...

    def free(self, place: Any) -> None: ...

    def store(self, near: Tensor, nbytes: int, place: Any) -> Copy: ...

    def load(self, place: Any, nbytes: int, near: Tensor) -> Copy: ...

    def close(self) -> None: ...


@dataclass(eq=False)
class Slot:
    """One tensor's bytes in the far tier. `near` is the tensor, and `copies` holds the copy out, until they are there.

    The finalizer shares `copies`, and a copy that failed refers to its error, whose frames refer to the slot: it must
    have left by then.
    """

    transfer: Transfer
    place: Any
    nbytes: int
    copies: list[Copy]
    near: Tensor | None
    failure: str = ""


@dataclass(eq=False)
class Arrival:
    """A tensor on its way in. It has no memory yet while others are on their way up to the bound."""

    slot: Slot
    size: Sequence[int]
    stride: Sequence[int]
    dtype: torch.dtype
    device: torch.device
    near: Tensor | None = None
    copy: Copy | None = None


class Transfer:
    """Copies to and from `tier`, in order, with at most `inflight` bytes of near memory on the way out, and in.

    One tensor larger than `inflight` goes alone. `moved_out` and `moved_in` count bytes, `peak_out` and `peak_in` the
    most that was on its way at once, `taken_back` the copies in that were begun too early, and dropped again.
    """

    def __init__(self, tier: Tier, inflight: int) -> None:
        self.tier, self.inflight = tier, inflight
        self.moved_out = self.moved_in = self.peak_out = self.peak_in = self.taken_back = 0
        self._lock = threading.RLock()
        self._out: list[weakref.ref[Slot]] = []
        self._in: list[weakref.ref[Arrival]] = []
        # Finalizers run anywhere, also under our lock in this very thread: they only append.
        self._dropped: deque[tuple[Any, int, list[Copy]]] = deque()
        self._live = 0

    @property
    def live(self) -> int:
        """Bytes in slots that somebody holds."""
        with self._lock:
            self._reclaim(wait=True)
            return self._live

    def put(self, near: Tensor) -> Slot:
        """Begin to copy a tensor out, once what is on its way leaves room for it.

        Raises:
            FarTierFull: there is no room in the far tier; nothing was begun.
            TransferError: an earlier copy failed.
        """
        nbytes = extent(near.shape, near.stride(), near.dtype)
        with self._lock:
            under_way = self._drain(nbytes)
            place = self._allocate(nbytes)
            slot = Slot(self, place, nbytes, [self.tier.store(near, nbytes, place)], near)
            weakref.finalize(slot, self._dropped.append, (place, nbytes, slot.copies)).atexit = False
            self._out.append(weakref.ref(slot))
            self._live += nbytes
            self.moved_out += nbytes
            self.peak_out = max(self.peak_out, under_way + nbytes)
            return slot

    def settle(self, slot: Slot) -> None:
        """Wait until the tensor's own memory is needed no more. Raises FarTierFull, TransferError: the copy failed."""
        with self._lock:
            if slot.failure:
                raise TransferError(slot.failure)
            try:
                while slot.copies:
                    slot.copies.pop().result()
            except TransferError as error:
                slot.failure = str(error)
                raise
            finally:
                slot.near = None

    def fetch(self, slot: Slot, like: tuple[Sequence[int], Sequence[int], torch.dtype, torch.device]) -> Arrival:
        """Begin to copy in, into memory of the given size, stride, dtype and device; later if too much is on its way.

        Raises:
            TransferError: the copy out failed, or what is wanted is not as large as what was put.
        """
        arrival = Arrival(slot, *like)
        if extent(arrival.size, arrival.stride, arrival.dtype) != slot.nbytes:
            raise TransferError(f"{exact_size(slot.nbytes)} went out, and {tuple(like[0])} of {like[2]} is asked for")
        with self._lock:
            self.settle(slot)
            self._in.append(weakref.ref(arrival))
            self._begin()
        return arrival

    def get(self, arrival: Arrival) -> Tensor:
        """The tensor, once it is there. Raises TransferError: it could not be read."""
        with self._lock:
            if arrival.copy is None:
                self._make_room(arrival)
                self._load(arrival)
            copy, near = arrival.copy, arrival.near
            assert copy is not None and near is not None
            try:
                copy.result()
            finally:
                self._in = [ref for ref in self._in if ref() not in (None, arrival)]
                copy = arrival.copy = arrival.near = None
            self._begin()
            return near

    def close(self) -> None:
        self.tier.close()

    def _outgoing(self) -> list[Slot]:
        slots = [slot for ref in self._out if (slot := ref()) is not None]
        for slot in slots:
            if all(copy.done() for copy in slot.copies):
                self.settle(slot)
        slots = [slot for slot in slots if slot.near is not None]
        self._out = [weakref.ref(slot) for slot in slots]
        return slots

    def _drain(self, nbytes: int) -> int:
        """Wait for copies out, oldest first, until `nbytes` more may be on their way; returns the bytes still on it."""
        while (slots := self._outgoing()) and sum(slot.nbytes for slot in slots) + nbytes > self.inflight:
            self.settle(slots[0])
        return sum(slot.nbytes for slot in slots)

    def _allocate(self, nbytes: int) -> Any:
        self._reclaim(wait=False)
        try:
            return self.tier.allocate(nbytes)
        except FarTierFull:
            if not self._dropped:
                raise
            self._reclaim(wait=True)
            return self.tier.allocate(nbytes)

    def _reclaim(self, wait: bool) -> None:
        """Free what was dropped; a place that is still written to only if `wait`."""
        for _ in range(len(self._dropped)):
            place, nbytes, copies = self._dropped.popleft()
            if not wait and not all(copy.done() for copy in copies):
                self._dropped.append((place, nbytes, copies))
                continue
            for copy in copies:
                _end(copy)
            self.tier.free(place)
            self._live -= nbytes

    def _arriving(self) -> list[Arrival]:
        return [arrival for ref in self._in if (arrival := ref()) is not None]

    def _begin(self) -> None:
        """Begin the copies in that wait, in order, as far as the bound allows."""
        arriving = self._arriving()
        self._in = [weakref.ref(arrival) for arrival in arriving]
        under_way = sum(arrival.slot.nbytes for arrival in arriving if arrival.copy is not None)
        for arrival in arriving:
            if arrival.copy is None:
                if under_way and under_way + arrival.slot.nbytes > self.inflight:
                    return
                under_way += arrival.slot.nbytes
                self._load(arrival)

    def _make_room(self, wanted: Arrival) -> None:
        """Drop the youngest copies in, which will be begun again, until `wanted` fits."""
        begun = [arrival for arrival in self._arriving() if arrival.copy is not None]
        while begun and sum(arrival.slot.nbytes for arrival in begun) + wanted.slot.nbytes > self.inflight:
            youngest = begun.pop()
            assert youngest.copy is not None
            _end(youngest.copy)
            youngest.copy = youngest.near = None
            self.taken_back += 1

    def _load(self, arrival: Arrival) -> None:
        near = torch.empty_strided(arrival.size, arrival.stride, dtype=arrival.dtype, device=arrival.device)
        arrival.near = near
        arrival.copy = self.tier.load(arrival.slot.place, arrival.slot.nbytes, near)
        self.moved_in += arrival.slot.nbytes
        under_way = sum(other.slot.nbytes for other in self._arriving() if other.copy is not None)
        self.peak_in = max(self.peak_in, under_way)


def extent(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> int:
    """Bytes from the first element of a tensor to the end of its last."""
    if 0 in size:
        return 0
    return (sum((count - 1) * step for count, step in zip(size, stride, strict=True)) + 1) * dtype.itemsize


def _end(copy: Copy) -> None:
    try:
        copy.result()
    except TransferError:
        pass  # nobody wants these bytes any more
