"""Monkey patches of torch's compiler: what stands where torch has its own, and what code and constants that has."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..torch_compat import objects, patched, tensors
from .callables.bytecode import Use, read
from .callables.leaf import encode, sized, text
from .parts import digest

_WRITES = ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF")


def patches() -> dict[str, str]:
    """Digests of what others put into torch's compiler, by where it stands.

    Code is followed through functions that are not torch's, and immutable values count. What is written by the code
    itself, and mutable values, do not: patches that count or time hold what is different at every compile.
    """
    return {f"patch of {place}": digest(_Walk().value(found)) for place, found in patched.callables().items()}


class _Walk:
    """Describes one patch; functions that call each other are described once."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def value(self, value: Any) -> bytes:
        if (known := encode(value)) is not None:
            return known
        if type(value) is tuple:
            return sized("tuple", *map(self.value, value))
        if isinstance(value, FunctionType):
            return self._once(value, self._function)
        if isinstance(value, functools.partial):
            keywords = [
                part for name, item in sorted(value.keywords.items()) for part in (text(name), self.value(item))
            ]
            return sized("partial", self.value(value.func), *map(self.value, value.args), *keywords)
        if isinstance(value, MethodType):
            return sized("method", self.value(value.__func__), self.value(value.__self__))
        if isinstance(value, type):
            return self._once(value, self._class)
        if not patched.is_known(type(value)):
            return sized("instance", self._once(type(value), self._class))
        told = None if tensors.is_tensor(value) else objects.taught(value)
        name = told[0] if isinstance(told, tuple) else told or b""
        return sized("other", text(f"{type(value).__module__}.{type(value).__qualname__}"), name)

    def _once(self, value: Any, describe: Callable[[Any], bytes]) -> bytes:
        if (number := self._seen.get(id(value))) is not None:
            return sized("again", str(number).encode())
        self._seen[id(value)] = len(self._seen)
        return describe(value)

    def _function(self, function: FunctionType) -> bytes:
        if patched.is_known(function):
            return sized("known", text(f"{function.__module__}.{function.__qualname__}"))
        code, written = read(function.__code__), frozenset(_written(function.__code__))
        parts = [text(code.digest), *map(self.value, function.__defaults__ or ())]
        parts += [
            self.value(item) for item in sorted((function.__kwdefaults__ or {}).items(), key=lambda item: item[0])
        ]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if name not in written and (content := _content(cell)) is not cell:
                parts.append(sized("closure", text(name), self.value(content)))
        for use in code.uses:
            if use.name not in written and use.name in function.__globals__:
                found = _followed(use, function.__globals__[use.name])
                parts.append(sized("global", text(".".join((use.name, *use.attrs))), self.value(found)))
        return sized("function", *parts)

    def _class(self, cls: type) -> bytes:
        if patched.is_known(cls):
            return sized("known", text(f"{cls.__module__}.{cls.__qualname__}"))
        parts = [self.value(base) for base in cls.__bases__]
        for name, member in sorted(vars(cls).items()):
            member = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if isinstance(member, FunctionType) or not name.startswith("__") and encode(member) is not None:
                parts.append(sized("member", text(name), self.value(member)))
        return sized("class", *parts)


def _written(code: CodeType) -> Iterator[str]:
    """Variables outside itself that `code`, or code inside it, sets."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _WRITES:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _written(constant)


def _content(cell: Any) -> Any:
    """What is in a cell; the cell itself if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _followed(use: Use, value: Any) -> Any:
    for name in use.attrs:
        if not isinstance(value, ModuleType):
            break
        value = vars(value).get(name)
    return value
