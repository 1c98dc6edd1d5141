"""Containers and instances by value, as nodes; and the table of what is described how."""

from __future__ import annotations

import array
import collections
import enum
import functools
import logging
import operator
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from . import classes, functions, origin
from .node import Edge, Node, Unidentified, portable_module, type_name

_HEAP_TYPE, _MANAGED_DICT, _POINTER = 1 << 9, 1 << 4, tuple.__itemsize__
_LEFT_OUT = frozenset(("__doc__", "__annotations__", "__dict__", "__weakref__"))
# Plain Python classes whose attributes hold a number that means something in this process only.
_HANDLES = frozenset(("ctypes", "_ctypes", "socket", "_socket", "subprocess", "multiprocessing", "mmap"))


def describe(obj: object) -> Node:
    """How `obj` looks to an identity.

    Raises:
        Unidentified: part of what it is cannot be seen, or differs between processes.
    """
    cls = type(obj)
    if (describer := _EXACT.get(cls)) is not None:
        return describer(obj)
    if issubclass(cls, type):
        return classes.class_(obj)
    if issubclass(cls, types.ModuleType):
        return classes.module(obj)
    if issubclass(type(cls), enum.EnumMeta):
        return Node("enum member", {"name": str(obj._name_)}, [Edge("class", "", cls), Edge("value", "", obj._value_)])
    try:
        return _instance(obj, cls)
    except Unidentified:
        if (node := _compiled(obj, cls)) is not None:
            return node
        raise


def _compiled(obj: object, cls: type) -> Node | None:
    """A function of a kind that an extension made (a ufunc, Cython's): what its module holds under its name."""
    if not callable(obj) or origin.of_module_named(str(cls.__module__)) is None:
        return None
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    for module in (getattr(obj, "__module__", None), cls.__module__, "scipy.special"):
        if isinstance(module, str) and isinstance(name, str) and functions.resolve(module, name) is obj:
            return Node("compiled", {"module": module, "qualname": name} | functions.source_facts(module))
    return None


def _instance(obj: object, cls: type) -> Node:
    solid = _solid(cls)
    edges = [] if cls is solid else [Edge("class", "", cls)]
    edges += _CONTENT[solid](obj)
    if solid in _WITHOUT_ATTRIBUTES and cls is solid:
        return Node(cls.__name__, {}, edges)
    kind = cls.__name__ if cls is solid else "instance"
    return Node(kind, {}, [*edges, *_state(obj, cls, solid)], type_name(cls))


def _solid(cls: type) -> type:
    """The built-in class that says how objects of `cls` are laid out, once all their state is known to be in view."""
    if cls in _CONTENT:
        return cls
    ancestors = type.__dict__["__mro__"].__get__(cls)
    solid, slots = object, 0
    for ancestor in ancestors:
        if ancestor in _CONTENT:
            solid = ancestor
            break
        if str(ancestor.__module__).partition(".")[0] in _HANDLES:
            raise _unknown(cls)
        slots += sum(type(m) is types.MemberDescriptorType for m in classes.namespace(ancestor).values())
    else:
        raise _unknown(cls)
    size = solid.__basicsize__ + _POINTER * slots
    if not cls.__flags__ & _MANAGED_DICT and bool(cls.__dictoffset__) > bool(solid.__dictoffset__):
        size += _POINTER
    if cls.__weakrefoffset__ > 0 and not solid.__weakrefoffset__:
        size += _POINTER
    heap = all(a.__flags__ & _HEAP_TYPE for a in ancestors[: ancestors.index(solid)])
    if not heap or cls.__basicsize__ > size or cls.__itemsize__ != solid.__itemsize__:
        raise _unknown(cls)
    return solid


def _unknown(cls: type) -> Unidentified:
    return Unidentified(f"object of type {type_name(cls)}", remedy="pass it as an argument, or make it in the function")


def _state(obj: object, cls: type, solid: type) -> Iterator[Edge]:
    """The attributes in the object's dictionary and slots, by name."""
    attributes: dict[str, object] = {}
    for depth, ancestor in enumerate(type.__dict__["__mro__"].__get__(cls)):
        members = classes.namespace(ancestor)
        if (dictionary := members.get("__dict__")) is not None:
            if type(dictionary) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                raise Unidentified(f"object of type {type_name(cls)}, which hides its attributes")
            attributes |= dictionary.__get__(obj)
        if ancestor is solid:
            break
        for name in sorted(name for name, m in members.items() if type(m) is types.MemberDescriptorType):
            try:
                yield Edge("slot", f"{depth}.{name}", members[name].__get__(obj))
            except AttributeError:  # an empty slot
                pass
    if not all(type(name) is str for name in attributes):
        raise Unidentified(f"object of type {type_name(cls)}, with an attribute whose name is not a string")
    if "__module__" in attributes:  # copied from a wrapped function
        attributes["__module__"] = portable_module(attributes["__module__"])
    names = [name for name in attributes if name not in _LEFT_OUT]
    yield from (Edge("attribute", name, attributes[name]) for name in sorted(names))
    if len(names) > 1:  # which `vars` of it tells
        yield Edge("order", "", tuple(names))


