"""What others put where torch's compiler has its own functions and classes: monkey patches."""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any


# The modules that turn a captured graph into code.
_COMPILER = "_inductor _functorch _decomp _refs _prims _higher_order_ops _subclasses _library _meta_registrations fx"
_PREFIXES = tuple(f"torch.{name}" for name in _COMPILER.split())
# A graph calls functions and methods of these by name, and those their neighbours, when AOTAutograd traces it.
_CALLED = frozenset(
    "torch torch.functional torch.nn.functional torch.nn.parameter torch.linalg torch.special torch.fft torch.sparse "
    "torch.nested torch.signal.windows torch.masked torch._VF torch._tensor torch._C._nn torch._C._linalg "
    "torch._C._special torch._C._fft torch._C._sparse torch._C._nested torch._lowrank torch._linalg_utils "
    "torch.utils.checkpoint torch.utils._pytree torch.backends.opt_einsum".split()
)
_NEVER_CALLED = frozenset("torch.save torch.load torch.compile torch.seed torch.manual_seed".split())
_KNOWN = sys.stdlib_module_names | {"torch", "aot_cache", "sympy", "numpy", "triton", "torchgen", "typing_extensions"}

_PLAIN = frozenset((str, int, float, bool, type(None), tuple, list, dict, set, ModuleType, BuiltinFunctionType))

# Per namespace: its owner, its values, and the classes among them that are its own.
_seen: dict[str, tuple[Any, list[Any], list[type]]] = {}
_found: dict[str, dict[str, Any]] = {}


def callables() -> dict[str, Any]:
    """Callables that were written outside torch, by where in torch's compiler they are found."""
    for name, module in list(sys.modules.items()):
        if (name.startswith(_PREFIXES) or name in _CALLED) and hasattr(module, "__dict__"):
            _look(name, vars(module), module)
    found = {place: value for here in _found.values() for place, value in here.items()}
    return {place: value for place, value in found.items() if place not in _NEVER_CALLED}


def is_known(value: Any) -> bool:
    """Whether a function or class comes from torch, or from what torch is built on and its build stands for."""
    home = value.__globals__.get("__name__") if isinstance(value, FunctionType) else value.__module__
    return isinstance(home, str) and _is_known_home(home)


@functools.lru_cache(maxsize=None)
def _is_known_home(module: str) -> bool:
    return module != "__main__" and module.partition(".")[0] in _KNOWN


def _look(place: str, members: Any, owner: Any) -> None:
    """Look through a namespace if any value in it is another object than last time."""
    values = list(members.values())
    known = _seen.get(place)
    if known is None or known[0] is not owner or not _are_same(known[1], values):
        classes = (
            []
            if isinstance(owner, type)
            else [v for v in values if issubclass(type(v), type) and v.__module__ == place]
        )
        known = _seen[place] = (owner, values, classes)
        _found[place] = dict(_foreign(place, members))
    for inner in known[2]:
        _look(f"{place}.{inner.__qualname__}", vars(inner), inner)


def _are_same(old: list[Any], new: list[Any]) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))


def _foreign(place: str, members: Any) -> Iterator[tuple[str, Any]]:
    for name, value in list(members.items()):
        if type(value) in _PLAIN or type(value) is FunctionType and value.__globals__ is members:
            continue  # nearly all
        value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        value = value.fget if type(value) is property else value
        if _is_foreign(value, members) and not (isinstance(value, type) and _is_imported(value)):
            yield f"{place}.{name}", value


def _is_imported(cls: type) -> bool:
    """Whether torch itself imports the class from another distribution (`from filelock import FileLock`)."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    replaces = any(base.__module__.partition(".")[0] == "torch" for base in cls.__mro__)
    return "-packages" in file and not replaces


def _is_foreign(value: Any, members: Any) -> bool:
    """Whether it is a callable neither of this namespace nor of torch; functions that torch generated have no file."""
    kind = type(value)
    if kind is FunctionType:
        if value.__globals__ is members or is_known(value):
            return False
        return os.path.isabs(value.__code__.co_filename) or value.__globals__.get("__name__") == "__main__"
    if kind is functools.partial:
        return any(_is_foreign(part, members) for part in (value.func, *value.args, *value.keywords.values()))
    if kind is MethodType:
        return not isinstance(value.__func__, FunctionType) or _is_foreign(value.__func__, members)
    if isinstance(value, type):
        return not is_known(value)
    return callable(value) and not is_known(kind)
