"""Fingerprints of classes and functions that a guard names, and code objects that can be found again.

A guard says "this very class" or "this very function". In another process that means: one that does the same. An
installed distribution's is known by name and version. The user's own is described here, one level deep: the code of
every function and method, plain values, and the names of all else, because Dynamo guards what that code reads.
"""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..outcome import Reason
from ..torch_compat import frames_state
from ..torch_compat.kinds import is_a
from .callables import Unidentified, identity, origin
from .callables.bytecode import read
from .callables.classes import namespace
from .callables.functions import resolve
from .callables.leaf import encode
from .callables.node import portable_module
from .encode import CannotKey
from .operators import taught
from .parts import digest

# Members of a class that say nothing of what it does.
_LEFT_OUT = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __annotations__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __firstlineno__ __static_attributes__ _abc_impl".split()
)
# Methods that Python runs while Dynamo traces, untraced: what they read has no guard.
_RUN_UNTRACED = frozenset(("__subclasshook__", "__class_getitem__"))
# Functions without arguments that Dynamo calls while it traces, for good; and those that it calls for their effect.
_FOLDED = [f for name in ("getrecursionlimit", "get_int_max_str_digits") if (f := getattr(sys, name, None))]
# Inductor raises the limit of recursion to this with the first compile.
_RECURSION = 2000
_SETTERS = [f for name in ("set_int_max_str_digits",) if (f := getattr(sys, name, None))]
_PYTHON_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
WRAPPERS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.partial: ("func",),
    functools.partialmethod: ("func",),
    functools.cached_property: ("func",),
    MethodType: ("__func__",),
    type(functools.lru_cache(len)): ("__wrapped__",),
}


# What was registered with an abstract class decides isinstance, and only this shows it.
_get_dump = getattr(abc, "_get_dump", None)


class Codes:
    """Fingerprints of callables and classes of one frame. `covered`: the code objects that they answer for."""

    def __init__(self) -> None:
        self.covered: set[CodeType] = set()
        self._known: dict[tuple[int, bool], str] = {}
        self._alive: list[Any] = []

    def of(self, value: Any, whole: bool = False) -> str:
        """The fingerprint of a class, function, built-in or operator; `whole`: with all that a function reads.

        Raises:
            CannotKey: it has none.
        """
        key = (id(value), whole)
        if key not in self._known:
            self._alive.append(value)
            self._known[key] = self._describe(value, whole)
        return self._known[key]

    def code(self, code: CodeType) -> str:
        self.covered.update(parts(code))
        try:
            return f"code {code.co_name} {read(code).digest}"
        except Unidentified as error:
            raise CannotKey(Reason.FRAME_GUARD, str(error)) from None

    def _describe(self, value: Any, whole: bool) -> str:
        if is_a(value, MethodType):
            return f"method {self.of(value.__func__, whole)} of {type(value.__self__).__qualname__}"
        inner = frames_state.compiled_function(value)
        if inner is not None:
            return " ".join(["compiled", self.of(inner, whole), *frames_state.marks(value)])
        if is_a(value, FunctionType) and not whole and _is_users(value.__module__, value.__code__):
            return self._function(value)
        if is_a(value, type):
            return f"{self._class(value)} {self._identity(value)}" if whole else self._class(value)
        return self._identity(value)

    def _identity(self, value: Any) -> str:
        if any(value is function for function in _FOLDED):
            said = max(value(), _RECURSION) if value is sys.getrecursionlimit else value()
            return f"{_name(value)} {said}"
        if any(value is function for function in _SETTERS):
            raise CannotKey(Reason.FRAME_GUARD, f"`{_name(value)}`, which is called only when the code is traced")
        if value is inspect.get_annotations:  # looks at its argument only, which Dynamo has guarded
            return self.code(value.__code__)
        try:
            found = identity(value, taught).digest
        except Unidentified as error:
            raise CannotKey(Reason.FRAME_GUARD, str(error), error.remedy) from None
        return " ".join([_name(value), found, *frames_state.marks(value)])

    def _function(self, function: FunctionType) -> str:
        marks = frames_state.marks(function)
        text = [_name(function), self.code(function.__code__), *marks, *_additions(function)]
        return f"{_name(function)} {digest(chr(10).join(text).encode())}"

    def _class(self, cls: type) -> str:
        text = [_name(cls)]
        if origin.of_module_named(str(cls.__module__)) is not None:
            text.append(self._identity(cls))
        else:
            text += self._user_class(cls)
        text += [f"base {self.of(base)}" for base in type.__dict__["__bases__"].__get__(cls) if base is not object]
        text += [f"registered {name}" for name in sorted(_registered(cls, set()))]
        return f"{_name(cls)} {digest(chr(10).join(text).encode())}"

    def _user_class(self, cls: type) -> Iterator[str]:
        if type(cls) not in _PYTHON_METACLASSES:
            yield f"metaclass {self._identity(type(cls))}"
        if issubclass(type(cls), enum.EnumMeta):
            yield self._identity(cls)
        for name, member in sorted(namespace(cls).items()):
            if name not in _LEFT_OUT:
                yield f"member {name} {self._member(name, member)}"

    def _member(self, name: str, member: Any) -> str:
        data = encode(member)
        if data is not None:
            return digest(data)
        if name in _RUN_UNTRACED and is_a(function := getattr(member, "__func__", member), FunctionType):
            return self.of(function, whole=True)
        if is_a(member, FunctionType):
            if _is_found_by_name(name, member):
                # Its code counts if it is inlined, and is then looked up by this name.
                return " ".join([_name(member), *_additions(member), *frames_state.marks(member)])
            inner = [self._member("", f) for f in _wrapped(member)]
            return " ".join([self.of(member), *inner])
        if type(member) in WRAPPERS:
            inside = [getattr(member, part) for part in WRAPPERS[type(member)]]
            return " ".join([type(member).__qualname__, *("-" if p is None else self._member("", p) for p in inside)])
        if is_a(member, (type, ModuleType)):
            return _name(member)
        # What else a class holds is data: Dynamo guards what it reads of it.
        return f"object of {_name(type(member))}"


