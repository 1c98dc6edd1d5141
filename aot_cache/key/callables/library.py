"""What user code put into the modules of a package that it calls, a level below what it names: monkey patches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from . import origin
from .classes import namespace
from .functions import foreign

# Whose patches count wherever they stand (torch's, in key/patches.py), or where they are named (the others').
_LEFT_OUT = frozenset(("torch", "aot_cache", "builtins", "sys", "__main__", "__mp_main__"))


class _Space(NamedTuple):
    """A module or class as it was found. Its values are kept, so that none of their ids becomes another one's."""

    holder: Any
    held: list[Any]
    ids: list[int]
    functions: list[FunctionType]
    codes: list[CodeType]
    classes: list[tuple[str, type]]
    patches: dict[str, Any]


_seen: dict[str, _Space] = {}
_code = attrgetter("__code__")
_known: ContextVar[dict[str, dict[str, Any]] | None] = ContextVar("known", default=None)
_count, _by_package = -1, dict[str, list[str]]()


@contextmanager
def once() -> Iterator[None]:
    """Inside the block each package is looked at once: for one key or comparison, while no code of the user's runs."""
    known = _known.get()
    token = _known.set({} if known is None else known)
    try:
        yield
    finally:
        _known.reset(token)


def patches(packages: Iterable[str]) -> dict[str, Any]:
    """Functions, classes and objects of the user's in the loaded modules of these packages, by where they stand."""
    known = _known.get()
    known = {} if known is None else known
    found: dict[str, Any] = {}
    for package in sorted(frozenset(packages) - _LEFT_OUT):
        if package not in known:
            known[package] = _package_patches(package)
        found |= known[package]
    return found


def _package_patches(package: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _loaded().get(package, ()):
        module = sys.modules.get(name)
        owner = origin.of_module(module) if isinstance(module, ModuleType) else None
        if isinstance(module, ModuleType) and owner is not None:
            found |= _module(name, module, owner)
    return {f"patch of {place}": value for place, value in found.items()}


def _loaded() -> dict[str, list[str]]:
    """The names of loaded modules by package."""
    global _count, _by_package
    if _count != len(sys.modules):
        names = sorted(name for name in list(sys.modules) if type(name) is str)
        _count = len(sys.modules)
        _by_package = {key: list(group) for key, group in groupby(sorted(names, key=_package), _package)}
    return _by_package


def _package(name: str) -> str:
    return name.partition(".")[0]


def _module(name: str, module: ModuleType, owner: origin.Origin) -> dict[str, Any]:
    space = _look(name, vars(module), module, owner)
    found = dict(space.patches)
    for place, value in space.classes:
        found |= _look(place, namespace(value), value, owner).patches
    return found


def _look(place: str, members: Mapping[str, Any], holder: Any, owner: origin.Origin) -> _Space:
    """A namespace with the patches in it; looks again if any value in it is another one than last time."""
    held = list(members.values())
    ids = list(map(id, held))
    known = _seen.get(place)
    if (
        known is None
        or known.holder is not holder
        or known.ids != ids
        or list(map(_code, known.functions)) != known.codes
    ):
        functions = [value for value in held if type(value) is FunctionType]
        classes = [] if isinstance(holder, type) else list(_classes(place, held))
        found = {f"{place}.{name}": value for name, value in _foreign(members, owner)}
        known = _seen[place] = _Space(holder, held, ids, functions, list(map(_code, functions)), classes, found)
    return known


def _classes(place: str, values: Iterable[Any]) -> Iterator[tuple[str, type]]:
    """The classes that a module defines, with where they stand."""
    for value in values:
        if issubclass(type(value), type) and value.__module__ == place:
            yield f"{place}.{value.__qualname__}", value


def _foreign(members: Mapping[str, Any], owner: origin.Origin) -> Iterator[tuple[str, Any]]:
    for name, value in list(members.items()):
        if foreign(value, owner) and not name.startswith("__import_"):  # Dynamo's
            yield name, value
