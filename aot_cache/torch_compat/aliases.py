"""What the nodes of a graph share and change: by the schemas of their operators, and by the storages of their values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

_COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d")
_RNG = ("run_and_save_rng_state", "graphsafe_run_with_rng_state")


def viewed(node: Node) -> Node | None:
    """The argument that the schema says the result of `node` is a view of."""
    if not isinstance(node.target, OpOverload) or node.target._schema.is_mutable:
        return None
    returns = [value for value in node.target._schema.returns if value.alias_info]
    # A list of views is written `Tensor(a)[]`, of an argument `Tensor(a -> *)`; the list's own sets are empty.
    returned = {name for value in returns for name in _sets(value) or {"*"}}
    return next((arg for argument, arg in _tensors(node) if returned & _sets(argument)), None)


def mutated(node: Node) -> list[Node]:
    """The arguments that `node` writes to: as the schema says, and all of a higher-order operator that mutates."""
    if isinstance(node.target, OpOverload):
        return [arg for argument, arg in _tensors(node) if argument.alias_info and argument.alias_info.is_write]
    mutates = isinstance(node.target, HigherOrderOperator) and "mutation" in node.target.name()
    return node.all_input_nodes if mutates else []


def storage(value: Tensor) -> tuple[Any, int]:
    """The storage of a tensor, and a number that is its own as long as the first is kept."""
    kept = value.untyped_storage()
    return kept, kept._cdata


def is_plain(value: Any) -> bool:
    """Whether it is a dense tensor, not of a subclass other than the compiler's own fakes."""
    from torch._subclasses.fake_tensor import FakeTensor

    return type(value) in (Tensor, torch.nn.Parameter, FakeTensor) and value.layout == torch.strided


def awaits(node: Node) -> str:
    """Why the result of `node` is more than its bytes: a collective that is not waited for, a generator's state; or ""."""
    source = node.args[0] if node.target is operator.getitem and isinstance(node.args[0], Node) else node
    if isinstance(source.target, OpOverload) and source.target.namespace in _COLLECTIVES:
        return "" if "wait" in source.target.name() else "a collective that is not waited for"
    higher = isinstance(source.target, HigherOrderOperator)
    return "state of a random generator" if higher and source.target.name() in _RNG else ""


def hint(size: Any) -> int | None:
    """A size in bytes if it is known when the graph is compiled."""
    return size if isinstance(size, int) else None


def fake_result(node: Node) -> Any:
    """What `node` returns for the fake tensors that its arguments return."""
    values = torch.fx.node.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
    fake = next(iter(_fakes(values)))
    with fake.fake_mode:
        return node.target(*values[0], **values[1])


def fake_of(like: Any, make: Callable[[], Tensor]) -> Tensor:
    """What `make` returns under the fake mode of the tensor `like`."""
    with like.fake_mode:
        return make()


def fake_arguments(node: Node) -> Any:
    """For Inductor: the arguments' layouts as the operator wants them."""
    return torch.fx.node.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])


def _fakes(values: Any) -> Iterator[Any]:
    return (leaf for leaf in torch.utils._pytree.tree_leaves(values) if hasattr(leaf, "fake_mode"))


def _sets(value: Any) -> set[str]:
    info = value.alias_info
    return set(info.before_set) | set(info.after_set) if info else set()


def _tensors(node: Node) -> Iterator[tuple[Any, Node]]:
    """Each argument of the schema with each node that is given for it."""
    arguments = node.target._schema.arguments  # type: ignore[union-attr]
    for number, argument in enumerate(arguments):
        given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
        for value in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(value, Node):
                yield argument, value