def _is_found_by_name(name: str, member: FunctionType) -> bool:
    """Whether a method is what its module and name say, and none that Python itself calls: those may run untraced."""
    ordinary = name == "__init__" or not (name.startswith("__") and name.endswith("__"))
    # The one cell that a plain method may have is the class that `super()` asks for.
    plain = member.__code__.co_freevars in ((), ("__class__",)) and not hasattr(member, "__wrapped__")
    # Generated code has another name than the method that it becomes.
    named = getattr(member.__code__, "co_qualname", member.__qualname__) == member.__qualname__
    return bool(name) and ordinary and plain and named and resolve(member.__module__, member.__qualname__) is member


def _registered(cls: type, seen: set[type]) -> Iterator[str]:
    """The user's classes that count as subclasses of an abstract class without being derived from it."""
    if not is_a(cls, abc.ABCMeta) or cls in seen or _get_dump is None:
        return
    seen.add(cls)
    for reference in _get_dump(cls)[0]:
        found = reference()
        if found is not None and origin.of_module_named(str(found.__module__)) is None:
            yield _name(found)
    for derived in type.__subclasses__(cls):
        yield from _registered(derived, seen)


def _additions(function: FunctionType) -> Iterator[str]:
    for default in (*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())):
        data = encode(default)
        yield f"default {digest(data) if data is not None else type(default).__qualname__}"
    # Dynamo looks without a guard at which attributes it has; its own marks come with the first compile.
    yield f"attributes {sorted(name for name in function.__dict__ if 'dynamo' not in name)}"


def _wrapped(function: FunctionType) -> Iterator[FunctionType]:
    """Functions that a decorator closed over."""
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if is_a(content, FunctionType) and content is not function and content.__closure__ is None:
            yield content


def _name(value: Any) -> str:
    if is_a(value, ModuleType):
        return f"module {portable_module(value.__name__)}"
    module = portable_module(getattr(value, "__module__", None))
    return f"{module}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _is_users(module: Any, code: CodeType) -> bool:
    return origin.of_file(code.co_filename) is None and origin.of_module_named(str(module)) is None


def parts(code: CodeType) -> Iterator[CodeType]:
    """`code` and all code inside it."""
    yield code
    for const in code.co_consts:
        if is_a(const, CodeType):
            yield from parts(const)
