"""What code that is traced reads of the process without a guard: environment variables, its own place, what is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from ..outcome import Reason
from .callables import Unidentified
from .callables.bytecode import Use, read
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


def changed(row: list[Any]) -> str:
    """What is no longer as `environment` or `installed` found it; '' if nothing is."""
    kind, name, before = row
    if kind == "environment":
        return "" if _value(name) == before else f"the environment variable {name} changed"
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


_LOOKS: dict[str, Callable[[str], Any]] = {"find_spec": _can_be_imported, "version": _version}
KINDS = frozenset(("environment", *_LOOKS))


def _value(name: str) -> str | None:
    value = os.environ.get(name)
    return None if value is None else digest(value.encode(errors="surrogateescape"))
