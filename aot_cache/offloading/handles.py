"""Handles: small tensors that stand for something that was moved, and that keep it for as long as they live.

A handle is what autograd saves, so whatever ends the life of a saved tensor (a backward, an exception, a forward whose
backward never comes) also ends the slot. Its memory is a Python object that refers to what it stands for.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch
from torch import Tensor

from ..errors import TransferError

ELEMENTS, DTYPE = 2, torch.int64
_numbers = itertools.count(1)
_owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class _Memory(bytearray):
    """The bytes of a handle. The tensor's storage holds a reference to this object, which holds one to the owner."""

    owner: Any


def issue(owner: Any) -> Tensor:
    """A new handle (two int64 on the CPU: a number, and a check) for an object, which lives at least as long."""
    number = next(_numbers)
    memory = _Memory(number.to_bytes(8, "little") + (~number).to_bytes(8, "little", signed=True))
    memory.owner = owner
    _owners[number] = owner
    return torch.frombuffer(memory, dtype=DTYPE)


def owner(handle: Tensor) -> Any:
    """What a handle stands for. Raises TransferError: these are not the bytes of a handle that is alive."""
    number, check = handle.tolist()
    found = _owners.get(number) if check == ~number else None
    if found is None:
        raise TransferError(f"handle {number} stands for nothing: what it stood for was freed, or it was overwritten")
    return found