def _pairs(items: Callable[[Any], Any]) -> Callable[[Any], list[Edge]]:
    def edges(obj: Any) -> list[Edge]:
        found = list(items(obj))
        return [Edge("keys", "", tuple(k for k, _ in found)), Edge("values", "", tuple(v for _, v in found))]

    return edges


def _fields(*names: str) -> Callable[[Any], list[Edge]]:
    return lambda obj: [Edge("attribute", name, getattr(obj, name)) for name in names]


def _whole(convert: Callable[[Any], object]) -> Callable[[Any], list[Edge]]:
    return lambda obj: [Edge("value", "", convert(obj))]


def _reduced(obj: Any) -> list[Edge]:
    return [Edge("value", "", obj.__reduce__()[1:])]


def _cached(obj: Any) -> list[Edge]:
    # What is in the cache counts as what the function returns anyway.
    return [Edge("function", "", obj.__wrapped__), Edge("parameters", "", obj.cache_parameters())]


def _default_dict(obj: Any) -> list[Edge]:
    return [Edge("default", "", obj.default_factory), *_pairs(dict.items)(obj)]


def _logger(obj: Any) -> list[Edge]:
    return [Edge("name", "", portable_module(obj.name))]


def _descriptor(obj: Any) -> Node:
    return Node("descriptor", {"name": obj.__name__}, [Edge("class", "", obj.__objclass__)])


def _method_wrapper(obj: Any) -> Node:
    return Node("method-wrapper", {"name": obj.__name__}, [Edge("self", "", obj.__self__)])


_EXACT: dict[type, Callable[[Any], Node]] = {
    types.FunctionType: functions.function,
    types.BuiltinFunctionType: functions.builtin,
    types.MethodType: functions.method,
    types.MethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.MethodWrapperType: _method_wrapper,
}
# What is inside an object of a built-in class, or of a class made from it, besides its attributes.
_CONTENT: dict[type, Callable[[Any], list[Edge]]] = {
    object: lambda obj: [],
    types.SimpleNamespace: lambda obj: [],
    int: _whole(int.__int__),
    float: _whole(float.__float__),
    complex: _whole(complex.__pos__),
    str: _whole(str.__str__),
    bytes: _whole(lambda obj: bytes.__getitem__(obj, slice(None))),
    bytearray: _whole(bytes),
    # As one tuple, which is quick where all items are plain values.
    tuple: _whole(lambda obj: tuple(tuple.__iter__(obj))),
    list: _whole(lambda obj: tuple(list.__iter__(obj))),
    collections.deque: lambda obj: [*_fields("maxlen")(obj), *_whole(tuple)(obj)],
    array.array: lambda obj: [*_fields("typecode")(obj), *_whole(array.array.tobytes)(obj)],
    dict: _pairs(dict.items),
    collections.OrderedDict: _pairs(collections.OrderedDict.items),
    collections.defaultdict: _default_dict,
    types.MappingProxyType: _pairs(lambda obj: obj.items()),
    # union copies the items with their hashes, where frozenset() would call their __hash__.
    set: _whole(lambda obj: frozenset().union(obj)),
    frozenset: _whole(lambda obj: frozenset().union(obj)),
    slice: _fields("start", "stop", "step"),
    property: _fields("fget", "fset", "fdel"),
    staticmethod: _fields("__func__"),
    classmethod: _fields("__func__"),
    functools.partial: _fields("func", "args", "keywords"),
    type(functools.lru_cache(len)): _cached,
    type(collections.namedtuple("_", "a").a): _reduced,  # type: ignore[attr-defined]
    operator.itemgetter: _reduced,
    operator.attrgetter: _reduced,
    operator.methodcaller: _whole(lambda obj: obj.__reduce__()),
    functools.singledispatchmethod: _fields("dispatcher", "func"),
    types.GenericAlias: _fields("__origin__", "__args__"),
    types.UnionType: _fields("__args__"),
    typing.TypeVar: _fields("__name__"),
    typing.ParamSpec: _fields("__name__"),
    logging.Logger: _logger,
}
_WITHOUT_ATTRIBUTES = frozenset(_CONTENT) - {types.SimpleNamespace, functools.partial, type(functools.lru_cache(len))}
