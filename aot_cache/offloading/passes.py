"""Put a schedule into a pair of graphs: what moves is saved as a handle, and filled anew before the backward."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Graph, GraphModule, Node

from ..errors import IllegalSchedule
from ..torch_compat import aliases
from . import operators
from .groups import Group, maker
from .legality import check
from .schedule import Row, Schedule
from .simulate import moves
from .storages import Analysis, Pair, analyse, replayed


def apply(pair: Pair, schedule: Schedule) -> Pair:
    """The graphs with the schedule carried out; `pair` stays as it is. Nodes that move nothing keep names and order.

    Raises:
        IllegalSchedule: it was made for other graphs, or would lose data or pass its bounds.
    """
    copied = replace(pair, forward=_copy(pair.forward), backward=_copy(pair.backward))
    analysis = analyse(copied, smallest=0)
    if faults := check(schedule, analysis.problem):
        raise IllegalSchedule(faults)
    # Rows in the order of the link. Nodes go only when all rows have their places, for they may be the places of
    # others; and the forward's last, for they are copied.
    rows = {row.storage: row for row in schedule.rows}
    outs, ins = moves(analysis.problem, schedule.rows)
    handles = {move.storage: _send(analysis, rows[move.storage]) for move in outs}
    made = {move.storage: _bring(analysis, rows[move.storage]) for move in ins}
    for storage, row in rows.items():
        _replace_inputs(analysis, row, made[storage])
    for storage, row in rows.items():
        _replace_results(analysis, row, handles[storage])
    for module in (copied.forward, copied.backward):
        module.graph.lint()
        module.recompile()
    return copied


def _send(analysis: Analysis, row: Row) -> Node:
    """Begin the copy out, and wait for it where the memory is to be free; returns the handle to save."""
    graph, half, group = analysis.pair.forward.graph, analysis.forward, analysis.group(row.storage)
    nodes = _by_name(half.names)
    if (source := maker(group.base)) is not group.base:
        source.append(group.base)
    place = group.base if nodes[str(row.out_after)] is source else nodes[str(row.out_after)]
    with graph.inserting_after(_last_inserted(place)):
        handle = _call(graph, operators.spill, (group.base,), f"spill_{row.storage}")
    with graph.inserting_before(nodes[str(row.free_at)]):
        return _call(graph, operators.wait, (handle, group.base), f"wait_{row.storage}")


def _bring(analysis: Analysis, row: Row) -> dict[Node, Node]:
    """Take the handle, begin the copy in, and make the saved values anew; returns them by the forward's values."""
    graph, half, group = analysis.pair.backward.graph, analysis.backward, analysis.group(row.storage)
    nodes = _by_name(half.names)
    saved, first = [node for node, _ in analysis.saved[row.storage]], analysis.saved[row.storage][0][1]
    value = group.base.meta["val"]
    like = (list(value.shape), list(value.stride()), value.dtype, value.device)
    with graph.inserting_before(first):
        handle = graph.placeholder(f"handle_{row.storage}")
        handle.meta = {k: v for k, v in first.meta.items() if k == "desc"}
        handle.meta["val"] = aliases.fake_of(value, operators.handle_like)
    with graph.inserting_before(nodes[row.in_before]):
        coming = _call(graph, operators.fetch, (handle, *like), f"fetch_{row.storage}")
    with graph.inserting_before(nodes[row.need_at]):
        base = _call(graph, operators.fill, (coming, *like), f"fill_{row.storage}")
        return _replay(graph, group, saved, base)


def _replay(graph: Graph, group: Group, saved: Sequence[Node], base: Node) -> dict[Node, Node]:
    """The views of the forward again, on `base`; by the forward's node."""
    made = {group.base: base}
    for node in replayed(group, list(saved)):
        made[node] = graph.node_copy(node, made.__getitem__)
        made[node].meta.pop("saved_tensor_with_no_vc_check", None)
    return made


def _replace_inputs(analysis: Analysis, row: Row, made: dict[Node, Node]) -> None:
    """Let the backward use what was made anew; views that it takes before that go to where it is."""
    half, graph = analysis.backward, analysis.pair.backward.graph
    given = [there for _, there in analysis.saved[row.storage]]
    need = _by_name(half.names)[row.need_at]
    for node in half.groups[given[0]].nodes:
        if node not in given and half.order[node] < half.order[need]:
            need.prepend(node)
    for saved, there in analysis.saved[row.storage]:
        there.replace_all_uses_with(made[saved])
        graph.erase_node(there)


def _replace_results(analysis: Analysis, row: Row, handle: Node) -> None:
    """Save the handle in the place of the first saved value; drop the others, and views that were made for them."""
    graph, group = analysis.pair.forward.graph, analysis.group(row.storage)
    saved = [node for node, _ in analysis.saved[row.storage]]
    if "saved_tensor_with_no_vc_check" in saved[0].meta:
        handle.meta["saved_tensor_with_no_vc_check"] = saved[0].meta["saved_tensor_with_no_vc_check"]
    (output,) = graph.find_nodes(op="output")
    results = list(output.args[0])
    places = [i for i, node in enumerate(results) if i >= analysis.pair.outputs and node in saved]
    results[places[0]] = handle
    keep = [i for i in range(len(results)) if i not in places[1:]]
    if isinstance(described := output.meta.get("desc"), list) and len(described) == len(results):
        output.meta["desc"] = [described[i] for i in keep]
    output.args = (type(output.args[0])(results[i] for i in keep),)
    for node in reversed(group.nodes):
        if node is not group.base and not node.users:
            graph.erase_node(node)


def _call(graph: Graph, target: Any, args: tuple[Any, ...], name: str) -> Node:
    node = graph.create_node("call_function", target, args, {}, name=name)
    node.meta["val"] = aliases.fake_result(node)
    node.meta["eager_input_vals"] = aliases.fake_arguments(node)
    return node


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
