"""What users ask for single tensors, as annotations on nodes."""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import Node
from torch.utils.checkpoint import CheckpointPolicy

ANNOTATION = "aot_cache.offload"
IF_SAVED = "must if saved"
"""What a checkpoint's policy asks for: of what the backward does not need there is nothing to offload."""


def annotated(node: Node) -> str | None:
    """must, prefer, never or IF_SAVED; None if nothing is asked for."""
    return (node.meta.get("custom") or {}).get(ANNOTATION)


def annotate(node: Node, wish: str) -> None:
    node.meta["custom"] = {**(node.meta.get("custom") or {}), ANNOTATION: wish}


def wishes(nodes: Iterable[Node], is_saved: bool) -> tuple[bool, bool, bool]:
    """Whether the storage that these nodes share must move, should, or must not."""
    found = {annotated(node) for node in nodes}
    policies = {node.meta.get("recompute") for node in nodes}
    if_saved = IF_SAVED in found or CheckpointPolicy.MUST_CPU_OFFLOAD in policies
    return "must" in found or (is_saved and if_saved), "prefer" in found, "never" in found
