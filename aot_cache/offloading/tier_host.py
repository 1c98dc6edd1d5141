"""The far tier of an accelerator: pinned host memory, filled and read on one side stream each way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import FarTierFull
from ..units import exact_size


@dataclass(frozen=True)
class StreamCopy:
    """A copy on a side stream. Waiting for it makes the current stream wait, and not the host."""

    event: torch.Event
    device: torch.device

    def done(self) -> bool:
        return self.event.query()

    def result(self) -> None:
        torch.accelerator.current_stream(self.device).wait_event(self.event)


class HostTier:
    """Bytes of `device`'s tensors in at most `limit` bytes of pinned memory, which are kept for the next step."""

    def __init__(self, device: torch.device, limit: int) -> None:
        self._device, self._limit = device, limit
        self._out, self._in = torch.Stream(device), torch.Stream(device)
        self._free: dict[int, list[Tensor]] = {}
        self._held = 0
        self.written = self.read = 0

    @property
    def size(self) -> int:
        """Bytes of pinned memory, used or not."""
        return self._held

    def allocate(self, size: int) -> Tensor:
        """Raises FarTierFull: the limit, or the machine, does not allow it."""
        if kept := self._free.get(size):
            return kept.pop()
        if self._held + size > self._limit:
            self._release()
        if self._held + size > self._limit:
            raise FarTierFull("host memory", size, self._held, f"it may hold {exact_size(self._limit)}")
        try:
            place = self.pin(size)
        except RuntimeError as error:
            raise FarTierFull("host memory", size, self._held, str(error)) from error
        self._held += size
        return place

    def pin(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def free(self, place: Tensor) -> None:
        self._free.setdefault(place.numel(), []).append(place)

    def store(self, near: Tensor, nbytes: int, place: Tensor) -> StreamCopy:
        self.written += nbytes
        return self._copy(self._out, near, _shaped(place, nbytes, near))

    def load(self, place: Tensor, nbytes: int, near: Tensor) -> StreamCopy:
        # Who drops `near` before it is there must not give its memory to others while it is written to.
        near.record_stream(self._in)
        self.read += nbytes
        return self._copy(self._in, _shaped(place, nbytes, near), near)

    def close(self) -> None:
        self._out.synchronize()
        self._in.synchronize()
        self._release()

    def _copy(self, stream: torch.Stream, source: Tensor, target: Tensor) -> StreamCopy:
        # What is copied was computed on the current stream, and what is written to was last read there.
        stream.wait_stream(torch.accelerator.current_stream(self._device))
        with stream:
            target.copy_(source, non_blocking=True)
        return StreamCopy(stream.record_event(), self._device)

    def _release(self) -> None:
        """Give back what is pinned and not used: what the next sizes are was not known."""
        self._held -= sum(size * len(places) for size, places in self._free.items())
        self._free.clear()


def _shaped(place: Tensor, nbytes: int, near: Tensor) -> Tensor:
    """Host memory in the form of a tensor, so that the copy is one of plain bytes."""
    return place[:nbytes].view(near.dtype).as_strided(near.size(), near.stride())
