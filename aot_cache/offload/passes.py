"""Put a schedule into a pair of graphs: what moves is saved as a handle, and filled again before the backward reads it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch.fx import Graph, GraphModule, Node

from ..errors import IllegalSchedule
from ..torch_compat import aliases
from . import operators
from .legality import check
from .schedule import Row, Schedule
from .storages import Analysis, Group, Pair, analyse, maker, replayed


def apply(pair: Pair, schedule: Schedule) -> Pair:
    """The graphs with the schedule carried out; `pair` stays as it is. Nodes that move nothing keep names and order.

    Raises:
        IllegalSchedule: it was made for other graphs, or would lose data or pass its bounds.
    """
    copied = Pair(_copy(pair.forward), _copy(pair.backward), pair.outputs)
    analysis = analyse(copied, smallest=0)
    if faults := check(schedule, analysis.problem):
        raise IllegalSchedule(faults)
    # In the order in which they are made and needed, so that equal places keep that order.
    order = analysis.problem.by_name
    # The backward first: it copies views out of the forward, which then drops them.
    for row in sorted(schedule.rows, key=lambda row: order[row.storage].first_backward):
        _bring(analysis, row)
    for row in sorted(schedule.rows, key=lambda row: order[row.storage].produced):
        _send(analysis, row)
    for module in (copied.forward, copied.backward):
        module.graph.lint()
        module.recompile()
    return copied


def _send(analysis: Analysis, row: Row) -> None:
    """Begin the copy out, wait for it where the memory is to be free, and save the handle in place of the values."""
    graph, half, group = analysis.pair.forward.graph, analysis.forward, analysis.group(row.storage)
    nodes = _by_name(half.names)
    if (source := maker(group.base)) is not group.base:
        source.append(group.base)
    place = group.base if nodes[str(row.out_after)] is source else nodes[str(row.out_after)]
    with graph.inserting_after(_last_inserted(place)):
        handle = _call(graph, operators.spill, (group.base,), f"spill_{row.storage}")
    with graph.inserting_before(nodes[str(row.free_at)]):
        kept = _call(graph, operators.wait, (handle, group.base), f"wait_{row.storage}")
    saved = [node for node, _ in analysis.saved[row.storage]]
    for mark in ("saved_tensor_with_no_vc_check", "desc"):
        if mark in saved[0].meta:
            kept.meta[mark] = saved[0].meta[mark]
    _replace_results(graph, analysis.pair.outputs, saved, kept)
    for node in reversed(group.nodes):
        if node in replayed(group, saved) and not node.users:
            graph.erase_node(node)


def _bring(analysis: Analysis, row: Row) -> None:
    """Take the handle, begin the copy in, and make the saved values anew before the first step that reads them."""
    graph, half, group = analysis.pair.backward.graph, analysis.backward, analysis.group(row.storage)
    nodes = _by_name(half.names)
    given = [there for _, there in analysis.saved[row.storage]]
    value = group.base.meta["val"]
    like = (list(value.shape), list(value.stride()), value.dtype, value.device)
    with graph.inserting_before(given[0]):
        handle = graph.placeholder(f"handle_{row.storage}")
        handle.meta = {**{k: v for k, v in given[0].meta.items() if k == "desc"}, "val": _handle_value(value)}
    with graph.inserting_before(nodes[row.in_before]):
        coming = _call(graph, operators.fetch, (handle, *like), f"fetch_{row.storage}")
    need = nodes[row.need_at]
    with graph.inserting_before(need):
        base = _call(graph, operators.fill, (coming, *like), f"fill_{row.storage}")
        made = _replay(graph, group, [node for node, _ in analysis.saved[row.storage]], base)
    _sink_views(half, half.groups[given[0]], given, need)
    for (saved, there), _ in zip(analysis.saved[row.storage], given, strict=True):
        there.replace_all_uses_with(made[saved])
        graph.erase_node(there)


def _replay(graph: Graph, group: Group, saved: Sequence[Node], base: Node) -> dict[Node, Node]:
    """The views of the forward again, on `base`; by the forward's node."""
    made = {group.base: base}
    for node in replayed(group, list(saved)):
        made[node] = graph.node_copy(node, made.__getitem__)
        made[node].meta.pop("saved_tensor_with_no_vc_check", None)
    return made


def _sink_views(half: Any, later: Group, given: list[Node], need: Node) -> None:
    """Move views of the saved values that the backward makes early to where the values are."""
    for node in later.nodes:
        if node not in given and half.order[node] < half.order[need]:
            need.prepend(node)


def _replace_results(graph: Graph, outputs: int, saved: list[Node], handle: Node) -> None:
    """Put `handle` in the place of the first saved value in the outputs, and take the others out."""
    (output,) = graph.find_nodes(op="output")
    results = list(output.args[0])
    places = [i for i, node in enumerate(results) if i >= outputs and node in saved]
    results[places[0]] = handle
    keep = [i for i in range(len(results)) if i not in places[1:]]
    if isinstance(described := output.meta.get("desc"), list) and len(described) == len(results):
        output.meta["desc"] = [described[i] for i in keep]
    kept = [results[i] for i in keep]
    output.args = (type(output.args[0])(kept) if isinstance(output.args[0], (list, tuple)) else kept,)


def _call(graph: Graph, target: Any, args: tuple[Any, ...], name: str) -> Node:
    node = graph.create_node("call_function", target, args, {}, name=name)
    node.meta["val"] = aliases.fake_result(node)
    node.meta["eager_input_vals"] = aliases.fake_arguments(node)
    return node


def _handle_value(like: Any) -> Any:
    return aliases.fake_of(like, operators.handle_like)


def _last_inserted(place: Node) -> Node:
    """Past what was already put after `place`: copies begin in the order of their rows."""
    while place.next.target is operators.spill:
        place = place.next
    return place


def _by_name(names: dict[Node, str]) -> dict[str, Node]:
    return {name: node for node, name in names.items()}


def _copy(module: GraphModule) -> GraphModule:
    graph = copy.deepcopy(module.graph)
    copied = GraphModule(module, graph, module.__class__.__name__)
    copied.meta = dict(module.meta)
    return copied
