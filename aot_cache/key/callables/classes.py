"""Classes and modules as nodes."""

from __future__ import annotations

import abc
import dataclasses
import enum
import sys
from collections.abc import Iterator, Mapping
from types import (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from ...torch_compat.kinds import is_a
from . import origin
from .functions import foreign, refuse_dynamic, resolve, source_facts
from .node import FOLLOW, Edge, Node, Unidentified, portable_module, type_name

_HEAP_TYPE = 1 << 9
_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_COMPILED_MEMBERS = (ClassMethodDescriptorType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType)
# Documentation, annotations, the position in the file, and what Python itself derives from the rest.
_LEFT_OUT = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __annotations__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __firstlineno__ __static_attributes__ __abstractmethods__ _abc_impl _abc_registry "
    "_abc_cache _abc_negative_cache _abc_negative_cache_version __dataclass_fields__".split()
)
_ENUM_LEFT_OUT = frozenset(
    "_member_map_ _member_names_ _value2member_map_ _unhashable_values_ _unhashable_values_map_ "
    "_hashable_values_".split()
)
_MEMBER_LEFT_OUT = frozenset(("_name_", "_value_", "__objclass__", "_sort_order_"))
_MODULE_LEFT_OUT = frozenset(
    "__annotations__ __builtins__ __cached__ __doc__ __file__ __loader__ __name__ __package__ __path__ __spec__ "
    "__warningregistry__ __annotate__ __conditional_annotations__".split()
)


# What was registered with an abstract class decides isinstance, and only this shows it.
_get_dump = getattr(abc, "_get_dump", None)


def namespace(cls: type) -> Mapping[str, Any]:
    """The class's own members, past whatever its metaclass says."""
    return type.__dict__["__dict__"].__get__(cls)


def class_(cls: type) -> Node:
    """A class: a distribution's by name and version, the user's with its bases and members."""
    facts = {"module": portable_module(_own(cls, "__module__")), "qualname": _own(cls, "__qualname__")}
    refuse_dynamic(facts["module"], facts["qualname"])
    if not cls.__flags__ & _HEAP_TYPE:
        return Node("class", facts | source_facts(facts["module"]))
    owner = _owner(cls)
    if owner is not None:
        patched = [(name, value) for name, value in namespace(cls).items() if foreign(value, owner)]
        if owner == origin.PYTHON:  # which has no counters in its classes, as others may
            patched += [(n, v) for n, v in namespace(cls).items() if type(v) in _PLAIN and not n.startswith("__")]
        edges = [Edge("member", name, value) for name, value in sorted(patched)]
        users = frozenset(c for c in _registered(cls) if _owner(c) is None and c.__flags__ & _HEAP_TYPE)
        edges += [Edge("registered", "", users)] if users else []
        return Node("class", facts | {"distribution": str(owner)}, edges)
    if _is_compiled(cls):
        facts |= source_facts(facts["module"])
    edges = [Edge("base", str(i), base) for i, base in enumerate(type.__dict__["__bases__"].__get__(cls))]
    if type(cls) is not type:
        edges.append(Edge("metaclass", "", type(cls)))
    return Node("class", facts, [*edges, *_members(cls)])


def module(mod: ModuleType) -> Node:
    """A module that is used as a value: a distribution's by name and version, the user's with all that is in it."""
    owner = origin.of_module(mod)
    facts = {"module": portable_module(vars(mod).get("__name__"))}
    if type(mod) is not ModuleType:  # it makes its attributes itself, and may make them of user code (torch.ops)
        raise Unidentified(f"module `{facts['module']}` of type {type_name(type(mod))}", remedy=FOLLOW)
    if owner is not None:
        return Node("module", facts | {"distribution": str(owner)})
    if (library := origin.library_digest(mod)) is not None:
        return Node("module", facts | {"library": library})
    names = [name for name in vars(mod) if name not in _MODULE_LEFT_OUT]
    members = [Edge("member", name, vars(mod)[name]) for name in sorted(names)]
    return Node("module", facts, [*members, Edge("order", "", tuple(names))])


def _own(cls: type, name: str) -> Any:
    return type.__dict__[name].__get__(cls)


def _owner(cls: type) -> origin.Origin | None:
    name = _own(cls, "__module__")
    loaded = sys.modules.get(name) if isinstance(name, str) else None
    owner = origin.of_module(loaded) if is_a(loaded, ModuleType) else None
    return owner if owner is not None and resolve(name, _own(cls, "__qualname__")) is cls else None


def _is_compiled(cls: type) -> bool:
    """Whether C code made the class: then it has methods without bytecode of its own."""
    slots = [m for name, m in namespace(cls).items() if name not in ("__dict__", "__weakref__")]
    return any(type(m) in _COMPILED_MEMBERS and m.__objclass__ is cls for m in slots)


def _registered(cls: type) -> set[type]:
    """What was registered with an abstract class, or with a class derived from it, of a distribution's by a distribution's.

    Everything derives from abc.ABC, which has nothing to ask for.
    """
    if _get_dump is None or cls is abc.ABC or not issubclass(type(cls), abc.ABCMeta):
        return set()
    is_users = _owner(cls) is None
    below = (_registered(derived) for derived in type.__subclasses__(cls) if is_users or _owner(derived) is not None)
    own = {found for reference in _get_dump(cls)[0] if (found := reference()) is not None}
    return own.union(*below)


def _members(cls: type) -> Iterator[Edge]:
    members = namespace(cls)
    skipped = _LEFT_OUT
    if issubclass(type(cls), enum.EnumMeta):
        found = type.__getattribute__(cls, "_member_map_")
        skipped = _LEFT_OUT | _ENUM_LEFT_OUT | found.keys()
        for name, member in found.items():
            extra = sorted((k, v) for k, v in vars(member).items() if k not in _MEMBER_LEFT_OUT)
            yield Edge("member", name, (member._name_, member._value_, tuple(extra)))
    if _get_dump is not None and "_abc_impl" in members:
        yield Edge("registered", "", frozenset(_registered(cls)))
    if (fields := members.get("__dataclass_fields__")) is not None:
        yield Edge("member", "__dataclass_fields__", tuple(_field(field) for field in fields.values()))
    for name in sorted(name for name in members if name not in skipped):
        yield Edge("member", name, members[name])


def _field(field: dataclasses.Field[Any]) -> tuple[object, ...]:
    switches = (field.init, field.repr, field.hash, field.compare, field.kw_only)
    # MISSING is a value of its own; the type is what annotations say, and dataclass-like code may act on it.
    return field.name, field.type, field.default, field.default_factory, switches, dict(field.metadata)
