"""What a compiler that fuses loops never puts into memory: without this, temporaries would fill a budget."""

from __future__ import annotations

from bisect import bisect_right

import torch
from torch.fx import Node

from ..torch_compat import aliases
from .groups import Group, Half, unique
from .names import operator_name

_CONSTANTS = frozenset("full full_like scalar_tensor iota arange".split())
# Inductor's defaults: from how many reads on a value is kept that several loops use, and one that a single loop uses.
_MOST_READS_IF_SHARED, _MOST_READS = 4, 8


def find_vanishing(half: Half, device: str = "") -> None:
    """Note which storages are only values inside of loops. device: that the code is for; "": that of each value.

    A guess at what Inductor does, by the tags of operators. Elementwise values that only elementwise operators and
    reductions use vanish if nothing else is in between. If something is, an accelerator computes them again from what
    they read, as long as that is little; the CPU counts as keeping them, as it does with all that is heavy.
    """
    barriers = sorted(index for node, index in half.order.items() if _is_barrier(node))
    reads: dict[Group, set[Group]] = {}
    for group in unique(half):
        users = {user for node in group.nodes for user in node.users}.difference(group.nodes)
        if not _has(group.base, torch.Tag.pointwise) or not all(map(_is_in_a_loop, users)):
            continue
        reads[group] = _reads(group, half, reads)
        again = len(reads[group]) <= (_MOST_READS_IF_SHARED if len(users) > 1 else _MOST_READS)
        is_on_cpu = (device or group.base.meta["val"].device.type) == "cpu"
        group.vanishes = _is_used_at_once(group, users, half, barriers) or (again and not is_on_cpu)


def _reads(group: Group, half: Half, known: dict[Group, set[Group]]) -> set[Group]:
    """What is in memory and read to compute a value."""
    given = [half.groups[node] for node in group.base.all_input_nodes if node in half.groups]
    return {read for one in given for read in (known[one] if one.vanishes else (one,))}


def _is_used_at_once(group: Group, users: set[Node], half: Half, barriers: list[int]) -> bool:
    first = half.order[group.base]
    last = max((half.order[user] for user in users), default=first)
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
