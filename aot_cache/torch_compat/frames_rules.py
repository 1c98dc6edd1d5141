"""What was registered with Dynamo for the whole process: it decides how code is traced, and no guard speaks of it."""

from __future__ import annotations

import os
from typing import Any

from .compilers import is_torch

_LISTS = ("SKIP_DIRS", "FORCE_SKIP_FILES", "BUILTIN_INLINE_WHEN_CALLED", "MOD_INLINELIST", "MOD_SKIPLIST")


def foreign() -> dict[str, Any]:
    """Callables and classes of others that Dynamo uses in place of, or beside, its own, by what they are for."""
    return _polyfills() | _devices()


def _polyfills() -> dict[str, Any]:
    from torch._dynamo.variables import PolyfilledFunctionVariable

    found = {}
    for handler in PolyfilledFunctionVariable._get_polyfill_handlers().values():
        original = getattr(handler, "__torch_dynamo_original__", handler)
        traced = getattr(handler, "__torch_dynamo_polyfill__", handler)
        if not is_torch(traced):
            name = (
                f"{getattr(original, '__module__', None)}.{getattr(original, '__qualname__', type(original).__name__)}"
            )
            folds = bool(getattr(handler, "__torch_dynamo_can_constant_fold_through__", False))
            found[f"substitute of {name}, folded: {folds}"] = traced
    return found


def _devices() -> dict[str, Any]:
    from torch._dynamo.device_interface import device_interfaces

    return {f"device interface {name}": cls for name, cls in device_interfaces.items() if not is_torch(cls)}


def lists() -> dict[str, list[str]]:
    """Which files and modules Dynamo skips and inlines; files without their directories."""
    from torch._dynamo import trace_rules

    found = {}
    for name in _LISTS:
        places = getattr(trace_rules, name, None)
        if isinstance(places, (list, set)):
            found[name] = sorted(os.path.basename(str(place).rstrip("/")) for place in places)
    return found
