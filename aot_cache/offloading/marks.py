"""What users ask for single tensors, as annotations on nodes."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node
from torch.utils.checkpoint import CheckpointPolicy

ANNOTATION = "aot_cache.offload"


def annotated(node: Node) -> str | None:
    """must, prefer or never; None if nothing is asked for."""
    return (node.meta.get("custom") or {}).get(ANNOTATION)


def annotate(node: Node, wish: str) -> None:
    node.meta["custom"] = {**(node.meta.get("custom") or {}), ANNOTATION: wish}


def is_policys(node: Node) -> bool:
    """Whether a checkpoint's policy says that it must be offloaded."""
    return node.meta.get("recompute") is getattr(CheckpointPolicy, "MUST_CPU_OFFLOAD", node)


def wishes(nodes: Sequence[Node], is_saved: bool) -> tuple[bool, bool, bool]:
    """Whether the storage that these nodes share must move, should, or must not.

    Of what the backward does not need there is nothing to move, and of an input a region that is marked makes views.
    """
    if not is_saved or nodes[0].op != "call_function":
        return False, False, False
    found = {annotated(node) for node in nodes}
    return "must" in found or any(map(is_policys, nodes)), "prefer" in found, "never" in found
