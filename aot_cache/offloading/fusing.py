"""What a compiler that fuses loops never puts into memory: without this, temporaries would fill a budget."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from .names import operator_name

_CONSTANTS = frozenset("full full_like scalar_tensor iota arange".split())


def vanishes(nodes: Sequence[Node]) -> bool:
    """Whether a storage, by the nodes that share it, is only a value inside of loops that use it at once.

    A guess at what Inductor does, by the tags of operators: elementwise values that only elementwise operators and
    reductions use.
    """
    members = set(nodes)
    users = {user for node in nodes for user in node.users} - members
    return _has(nodes[0], torch.Tag.pointwise) and all(_is_in_a_loop(user) for user in users)


def _is_in_a_loop(node: Node) -> bool:
    return _has(node, torch.Tag.pointwise) or _has(node, torch.Tag.reduction)


def _has(node: Node, tag: torch.Tag) -> bool:
    if node.op != "call_function":
        return False
    constant = tag is torch.Tag.pointwise and operator_name(node) in _CONSTANTS
    return constant or tag in getattr(node.target, "tags", ())
