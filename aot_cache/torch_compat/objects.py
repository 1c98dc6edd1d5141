"""torch's own objects inside user code, for the portable identity of callables."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from . import distributed, extensions, targets, tensors, triton
from .kinds import is_a
from .patches import original_of as patched_original

# Dynamo's and Inductor's, which come with the first compile.
_MARKS = ("_dynamo_", "_is_inductor_")
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


def module_hooks() -> list[Any]:
    """Hooks that run for every module of the process, in their order."""
    found = vars(torch.nn.modules.module).items()
    tables = [table for name, table in found if name.startswith("_global_") and type(table) is OrderedDict]
    return [hook for table in tables for hook in table.values() if callable(hook)]


def pytree_nodes() -> dict[type, tuple[Any, ...]]:
    """Each class that a tree of containers is taken apart at, with the functions that do so."""
    return {cls: tuple(node)[1:] for cls, node in pytree.SUPPORTED_NODES.items()}


def _tensor(tensor: torch.Tensor) -> bytes | tuple[bytes, Any] | None:
    if not tensors.is_plain(tensor):
        return None
    try:
        data = tensors.contents(tensor)
    except ValueError:
        return None
    described = tensors.describe(tensor, tensors.Symbols(()))
    del described["static"]  # Dynamo marks parameters so while it traces
    if tensor.layout is torch.strided:
        described["view"], described["storage"] = tensor._is_view(), tensor.untyped_storage().nbytes()
    known = repr(sorted(described.items())).encode() + b"\0" + data
    besides = _besides(tensor)
    return (known, besides) if besides else known


def _besides(tensor: torch.Tensor) -> list[Any]:
    """What hangs on a tensor: attributes of Python's, hooks and the gradient."""
    attributes = [(name, value) for name, value in vars(tensor).items() if not name.startswith(_MARKS)]
    tables = [getattr(tensor, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")]
    hooks = [list(table.values()) for table in tables if table]
    grad = [tensor.grad] if tensor.is_leaf and tensor.grad is not None else []
    return [*attributes, *hooks, *grad]
