"""Values that Dynamo takes for what they are without a guard: switches of torch's own, and some functions and classes."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from .frames_trace import current
from .kinds import is_a
from .patches import Patches

# By the variable that stands for a switch: the attributes that say which way it turns.
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

    if (trace := current()) is None:
        return original(variable_builder, value)
    source, guards = variable_builder.source, variable_builder.tx.output.guards
    before = len(guards)
    found = original(variable_builder, value)
    trace.unguarded += [AttrSource(source, name) for name in _SAY.get(type(found).__name__, ())]
    if len(guards) == before and is_a(value, (type, FunctionType, BuiltinFunctionType)):
        if not any(guard.originating_source == source for guard in guards):
            trace.unguarded.append(source)
    return found
