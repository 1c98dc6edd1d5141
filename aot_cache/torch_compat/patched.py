"""Functions of others that stand where torch's compiler has its own: monkey patches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

# The modules that turn a captured graph into code.
COMPILER = ("torch._inductor", "torch._functorch", "torch._decomp")

_KNOWN = sys.stdlib_module_names | {"torch", "aot_cache", "sympy", "numpy", "triton", "torchgen", "typing_extensions"}

_Held = tuple[list[Any], list[int]]
_seen: dict[str, tuple[Any, _Held]] = {}
_found: dict[str, dict[str, FunctionType]] = {}


def functions(wanted: Callable[[FunctionType], bool], where: tuple[str, ...] = COMPILER) -> dict[str, FunctionType]:
    """Functions that were written outside torch and are `wanted`, by where in torch's compiler they are found."""
    for name, module in list(sys.modules.items()):
        if name.startswith(where) and hasattr(module, "__dict__"):
            _look(name, vars(module), module, wanted)
    found = [functions for place, functions in _found.items() if place.startswith(where)]
    return {place: function for functions in found for place, function in functions.items()}


def _look(place: str, members: Any, owner: Any, wanted: Callable[[FunctionType], bool]) -> None:
    """Look through a namespace if any value in it is another object than last time."""
    values = list(members.values())
    ids = list(map(id, values))
    known = _seen.get(place)
    if known is None or known[0] is not owner or known[1][1] != ids:
        _seen[place] = (owner, (values, ids))  # the values are kept, so that their ids stay theirs
        _found[place] = dict(_foreign(place, members, wanted))
    if isinstance(owner, type):
        return
    for value in values:
        if type(value) is type and value.__module__ == place:
            _look(f"{place}.{value.__qualname__}", vars(value), value, wanted)


def _foreign(place: str, members: Any, wanted: Callable[[FunctionType], bool]) -> Iterator[tuple[str, FunctionType]]:
    """Functions in a namespace that are neither its own nor another one's of torch."""
    for name, value in list(members.items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if type(value) is FunctionType and value.__globals__ is not members:
            home = value.__globals__.get("__name__")
            if (home is None or home.partition(".")[0] not in _KNOWN) and wanted(value):
                yield f"{place}.{name}", value
