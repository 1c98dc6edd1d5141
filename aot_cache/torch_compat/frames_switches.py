"""Switches of torch's own that a frame turns, which Dynamo takes for what they say without a guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .frames_trace import current
from .patches import Patches

# By the variable that stands for it: the attributes that say which way it turns.
_SAY = {
    "CudagraphOverrideVariable": ("fwd", "bwd"),
    "DynamoConfigPatchVariable": ("changes",),
    "ErrorOnGraphBreakVariable": ("error_on_graph_break",),
}


def watch(patches: Patches) -> None:
    """Listen where Dynamo meets a value."""
    import torch._dynamo.variables.builder as builder

    patches.wrap(builder.VariableBuilder, "_wrap", _wrap)


def _wrap(original: Callable[..., Any], variable_builder: Any, value: Any) -> Any:
    from torch._dynamo.source import AttrSource

    found = original(variable_builder, value)
    said = _SAY.get(type(found).__name__, ())
    if said and (trace := current()) is not None:
        trace.unguarded += [AttrSource(variable_builder.source, name) for name in said]
    return found
