"""What code that is traced reads of the process without a guard: its environment, own place, built-ins, what is installed."""

from __future__ import annotations

import builtins
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from ..outcome import Reason
from .callables import Unidentified
from .callables.bytecode import Use, read
from .callables.leaf import encode
from .encode import CannotKey
from .parts import digest

_ENVIRONMENT = frozenset(("environ", "environb", "getenv"))
_PLACE = frozenset(("co_filename", "co_firstlineno", "f_code", "f_back"))
_REMEDY = "read it before, outside of what is compiled"


def environment(codes: Iterable[tuple[CodeType, Mapping[str, Any]]]) -> list[list[Any]]:
    """Environment variables that the code (with its globals) reads, set or not, as data for `changed`.

    Raises:
        CannotKey: it cannot be told which ones, or the code looks at its own file or line.
    """
    names: set[str] = set()
    for code, names_there in codes:
        for use in _uses(code):
            if _reads_environment(use, names_there):
                if not use.const:
                    what = ".".join((use.name, *use.attrs))
                    raise CannotKey(Reason.FRAME_CODE, f"`{what}` with a name that is not constant", _REMEDY)
                names.add(use.const)
    return [["environment", name, _value(name)] for name in sorted(names)]


def installed(sought: Iterable[tuple[str, tuple[Any, ...]]]) -> list[list[Any]]:
    """What Dynamo looked for while it traced (see torch_compat.frames), and whether it is there; as data for `changed`."""
    found = {}
    for look, arguments in sought:
        if len(arguments) != 1 or type(arguments[0]) is not str:
            raise CannotKey(Reason.FRAME_CODE, f"`{look}` of {arguments!r}", _REMEDY)
        found[look, arguments[0]] = _LOOKS[look](arguments[0])
    return [[*key, value] for key, value in found.items()]


def built_in(codes: Iterable[tuple[CodeType, Mapping[str, Any]]]) -> list[list[Any]]:
    """Values that the code takes from among the built-in names, functions aside, which have guards; for `changed`.

    Raises:
        CannotKey: the code has built-in names of its own, or one of them has no digest.
    """
    names: set[str] = set()
    for code, there in codes:
        if there.get("__builtins__", builtins) not in (builtins, vars(builtins)):
            raise CannotKey(Reason.FRAME_CODE, f"built-in names of `{code.co_name}` alone")
        names.update(use.name for use in read(code).uses if use.name not in there)
    held = vars(builtins)
    values = sorted(name for name in names if not callable(held.get(name)))
    if unknown := [name for name in values if name in held and encode(held[name]) is None]:
        raise CannotKey(Reason.FRAME_CODE, f"the built-in name `{unknown[0]}`, a {type(held[unknown[0]]).__qualname__}")
    return [["builtin", name, _built_in(name)] for name in values]


def changed(row: list[Any]) -> str:
    """What is no longer as `environment`, `built_in` or `installed` found it; '' if nothing is."""
    kind, name, before = row
    if kind == "environment":
        return "" if _value(name) == before else f"the environment variable {name} changed"
    if kind == "builtin":
        return "" if _built_in(name) == before else f"the built-in name `{name}` changed"
    now = _LOOKS[kind](name)
    return "" if now == before else f"`{kind}({name!r})`: {before} -> {now}"


def _uses(code: CodeType) -> Iterator[Use]:
    try:
        found = read(code)
    except Unidentified as error:
        raise CannotKey(Reason.FRAME_CODE, str(error)) from None
    if seen := sorted(_PLACE.intersection(found.unseen)):
        raise CannotKey(Reason.FRAME_CODE, f"`{code.co_name}` reads {seen[0]}")
    return iter((*found.uses, *found.locals))


def _reads_environment(use: Use, names: Mapping[str, Any]) -> bool:
    value = names.get(use.name)
    is_alias = value is os.environ or value is os.environb or value is os.getenv
    return is_alias or not _ENVIRONMENT.isdisjoint((use.name, *use.attrs))


def _can_be_imported(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


_LOOKS: dict[str, Callable[[str], Any]] = {"find_spec": _can_be_imported, "version": _version, "hash": hash}
KINDS = frozenset(("environment", "builtin", *_LOOKS))


def _built_in(name: str) -> str | None:
    data = encode(vars(builtins)[name]) if name in vars(builtins) else None
    return None if data is None else digest(data)


def _value(name: str) -> str | None:
    value = os.environ.get(name)
    return None if value is None else digest(value.encode(errors="surrogateescape"))
