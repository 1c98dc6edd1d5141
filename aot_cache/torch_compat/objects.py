"""torch's own objects inside user code, for the portable identity of callables."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from . import distributed, extensions, targets, tensors, triton
from .kinds import is_a
from .patches import original_of as patched_original

_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme)


def taught(value: Any) -> bytes | tuple[bytes, Any] | None:
    """Bytes that identify `value`; None for what is no object of torch's."""
    if is_a(value, _NAMED):
        return f"{type(value).__name__} {value}".encode()
    if is_a(value, (OpOverload, OpOverloadPacket)):
        # Custom operators are code of somebody else, which their name does not stand for.
        return targets.name(value).encode() if targets.kind(value) is targets.Kind.TORCH_OP else None
    if is_a(value, HigherOrderOperator):
        return targets.name(value).encode(), extensions.foreign_rules(value)
    if is_a(value, torch.Tensor):
        return _tensor(value)
    if (original := patched_original(value)) is not None:
        return b"what we patched", original
    if is_a(value, type) and issubclass(value, torch.autograd.function.BackwardCFunction):
        # Made by torch for every autograd.Function, and numbered within the process.
        return b"backward of the function that it belongs to"
    if (known := distributed.described(value)) is not None:
        return repr(known).encode()
    return triton.taught(value)


def ufunc(value: Any) -> str | None:
    """The name in NumPy of one of its own functions on elements; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not is_a(value, numpy.ufunc):
        return None
    return value.__name__ if getattr(numpy, value.__name__, None) is value else None


def _tensor(tensor: torch.Tensor) -> bytes | None:
    if not tensors.is_plain(tensor):
        return None
    try:
        data = tensors.contents(tensor)
    except ValueError:
        return None
    described = tensors.describe(tensor, tensors.Symbols(()))
    del described["static"]  # Dynamo marks parameters so while it traces
    return repr(sorted(described.items())).encode() + b"\0" + data
