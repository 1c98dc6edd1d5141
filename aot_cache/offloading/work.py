"""What a node of a graph computes and touches, for the cost tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from ..torch_compat import aliases
from .costs import Roofline
from .transfer import extent


def seconds(node: Node, table: Roofline) -> float:
    """Seconds of a node by its floating-point operations, and the bytes that it reads and writes; 0 for a view."""
    values = list(_tensors(node.meta.get("val")))
    if node.op != "call_function" or aliases.viewed(node) is not None:
        return 0.0
    inputs = [value for argument in node.all_input_nodes for value in _tensors(argument.meta.get("val"))]
    return table.seconds(_flops(node), float(sum(_touched(value) for value in (*inputs, *values))))


def _flops(node: Node) -> float:
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0.0  # what is not listed is bound by memory
    arguments = {key: _value(value) for key, value in node.kwargs.items()}
    count = formula(*map(_value, node.args), **arguments, out_val=node.meta.get("val"))
    return float(count) if isinstance(count, int) else 0.0


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _touched(value: Tensor) -> int:
    """Bytes of a tensor; 0 if they are not known when planned."""
    if not aliases.is_plain(value):
        return 0
    return aliases.hint(extent(value.shape, value.stride(), value.dtype)) or 0
