"""The storages of a forward and a backward graph: when they live, and which of them may move to the far tier.

A storage is what one node makes and others may view.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from ..errors import OffloadError
from ..torch_compat import aliases
from ..units import exact_size
from . import names
from .fusing import find_vanishing
from .groups import Group, Half, half, join, maker, unique
from .marks import wishes
from .problem import BACKWARD, START, Kind, Problem, Step, Storage
from .transfer import extent

ELIGIBILITY_VERSION = 1
SMALLEST = 64 * 1024
"""Bytes. Moving less costs more than it frees."""

Seconds = Callable[[Node, Container[Node]], float]
"""Of a node, given the nodes whose results never reach memory (see `fusing`)."""


@dataclass(frozen=True)
class Pair:
    """What a partitioner returns. outputs: how many outputs of the forward, the first ones, are not saved.

    fuses: whether it goes to a compiler that fuses loops (see `fusing`), which makes code for `device`; "": for that of
    each value.
    """

    forward: GraphModule
    backward: GraphModule
    outputs: int
    fuses: bool = False
    device: str = ""


@dataclass
class Analysis:
    """The problem that a planner solves, and the nodes that its names stand for."""

    pair: Pair
    problem: Problem
    forward: Half
    backward: Half
    saved: dict[str, list[tuple[Node, Node]]]
    """By storage: the forward's saved values, each with the backward's input for it."""

    def group(self, storage: str) -> Group:
        return self.forward.groups[self.saved[storage][0][0]]


def analyse(pair: Pair, seconds: Seconds = lambda node, fused: 0.0, smallest: int = SMALLEST) -> Analysis:
    """Find the storages of a pair of graphs. seconds: what a step takes. smallest: bytes from which one may move.

    Raises:
        OffloadError: the graphs do not belong together.
    """
    forward, backward = half(pair.forward, "primals"), half(pair.backward, "in")
    pairs = _saved(pair)
    by_group: dict[int, list[tuple[Node, Node]]] = {}
    for node, given in pairs:
        if node in forward.groups:
            by_group.setdefault(id(forward.groups[node]), []).append((node, given))
    # What is one storage in the forward is one in the backward, whichever of its views were saved.
    for found in by_group.values():
        for _, given in found[1:]:
            join(backward, backward.groups[found[0][1]], backward.groups[given])
    if pair.fuses:
        find_vanishing(forward, pair.device)
        find_vanishing(backward, pair.device)
    storages, saved = [], {}
    for group in unique(forward):
        found = by_group.get(id(group), [])
        storage = _forward_storage(pair, forward, backward, group, found, smallest)
        storages.append(storage)
        if found:
            saved[storage.name] = found
    inputs = {given for _, given in pairs}
    storages += [_backward_storage(pair, backward, g) for g in unique(backward) if not inputs & set(g.nodes)]
    problem = Problem(
        _steps(forward, seconds),
        _steps(backward, seconds),
        tuple(storages),
        names.digest(pair.forward.graph, forward.names),
        names.digest(pair.backward.graph, backward.names),
    )
    return Analysis(pair, problem, forward, backward, saved)


def _saved(pair: Pair) -> list[tuple[Node, Node]]:
    """The saved values, each with the input of the backward that takes it. The partitioner names both alike."""
    given = {node.name: node for node in pair.backward.graph.find_nodes(op="placeholder")}
    kept = _results(pair.forward)[pair.outputs :]
    saved = [node for node in kept if isinstance(node, Node) and isinstance(node.meta.get("val"), Tensor)]
    if unknown := [node.name for node in saved if node.name not in given]:
        raise OffloadError(
            f"the backward has no input for {', '.join(unknown)}: these graphs were not cut by AOTAutograd"
        )
    return [(node, given[node.name]) for node in saved]


def _results(module: GraphModule) -> list[Any]:
    (output,) = module.graph.find_nodes(op="output")
    return list(output.args[0]) if isinstance(output.args[0], (list, tuple)) else [output.args[0]]


def _steps(half: Half, seconds: Seconds) -> tuple[Step, ...]:
    fused = {node for node, group in half.groups.items() if group.vanishes}
    return tuple(Step(half.names[node], 0.0 if node.op == "output" else seconds(node, fused)) for node in half.steps)


def _bytes(group: Group) -> int | None:
    value = group.base.meta.get("val")
    if not isinstance(value, Tensor) or not aliases.is_plain(value):
        return 0
    return aliases.hint(value.untyped_storage().nbytes())


def _maker(half: Half, node: Node) -> int:
    """The step that allocates what `node` returns."""
    return half.steps.get(maker(node), START)


def _forward_storage(
    pair: Pair, forward: Half, backward: Half, group: Group, saved: list[tuple[Node, Node]], smallest: int
) -> Storage:
    base, uses = group.base, forward.uses(group)
    is_output = any(node in group.nodes for node in _results(pair.forward)[: pair.outputs])
    later = backward.groups[saved[0][1]] if saved else None
    reads = backward.uses(later) if later else []
    if later and any(node in later.nodes for node in _results(pair.backward)):
        reads.append(len(backward.steps) - 1)
    must, prefer, never = wishes(group.nodes, bool(saved and reads))
    refused = ""
    if saved and reads:
        is_mutated = group.is_mutated or (later is not None and later.is_mutated)
        refused = "alias of an output" if is_output else _refusal(group, saved, is_mutated, 1 if must else smallest)
        refused = refused or ("it is marked so" if never and not must else "")
    return Storage(
        name=forward.names[base],
        bytes=0 if group.vanishes else _bytes(group) or 0,
        kind=_kind(base),
        produced=_maker(forward, base),
        last_forward=len(forward.steps) - 1 if is_output else (uses[-1] if uses else -1),
        first_backward=reads[0] if reads else -1,
        last_backward=reads[-1] if reads else -1,
        eligible=bool(saved and reads and not refused),
        refused=refused,
        must=must,
        prefer=prefer,
        replay=tuple(names.operator_name(node) for node in replayed(group, [node for node, _ in saved])),
    )


def _backward_storage(pair: Pair, backward: Half, group: Group) -> Storage:
    uses, made = backward.uses(group), max(_maker(backward, group.base), 0)
    if any(node in group.nodes for node in _results(pair.backward)):
        uses.append(len(backward.steps) - 1)
    return Storage(
        name=f"bw.{backward.names[group.base]}",
        bytes=0 if group.vanishes else _bytes(group) or 0,
        kind="other",
        produced=BACKWARD,
        last_forward=-1,
        first_backward=made,
        last_backward=max([made, *uses]),
    )


def _kind(base: Node) -> Kind:
    if base.op == "call_function":
        return "act"
    return "weight" if type(base.meta.get("desc")).__name__ == "ParamAOTInput" else "other"


def _refusal(group: Group, saved: list[tuple[Node, Node]], is_mutated: bool, smallest: int) -> str:
    """Why a saved storage may not move; "" if it may."""
    value, base = group.base.meta.get("val"), group.base
    if any(node.op in ("placeholder", "get_attr") for node in group.nodes):
        return "alias of an input"
    if is_mutated:
        return "mutated"
    if not all(aliases.is_plain(node.meta.get("val")) for node in (base, *(node for node, _ in saved))):
        return "not a plain dense tensor"
    size = _bytes(group)
    known = (aliases.hint(number) is not None for number in (*value.shape, *value.stride()))
    if size is None or not all(known):
        return "size not known when planned"
    if size == 0:
        return "empty"
    if waiting := next((why for node in group.nodes if (why := aliases.awaits(node))), ""):
        return waiting
    if size < smallest:
        return f"smaller than {exact_size(smallest)}"
    if value.storage_offset() != 0 or extent(value.shape, value.stride(), value.dtype) != size:
        return "no node holds all of it"
    return _cannot_replay(group, saved)


def _cannot_replay(group: Group, saved: list[tuple[Node, Node]]) -> str:
    members = set(group.nodes)
    for node in replayed(group, [node for node, _ in saved]):
        if set(node.all_input_nodes) - members:
            return "a view that depends on other values"
    for node, given in saved:
        one, two = node.meta["val"], given.meta.get("val")
        if not isinstance(two, Tensor) or (one.shape, one.stride(), one.dtype) != (two.shape, two.stride(), two.dtype):
            return "saved in one form and taken in another"
    return ""


def replayed(group: Group, saved: list[Node]) -> list[Node]:
    """The views, in order, by which the saved values come from the node that makes their storage."""
    members, wanted = set(group.nodes), set(saved)
    for node in reversed(group.nodes):
        if node in wanted and node is not group.base:
            wanted |= members.intersection(node.all_input_nodes)
    return [node for node in group.nodes if node in wanted and node is not group.base]
