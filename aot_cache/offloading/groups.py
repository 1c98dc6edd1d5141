"""Which nodes of one graph share a storage.

Aliases are found by the schemas of operators and by the storages of the graph's fake values: the one knows operators
whose fakes do not share, the other those whose schemas do not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor
from torch.fx import GraphModule, Node

from ..torch_compat import aliases
from . import names


@dataclass(eq=False)
class Group:
    """The nodes of one half that share a storage, in order; the first one makes it.

    vanishes: it is never in memory; what computes it is done where it is used.
    """

    nodes: list[Node] = field(default_factory=list)
    is_mutated: bool = False
    vanishes: bool = False

    @property
    def base(self) -> Node:
        return self.nodes[0]


@dataclass
class Half:
    """One graph: its nodes' names, their positions among the steps and among all nodes, and its storages.

    Taking an element of a list is no step: it does nothing, and the element is there as soon as the list is.
    """

    names: dict[Node, str]
    steps: dict[Node, int]
    order: dict[Node, int]
    groups: dict[Node, Group]

    def uses(self, group: Group) -> list[int]:
        """Steps that read the storage, other than by making a view of it."""
        found: set[Node] = set()
        todo = [group]
        while todo:
            nodes = todo.pop().nodes
            users = {user for node in nodes for user in node.users} - set(nodes) - found
            found |= users
            todo += [self.groups[user] for user in users if user in self.groups and self.groups[user].vanishes]
        return sorted(self.steps[user] for user in found if user.op != "output" and user in self.steps)


def half(module: GraphModule, inputs: str) -> Half:
    """The storages of a graph. inputs: what its inputs are called."""
    called = [node for node in module.graph.nodes if node.op in ("call_function", "output") and not _indexed(node)]
    named = names.canonical(module.graph, inputs)
    found = Half(named, {node: i for i, node in enumerate(called)}, {node: i for i, node in enumerate(named)}, {})
    by_storage: dict[int, Group] = {}
    kept = []
    for node in module.graph.nodes:
        value = node.meta.get("val")
        source = aliases.viewed(node) or _indexed(node)
        if source in found.groups:
            found.groups[node] = found.groups[source]
        if isinstance(value, Tensor) and aliases.is_plain(value):
            storage, number = aliases.storage(value)
            kept.append(storage)
            known = by_storage.setdefault(number, found.groups.get(node) or Group())
            if node in found.groups and found.groups[node] is not known:
                join(found, found.groups[node], known)
                by_storage = {n: found.groups[node] if one is known else one for n, one in by_storage.items()}
            else:
                found.groups[node] = known
        elif isinstance(value, Tensor):
            found.groups.setdefault(node, Group())
        if node in found.groups:
            found.groups[node].nodes.append(node)
        for argument in aliases.mutated(node):
            if argument in found.groups:
                found.groups[argument].is_mutated = True
    return found


def _indexed(node: Node) -> Node | None:
    """The node that returns the list which `node` takes an element of."""
    is_index = node.op == "call_function" and names.operator_name(node) == "getitem"
    return node.args[0] if is_index and isinstance(node.args[0], Node) else None


def maker(node: Node) -> Node:
    """The node that allocates what `node` returns."""
    return _indexed(node) or node


def join(half: Half, one: Group, other: Group) -> None:
    """Let two groups be one."""
    if one is other:
        return
    one.nodes = sorted({*one.nodes, *other.nodes}, key=half.order.__getitem__)
    one.is_mutated |= other.is_mutated
    for node in other.nodes:
        half.groups[node] = one


def unique(half: Half) -> list[Group]:
    return list({id(group): group for group in half.groups.values()}.values())
