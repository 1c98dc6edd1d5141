"""What a node of a graph computes and touches, for the cost tables."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from ..torch_compat import aliases
from .costs import Roofline
from .transfer import extent

# Raise this whenever nodes count as taking other seconds, or other values as never in memory (see `fusing`).
WORK_VERSION = 2

_aten = torch.ops.aten
# What torch's table leaves out, with an operator that takes the same tensors first and computes as much.
_ALIKE = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _aten._scaled_dot_product_efficient_attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _aten._scaled_dot_product_efficient_attention_backward,
}


def seconds(node: Node, table: Roofline, fused: Container[Node] = ()) -> float:
    """Seconds of a node by its floating-point operations, and the bytes that it reads and writes; 0 for a view.

    fused: nodes whose results never reach memory (see `fusing`): no bytes, and no overhead of their own.
    """
    if node.op != "call_function" or aliases.viewed(node) is not None:
        return 0.0
    touched = [other for other in (*node.all_input_nodes, node) if other not in fused]
    moved = sum(_touched(value) for other in touched for value in _tensors(other.meta.get("val")))
    return table.seconds(_flops(node), float(moved)) - (table.overhead if node in fused else 0.0)


def _flops(node: Node) -> float:
    packet = getattr(node.target, "overloadpacket", None)
    formula = flop_registry.get(_ALIKE.get(packet, packet))
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
