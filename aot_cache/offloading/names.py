"""Names and digests of graphs that do not depend on how a program names its things."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

OpOverload = type(torch.ops.aten.mm.default)


def canonical(graph: Graph, inputs: str) -> dict[Node, str]:
    """Every node's name: `<inputs>_1`, ... for inputs, else the operator's with a number in order of execution."""
    names: dict[Node, str] = {}
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for node in graph.nodes:
        base = inputs if node.op == "placeholder" else _base(node)
        number = numbers.get(base, 1 if node.op == "placeholder" else 0)
        while (name := f"{base}_{number}" if number else base) in taken:
            number += 1
        numbers[base] = number + 1
        taken.add(name)
        names[node] = name
    return names


def operator_name(node: Node) -> str:
    """`mm` of aten.mm.default; with its namespace unless that is aten."""
    if node.op != "call_function":
        return node.op
    if isinstance(node.target, OpOverload):
        space, _, name = str(node.target).partition(".")
        return name.partition(".")[0] if space == "aten" else f"{space}_{name.partition('.')[0]}"
    name = getattr(node.target, "name", None) or getattr(node.target, "__name__", None)
    return str(name() if callable(name) else name or type(node.target).__name__)


def digest(graph: Graph, names: dict[Node, str]) -> str:
    """Of all operators, arguments and results' sizes, strides, types and devices, in order; 32 hexadecimal digits."""
    parts = hashlib.blake2b(digest_size=16)
    for node in graph.nodes:
        what = _target(node, graph)
        line = f"{names[node]} {node.op} {what} {_argument((node.args, node.kwargs), names)} {_value(node)}\n"
        parts.update(line.encode())
    return parts.hexdigest()


def _base(node: Node) -> str:
    return re.sub(r"\W", "_", operator_name(node))


def _target(node: Node, graph: Graph) -> str:
    if node.op == "call_function":
        return str(node.target) if isinstance(node.target, OpOverload) else operator_name(node)
    # The names of inputs and attributes are the program's.
    body = getattr(graph.owning_module, node.target, None) if node.op == "get_attr" else None
    return digest(body.graph, canonical(body.graph, "in")) if isinstance(body, GraphModule) else ""


def _argument(value: Any, names: dict[Node, str]) -> str:
    if isinstance(value, Node):
        return f"%{names[value]}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_argument(item, names) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_argument(item, names)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, slice):
        return f"slice{_argument([value.start, value.stop, value.step], names)}"
    return f"{type(value).__name__}:{value}"


def _value(node: Node) -> str:
    return ";".join(_described(value) for value in _leaves(node.meta.get("val")))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        layout = tuple(value.stride()) if value.layout == torch.strided else value.layout
        return f"{value.dtype}{tuple(value.shape)}{layout}{value.device}"
    return f"{type(value).__name__} {value}" if isinstance(value, (int, float, torch.SymInt)) else type(value).__name__
