"""Functions of others that stand where torch's compiler has its own: monkey patches."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

# The modules that turn a captured graph into code.
_COMPILER = ("torch._inductor", "torch._functorch", "torch._decomp")

_KNOWN = sys.stdlib_module_names | {"torch", "aot_cache", "sympy", "numpy", "triton", "torchgen", "typing_extensions"}

# Per namespace: its owner, its values, and the classes among them that are its own.
_seen: dict[str, tuple[Any, list[Any], list[type]]] = {}
_found: dict[str, dict[str, FunctionType]] = {}


def functions(wanted: Callable[[FunctionType], bool]) -> dict[str, FunctionType]:
    """Functions that were written outside torch and are `wanted`, by where in torch's compiler they are found."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_COMPILER) and hasattr(module, "__dict__"):
            _look(name, vars(module), module, wanted)
    return {place: function for found in _found.values() for place, function in found.items()}


def _look(place: str, members: Any, owner: Any, wanted: Callable[[FunctionType], bool]) -> None:
    """Look through a namespace if any value in it is another object than last time."""
    values = list(members.values())
    known = _seen.get(place)
    if known is None or known[0] is not owner or not _are_same(known[1], values):
        classes = [] if isinstance(owner, type) else [v for v in values if type(v) is type and v.__module__ == place]
        known = _seen[place] = (owner, values, classes)
        _found[place] = dict(_foreign(place, members, wanted))
    for inner in known[2]:
        _look(f"{place}.{inner.__qualname__}", vars(inner), inner, wanted)


def _are_same(old: list[Any], new: list[Any]) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))


def _foreign(place: str, members: Any, wanted: Callable[[FunctionType], bool]) -> Iterator[tuple[str, FunctionType]]:
    """Functions in a namespace that are neither its own nor another one's of torch."""
    for name, value in list(members.items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if type(value) is FunctionType and value.__globals__ is not members:
            home = value.__globals__.get("__name__")
            if (home is None or home.partition(".")[0] not in _KNOWN) and wanted(value):
                yield f"{place}.{name}", value
