"""Monkey patches of torch's compiler, and of what a graph calls in torch: whose they are."""

from __future__ import annotations

import os
import sys
from types import FunctionType, ModuleType
from typing import Any

from ..torch_compat import patched
from .callables import origin


def patches() -> dict[str, Any]:
    """Functions, classes and objects that user code put into torch, by where they stand; their identity counts.

    So a patch that keeps count of something is another one at every graph: unlike a patch whose constant or helper
    changed, it cannot be told from one that computes with what it keeps. What an installed distribution puts there is
    left to the distribution.
    """
    return {f"patch of {place}": value for place, value in patched.values(_is_users).items()}


def _is_users(value: Any) -> bool:
    if type(value) is FunctionType:
        file = value.__code__.co_filename
        written = os.path.isabs(file) or value.__globals__.get("__name__") == "__main__"
        return written and origin.of_file(file) is None
    if type(value) is ModuleType:
        return origin.of_module(value) is None
    module = getattr(value if issubclass(type(value), type) else type(value), "__module__", None)
    return isinstance(module, str) and module in sys.modules and origin.of_module_named(module) is None
