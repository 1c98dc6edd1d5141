"""The operators that a schedule puts into graphs. Importing this registers them: do so before such a graph runs.

    handle = spill(x)          begin to copy x out
    handle = wait(handle, x)   x is needed no more: an edge that keeps its memory until here; this handle is saved
    coming = fetch(handle, ..) begin to copy in
    x = fill(coming, ..)       the tensor, when it is there

All are functional: what they return aliases nothing. The order in which they run is a matter of data edges only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import TransferError
from . import handles
from .transfer import Arrival, Slot, Transfer

NAMESPACE = "aot_cache"
_LIKE = "SymInt[] size, SymInt[] stride, ScalarType dtype, Device device"

_transfers: dict[str, Transfer] = {}


def use(device_type: str, transfer: Transfer | None) -> Transfer | None:
    """Let tensors on `device_type` ("cpu", "cuda") move by `transfer`; None for none. Returns what was there before."""
    before = _transfers.pop(device_type, None)
    if transfer is not None:
        _transfers[device_type] = transfer
    return before


def _spill(x: Tensor) -> Tensor:
    transfer = _transfers.get(x.device.type)
    if transfer is None:
        raise TransferError(f"a graph with an offload schedule runs, and there is no far tier for {x.device.type}")
    return handles.issue(transfer.put(x))


def _wait(handle: Tensor, x: Tensor) -> Tensor:
    slot = _owner(handle, Slot)
    slot.transfer.settle(slot)
    return handles.issue(slot)


def _fetch(
    handle: Tensor, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    slot = _owner(handle, Slot)
    return handles.issue(slot.transfer.fetch(slot, (size, stride, dtype, device)))


def _fill(
    coming: Tensor, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    arrival = _owner(coming, Arrival)
    return arrival.slot.transfer.get(arrival)


def _owner(handle: Tensor, kind: type) -> Slot | Arrival:
    found = handles.owner(handle)
    if not isinstance(found, kind):
        raise TransferError(f"a handle of {type(found).__name__} stands where one of {kind.__name__} should")
    return found


def handle_like(*_: object) -> Tensor:
    """An empty tensor of the form of a handle."""
    return torch.empty(handles.ELEMENTS, dtype=handles.DTYPE, device="cpu")


def _fake_fill(
    coming: Tensor, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


_library = torch.library.Library(NAMESPACE, "DEF")
for _name, _schema, _real, _fake in (
    ("spill", "(Tensor x) -> Tensor", _spill, handle_like),
    ("wait", "(Tensor handle, Tensor x) -> Tensor", _wait, handle_like),
    ("fetch", f"(Tensor handle, {_LIKE}) -> Tensor", _fetch, handle_like),
    ("fill", f"(Tensor coming, {_LIKE}) -> Tensor", _fill, _fake_fill),
):
    _library.define(_name + _schema)
    _library.impl(_name, _real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{_name}", _fake, lib=_library)

spill = torch.ops.aot_cache.spill.default
wait = torch.ops.aot_cache.wait.default
fetch = torch.ops.aot_cache.fetch.default
fill = torch.ops.aot_cache.fill.default
