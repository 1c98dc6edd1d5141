"""What others put where torch has something of its own, and a compile meets it: monkey patches."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter, is_
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple


class Where(NamedTuple):
    """Modules whose names start so, and modules with these names."""

    prefixes: tuple[str, ...]
    names: frozenset[str] = frozenset()


# The modules that turn a captured graph into code. And those whose functions and methods a graph calls by name, with
# the neighbours that these call, when AOTAutograd traces it.
COMPILER = Where(
    tuple(
        f"torch.{name}"
        for name in "_inductor _functorch _decomp _refs _prims _higher_order_ops _subclasses _library "
        "_meta_registrations fx".split()
    ),
    frozenset(
        "torch torch.functional torch.nn.functional torch.nn.parameter torch.linalg torch.special torch.fft "
        "torch.sparse torch.nested torch.signal.windows torch.masked torch._VF torch._tensor torch._C._nn "
        "torch._C._linalg torch._C._special torch._C._fft torch._C._sparse torch._C._nested torch._lowrank "
        "torch._linalg_utils torch.utils.checkpoint torch.utils._pytree torch.backends.opt_einsum".split()
    ),
)
DYNAMO = Where(("torch._dynamo",))
_NEVER_CALLED = frozenset("torch.save torch.load torch.compile torch.seed torch.manual_seed".split())
_KNOWN = sys.stdlib_module_names | {"torch", "aot_cache", "sympy", "numpy", "triton", "torchgen", "typing_extensions"}
_GENERATED = "<string>"

class _Seen(NamedTuple):
    """A module as it was: its namespace and those of its classes, each with the values it held, and what was wanted."""

    module: Any
    spaces: list[tuple[Any, list[Any]]]
    found: dict[str, Any]

    def is_still_so(self) -> bool:
        for members, held in self.spaces:
            now = list(members.values())
            if len(now) != len(held) or not all(map(is_, now, held)):
                return False
        return True


_seen: dict[str, _Seen] = {}
# All functions in them, each with the code that it had.
_codes: dict[FunctionType, CodeType] = {}


def values(wanted: Callable[[Any], bool], where: Where = COMPILER) -> dict[str, Any]:
    """Functions, classes and objects that were made outside torch and are `wanted`, by where in torch they stand."""
    found: dict[str, Any] = {}
    if list(map(attrgetter("__code__"), _codes)) != list(_codes.values()):
        _seen.clear()
        _codes.clear()
    for name, module in list(sys.modules.items()):
        if (name.startswith(where.prefixes) or name in where.names) and hasattr(module, "__dict__"):
            known = _seen.get(name)
            if known is None or known.module is not module or not known.is_still_so():
                known = _seen[name] = _look(name, module, wanted)
            if known.found:
                found |= known.found
    return {place: value for place, value in found.items() if place not in _NEVER_CALLED}


def _look(name: str, module: Any, wanted: Callable[[Any], bool]) -> _Seen:
    seen = _Seen(module, [], {})

    def note(place: str, members: Any) -> None:
        seen.spaces.append((members, list(members.values())))
        seen.found.update(_foreign(place, members, wanted))

    note(name, vars(module))
    for value in seen.spaces[0][1]:
        # Not isinstance, which asks the object what it is.
        if issubclass(type(value), type) and value.__module__ == name:
            note(f"{name}.{value.__qualname__}", vars(value))
    return seen


def _foreign(place: str, members: Any, wanted: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """What in a namespace is neither its own nor another one's of torch, or is so with the code of another."""
    for name, value in list(members.items()):
        kind = type(value)
        # First the common cases of what comes after them, in line since there are 50,000 values: what is plain, a
        # function in its own file, and a class, a module or an object of a known module.
        if kind in _PLAIN:
            continue
        if kind is FunctionType:
            code, names = value.__code__, value.__globals__
            _codes[value] = code
            if code.co_filename == names.get("__file__") and _is_known(names.get("__name__") or ""):
                continue
        elif kind not in _WRAPPERS and _is_known(_home(value)):
            continue
        if _is_dynamos(name):
            continue
        parts = [part for part in _parts(value) if type(part) not in _PLAIN]
        _codes.update((part, part.__code__) for part in parts if type(part) is FunctionType)
        if any(_is_exchanged(part, members) for part in parts):
            yield f"{place}.{name}", value
        elif kind is FunctionType and value.__globals__ is members:
            continue
        elif any(not _is_known(_home(part)) and wanted(part) for part in parts):
            yield f"{place}.{name}", value


def _is_exchanged(value: Any, members: Any) -> bool:
    """Whether a function of torch has had its code replaced by code of another file, or by typed or generated code."""
    if type(value) is not FunctionType or not _is_known(_home(value)):
        return False
    file, name = value.__code__.co_filename, value.__name__
    if file == value.__globals__.get("__file__") or file.startswith("<frozen "):
        return False
    if file != _GENERATED:
        return True
    # What dataclass and namedtuple generate are methods.
    return value.__globals__ is members or value.__code__.co_name not in (
        name,
        "<lambda>" if name == "__new__" else name,
    )


@functools.lru_cache(maxsize=None)
def _is_dynamos(name: str) -> bool:
    """Whether Dynamo put it among the globals of a function that it traced, for the code that it wrote."""
    return not name.isidentifier() or _DYNAMOS.match(name) is not None


# An alias of a module, or a number, and perhaps a UUID, at the end.
_DYNAMOS = re.compile(r"__import_|__\w+_\d+(_[0-9a-f]{8}(_[0-9a-f]{4}){3}_[0-9a-f]{12})?$")
_PLAIN = frozenset((type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset, type(len)))
_PLAIN |= {GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType}
_WRAPPERS = frozenset((staticmethod, classmethod, property, MethodType, functools.partial))


@functools.lru_cache(maxsize=None)
def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN


def _parts(value: Any) -> tuple[Any, ...]:
    """What stands behind a member of a class, a bound method or a partial."""
    kind = type(value)
    if kind is staticmethod or kind is classmethod:
        return _parts(value.__func__)
    if kind is property:
        return (value.fget, value.fset, value.fdel)
    if kind is MethodType:
        return (value.__func__, value.__self__)
    if kind is functools.partial:
        return (value.func, *value.args, *value.keywords.values())
    return (value,)


def _home(value: Any) -> str:
    """The module that made a value: a function, a class, a module, or an object of a class; "" if it cannot be told."""
    kind = type(value)
    if kind is FunctionType:
        return str(value.__globals__.get("__name__") or "")
    if kind is ModuleType:
        return str(value.__name__)
    return str(getattr(value if issubclass(kind, type) else kind, "__module__", ""))
