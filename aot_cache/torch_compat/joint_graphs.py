"""A joint graph as plain data, and back as AOTAutograd's trace would have made it of the same graph of Dynamo's."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen, _PyTreeCodeGen, _PyTreeInfo

from ..errors import EnvelopeError, NotSerializable
from .joint_values import Reader, Writer

# What a node has from the node of Dynamo's graph that it came from: it names the user's code, and is taken from the
# graph that is compiled now. A backward's node has two from the forward's.
_LINKED = frozenset(
    "nn_module_stack source_fn_stack fwd_nn_module_stack fwd_source_fn_stack stack_trace torch_fn".split()
)
_OPS = ("placeholder", "call_function", "output")


def take(joint: GraphModule, source: GraphModule) -> dict[str, Any]:
    """Plain data from which `rebuild` makes `joint`, which was traced from `source`.

    Raises:
        NotSerializable: it holds something that is not known to come back exactly.
    """
    if [*joint.named_children(), *joint.named_parameters(), *joint.named_buffers()]:
        raise NotSerializable("a joint graph holds modules or tensors of its own")
    writer, links = Writer(), _links(source)
    rows = []
    for node in joint.graph.nodes:
        if node.op not in _OPS or node.type is not None or isinstance(node.target, HigherOrderOperator):
            raise NotSerializable(f"a joint graph has a node {node.op} {node.target}")
        target = writer.plain(node.target)
        args, kwargs = writer.plain(node.args), writer.plain(node.kwargs)
        meta = [[key, _meta(writer, links, key, value)] for key, value in node.meta.items()]
        rows.append([node.op, node.name, target, args, kwargs, meta])
        writer.nodes[node] = len(writer.nodes)
    return {
        "class": joint.__class__.__name__,
        "calling": _calling(joint.graph),
        "meta": [[key, writer.plain(value)] for key, value in joint.meta.items()],
        "source": len(_origins(source)),
        "nodes": rows,
        "storages": writer.storages,
        "tensors": writer.tensors,
    }


def rebuild(plain: Mapping[str, Any], source: GraphModule, fake_mode: Any) -> GraphModule:
    """The joint graph that `take` was given, with what it has from `source` as that is now.

    Raises:
        EnvelopeError: it is not from such a source. KeyError, TypeError, ...: it is not what `take` gave.
    """
    from torch.fx._lazy_graph_module import _make_graph_module

    origins = _origins(source)
    if len(origins) != plain["source"]:
        raise EnvelopeError(f"the joint graph is of {plain['source']} nodes, not of {len(origins)}")
    reader, graph = Reader(plain["storages"], plain["tensors"], fake_mode), Graph()
    for op, name, target, args, kwargs, meta in plain["nodes"]:
        if op not in _OPS:
            raise EnvelopeError(f"a joint graph has no node {op}")
        node = graph.create_node(op, reader.value(target), reader.value(args), reader.value(kwargs), name)
        if node.name != name:
            raise EnvelopeError(f"a node that was {name} became {node.name}")
        node.meta = {key: _read(reader, origins, value) for key, value in meta}
        reader.nodes.append(node)
    if plain["calling"] is not None:
        names, *specs = plain["calling"]
        info = _PyTreeInfo(names, *(None if spec is None else pytree.treespec_loads(spec) for spec in specs))
        graph.set_codegen(_PyTreeCodeGen(info))
    joint = _make_graph_module(torch.nn.Module(), graph, plain["class"])
    joint.meta = {key: reader.value(value) for key, value in plain["meta"]}
    return joint


def _calling(graph: Graph) -> list[Any] | None:
    """The names and the nesting of arguments, and the nesting of results; None: they are not nested."""
    kind = type(graph._codegen)
    if kind is CodeGen:
        return None
    if kind is not _PyTreeCodeGen:
        raise NotSerializable(f"a joint graph is called by a {kind.__qualname__}")
    info = graph._codegen.pytree_info
    specs = (None if spec is None else pytree.treespec_dumps(spec) for spec in (info.in_spec, info.out_spec))
    return [list(info.orig_args), *specs]


def _origins(source: GraphModule) -> list[Node]:
    """The nodes of a graph of Dynamo's, and of those that are nested in it."""
    return [node for module in source.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]


def _links(source: GraphModule) -> dict[tuple[str, str], list[Any]]:
    """Where in `source` a value of `_LINKED` stands first, by its key and text."""
    found: dict[tuple[str, str], list[Any]] = {}
    for number, node in enumerate(_origins(source)):
        for key in _LINKED & node.meta.keys():
            found.setdefault((key, repr(node.meta[key])), [number, key])
    return found


def _meta(writer: Writer, links: Mapping[tuple[str, str], list[Any]], key: str, value: Any) -> Any:
    if key in _LINKED and value is not None:
        link = links.get((key.removeprefix("fwd_"), repr(value)))
        if link is not None:
            return {"link": link}
    return writer.plain(value)


def _read(reader: Reader, origins: list[Node], plain: Any) -> Any:
    if isinstance(plain, dict) and "link" in plain:
        number, key = plain["link"]
        return copy.copy(origins[number].meta[key])
    return reader.value(plain)
