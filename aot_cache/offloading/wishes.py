"""What users ask for single tensors: `mark` in a model, CheckpointPolicy.MUST_CPU_OFFLOAD, and a policy's answers.

A mark is a view with an annotation, which later passes may drop; so before a joint graph is cut, marks go to the nodes
that make the storages.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from ..errors import MustNotMove, OffloadError, SettingError
from ..torch_compat import aliases
from .groups import maker
from .marks import ANNOTATION, annotate, annotated, is_policys
from .options import WISHES, Policy, Wish
from .problem import Problem, Storage


def mark(tensor: Tensor, wish: Wish = "must") -> Tensor:
    """`tensor`, to be used in its place: in a compiled model, its memory must, should or must never be offloaded.

    Raises:
        SettingError: `wish` is not must, prefer or never.
    """
    if wish not in WISHES:
        raise SettingError("wish", wish, f"one of {', '.join(WISHES)}")
    if not torch.compiler.is_compiling():
        return tensor
    with torch.fx.traceback.annotate({ANNOTATION: wish}):
        return tensor.view_as(tensor)


def settle(graph: Graph) -> list[str]:
    """Move the marks of a joint graph to the nodes that make the storages; the names of those that `mark` says must.

    Raises:
        MustNotMove: an input is marked so.
    """
    musts = []
    for node in list(graph.nodes):
        if wish := _wish(node):
            base = _base(node)
            if wish == "must" and annotated(node) == "must":
                musts.append(base.name)
                if base.op != "call_function":
                    raise MustNotMove(base.name, "alias of an input")
            annotate(base, wish)
            if wish != "never" and base.op == "call_function":
                # What is recomputed is not saved, and only what is saved can move.
                node.meta.pop("recompute", None)
                base.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return musts


def require_there(musts: list[str], forward: Graph) -> None:
    """Raises MustNotMove: a node that was marked is not in the forward, so that its mark would count for nothing."""
    there = {node.name for node in forward.nodes if annotated(node) == "must"}
    for name in musts:
        if name not in there:
            raise MustNotMove(name, "the forward does not keep it, or a pass of the compiler replaced it")


def granted(problem: Problem, policy: Policy | None) -> Problem:
    """The problem with what a policy answers for saved storages that are not marked.

    Raises:
        OffloadError: the policy answers something else than must, prefer, never or None, or raises.
    """
    if policy is None:
        return problem
    return replace(problem, storages=tuple(_granted(storage, policy) for storage in problem.storages))


def _granted(storage: Storage, policy: Policy) -> Storage:
    if not storage.saved or storage.produced < 0 or storage.must or storage.prefer:
        return storage
    wish = _asked(policy, storage)
    if wish == "never":
        return replace(storage, eligible=False, refused=storage.refused or "the policy says so")
    return replace(storage, must=wish == "must", prefer=wish == "prefer")


def _asked(policy: Policy, storage: Storage) -> Wish | None:
    try:
        answer = policy(storage)
    except Exception as error:
        raise OffloadError(f"the policy failed for {storage.name}: {error!r}") from error
    if answer is not None and answer not in WISHES:
        raise OffloadError(f"the policy answered {answer!r} for {storage.name}: it must be None, {', '.join(WISHES)}")
    return answer


def _wish(node: Node) -> str | None:
    if node.op != "call_function" or node.meta.get("partitioner_tag") == "is_backward":
        return None
    return annotated(node) or ("must" if is_policys(node) else None)


def _base(node: Node) -> Node:
    """The node whose result holds the memory that `node` is a view of."""
    while (source := aliases.viewed(node) or aliases.viewed(maker(node))) is not None:
        node = source
    return node
