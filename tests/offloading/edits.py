"""Small changes of a pair of graphs, each a pair of its own, for the matrix of stale plans."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from aot_cache.offloading.storages import Pair

aten = torch.ops.aten
Edit = tuple[str, Pair]

# Another operator that takes the same arguments.
OTHERS = {
    aten.view.default: aten._unsafe_view.default,
    aten.add.Tensor: aten.sub.Tensor,
    aten.t.default: aten.numpy_T.default,
    aten.detach.default: aten.alias.default,
    aten.gelu.default: aten.gelu_.default,
    aten.gelu_backward.default: aten.mse_loss.default,
    aten.addmm.default: aten.addmv.default,
    aten.mm.default: aten.matmul.default,
    aten.sum.dim_IntList: aten.mean.dim,
    aten.transpose.int: aten.swapaxes.default,
    aten.cat.default: aten.stack.default,
    aten.split.Tensor: aten.unsafe_split.Tensor,
}
IN_PLACE = {aten.add.Tensor: aten.add_.Tensor, aten.gelu.default: aten.gelu_.default}


def edits(pair: Pair) -> Iterator[tuple[str, Iterator[Edit]]]:
    """Every change, by kind."""
    yield "operator", _each(pair, _operator)
    yield "in place", _each(pair, _in_place)
    yield "shape", _each(pair, lambda node: _value(node, _longer))
    yield "dtype", _each(pair, lambda node: _value(node, lambda value: value.to(torch.complex64)))
    yield "stride", _each(pair, lambda node: _value(node, _restrided))
    yield "argument", _each(pair, _argument)
    yield "operands", _each(pair, _operands)
    yield "order", _each(pair, _order)
    yield "view between", _each(pair, lambda node: _inserted(node, aten.alias.default))
    yield "copy between", _each(pair, lambda node: _inserted(node, aten.clone.default))
    yield "dead node", _each(pair, _dead)
    yield "results", _results(pair)


def copied(pair: Pair) -> Pair:
    """The same graphs with nodes of their own."""
    return replace(pair, forward=_copy(pair.forward), backward=_copy(pair.backward))


def renamed(pair: Pair) -> Pair:
    """The same graphs under other names, and with other stack traces."""
    made, names = copied(pair), {}
    for module in (made.forward, made.backward):
        for node in module.graph.nodes:
            node.meta["stack_trace"] = "File elsewhere.py, line 7"
            name = names.setdefault(node.name, f"other_{len(names)}")
            node.name = name
            if node.op == "placeholder":
                node.target = name
    return made


def _copy(module: GraphModule) -> GraphModule:
    made = GraphModule(module, copy.deepcopy(module.graph), module.__class__.__name__)
    for old, new in zip(module.graph.nodes, made.graph.nodes, strict=True):
        new.meta = dict(old.meta)
    return made


def _each(pair: Pair, edit: Callable[[Node], bool]) -> Iterator[Edit]:
    """`edit` at each node of both graphs that it can be done at; it says whether it can."""
    for half in ("forward", "backward"):
        for number, node in enumerate(getattr(pair, half).graph.nodes):
            changed = _copy(getattr(pair, half))
            if edit(list(changed.graph.nodes)[number]):
                yield f"{half} {node.name}", replace(pair, **{half: changed})


def _operator(node: Node) -> bool:
    if node.target not in OTHERS:
        return False
    node.target = OTHERS[node.target]
    return True


def _in_place(node: Node) -> bool:
    if node.target not in IN_PLACE:
        return False
    node.target = IN_PLACE[node.target]
    return True


def _value(node: Node, change: Callable[[Tensor], Tensor]) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or node.op == "output":
        return False
    with value.fake_mode:
        node.meta["val"] = change(value)
    old, new = (value.shape, value.stride(), value.dtype), node.meta["val"]
    return old != (new.shape, new.stride(), new.dtype)


def _longer(value: Tensor) -> Tensor:
    return value.new_empty((value.shape[0] + 1, *value.shape[1:])) if value.dim() else value.new_empty((1,))


def _restrided(value: Tensor) -> Tensor:
    order = tuple(reversed(range(value.dim())))
    return value.new_empty(tuple(value.shape[i] for i in order)).permute(order)


def _argument(node: Node) -> bool:
    for number, argument in enumerate(node.args):
        if (other := _other(argument)) is not None and node.op == "call_function":
            node.update_arg(number, other)
            return True
    return False


def _other(argument: Any) -> Any:
    """Another constant like this one; None if it is none."""
    if isinstance(argument, bool):
        return not argument
    if isinstance(argument, (int, float)):
        return argument + 1
    is_constant = isinstance(argument, (list, tuple)) and argument and all(isinstance(n, int) for n in argument)
    return [_other(argument[0]), *argument[1:]] if is_constant else None


def _operands(node: Node) -> bool:
    nodes = [number for number, argument in enumerate(node.args) if isinstance(argument, Node)]
    if node.op != "call_function" or len(nodes) < 2 or node.args[nodes[0]] is node.args[nodes[1]]:
        return False
    one, two = (node.args[number] for number in nodes[:2])
    node.update_arg(nodes[0], two)
    node.update_arg(nodes[1], one)
    return True


def _order(node: Node) -> bool:
    """Change places with the next node."""
    later = node.next
    if node.op != "call_function" or later.op != "call_function" or node in later.all_input_nodes:
        return False
    # Two equal calls in a row are one and the same in either order.
    if node.target == later.target and node.args == later.args:
        return False
    later.append(node)
    return True


def _inserted(node: Node, target: Any) -> bool:
    """A new node between this one and all that use it."""
    if not isinstance(node.meta.get("val"), Tensor) or not node.users:
        return False
    graph = node.graph
    after = [n for n in graph.nodes if n.op == "placeholder"][-1] if node.op == "placeholder" else node
    with graph.inserting_after(after):
        made = graph.call_function(target, (node,))
    value = node.meta["val"]
    with value.fake_mode:
        made.meta["val"] = target(value)
    for user in list(node.users):
        if user is not made and user.op != "output":
            user.replace_input_with(node, made)
    return bool(made.users)


def _dead(node: Node) -> bool:
    """A node after this one whose result nobody uses."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), Tensor):
        return False
    with node.graph.inserting_after(node):
        made = node.graph.call_function(aten.clone.default, (node,))
    made.meta["val"] = node.meta["val"]
    return True


def _results(pair: Pair) -> Iterator[Edit]:
    """Other results of one of the graphs, in another order, or another number of them that are the user's."""
    for half in ("forward", "backward"):
        count = len(_output(getattr(pair, half).graph).args[0])
        for number in range(count):
            for what in ("drop", "twice", "swap"):
                if what != "swap" or number + 1 < count:
                    yield f"{half} {what} result {number}", _with_results(pair, half, number, what)
    for outputs in (pair.outputs - 1, pair.outputs + 1):
        yield f"{outputs} outputs", replace(pair, outputs=outputs)


def _output(graph: Graph) -> Node:
    (output,) = graph.find_nodes(op="output")
    return output


def _with_results(pair: Pair, half: str, number: int, what: str) -> Pair:
    made = copied(pair)
    output = _output(getattr(made, half).graph)
    results = list(output.args[0])  # type: ignore[arg-type]
    if what == "drop":
        del results[number]
    elif what == "twice":
        results.insert(number, results[number])
    else:
        results[number : number + 2] = reversed(results[number : number + 2])
    output.args = (tuple(results),)
    return made
