"""What a compiler that fuses loops never puts into memory: without this, temporaries would fill a budget."""

from __future__ import annotations

from bisect import bisect_right

import torch
from torch.fx import Node

from ..torch_compat import aliases
from .groups import Group, Half, unique
from .names import operator_name

_CONSTANTS = frozenset("full full_like scalar_tensor iota arange".split())


def find_vanishing(half: Half) -> None:
    """Note which storages are only values inside of loops that use them at once.

    A guess at what Inductor does, by the tags of operators: elementwise values that only elementwise operators and
    reductions use, with nothing else in between.
    """
    barriers = sorted(index for node, index in half.order.items() if _is_barrier(node))
    for group in unique(half):
        group.vanishes = _vanishes(group, half, barriers)


def _vanishes(group: Group, half: Half, barriers: list[int]) -> bool:
    members = set(group.nodes)
    users = {user for node in group.nodes for user in node.users} - members
    if not _has(group.base, torch.Tag.pointwise) or not all(map(_is_in_a_loop, users)):
        return False
    first, last = half.order[group.base], max((half.order[user] for user in users), default=0)
    return bisect_right(barriers, first) == bisect_right(barriers, max(first, last))


def _is_barrier(node: Node) -> bool:
    return node.op == "call_function" and not _is_in_a_loop(node) and not aliases.viewed(node)


def _is_in_a_loop(node: Node) -> bool:
    return _has(node, torch.Tag.pointwise) or _has(node, torch.Tag.reduction) or operator_name(node) == "getitem"


def _has(node: Node, tag: torch.Tag) -> bool:
    if node.op != "call_function":
        return False
    constant = tag is torch.Tag.pointwise and operator_name(node) in _CONSTANTS
    return constant or tag in getattr(node.target, "tags", ())
