"""Where inlined code is found again: by the name of its module and its own, and what must not have come between."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from ..outcome import Reason
from ..torch_compat import extensions, frames
from ..torch_compat.kinds import is_a
from . import fingerprint_process
from .callables import Unidentified, origin
from .callables.bytecode import read
from .callables.functions import resolve
from .callables.node import portable_module
from .encode import CannotKey
from .fingerprint_code import WRAPPERS, Codes, parts


def qualname_of(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))  # Python 3.10 does not keep it


def frame_name(call: frames.Call) -> str:
    """What a user knows a frame by: its code, after the class of the module that it runs for if that does not say it."""
    name = qualname_of(call.code)
    for value in (call.locals.get("self"), *_contents(call.closure)):
        # torch.compile(module) runs a closure over a method of the module.
        kind = type(value.__self__ if type(value) is MethodType else value)
        if issubclass(kind, torch.nn.Module):
            return name if name.startswith(f"{kind.__name__}.") else f"{kind.__name__}: {name}"
    return name


def places(call: frames.Call, inlined: Iterable[frames.Inlined], codes: Codes) -> list[list[Any]]:
    """Where to find again the code that was inlined, as data for `moved`.

    Raises:
        CannotKey: some of it cannot be found by the name of its module and its own.
    """
    found: dict[str, list[Any]] = {}
    done = {(call.code, id(call.globals))}
    for part in inlined:
        if (part.code, id(part.globals)) not in done:
            done.add((part.code, id(part.globals)))
            for row in _rows(part, codes):
                found.setdefault(repr(row), row)
    return list(found.values())


def _rows(part: frames.Inlined, codes: Codes) -> Iterator[list[Any]]:
    owner = _owner(part.module, part.code)
    if owner is not None:
        yield ["distribution", part.module, str(owner)]
        return
    found = read(part.code).digest
    known = part.module in sys.modules and vars(sys.modules[part.module]) is part.globals
    if known and found in _digests(part.module, qualname_of(part.code)):
        yield ["code", part.module, qualname_of(part.code), found]
    elif part.code not in codes.covered:
        where = f"{portable_module(part.module)}.{qualname_of(part.code)}"
        raise CannotKey(Reason.FRAME_CODE, where, "define it in a module, or in a function of one")
    if names := absent(part.code, part.globals):
        if not known:
            raise CannotKey(Reason.FRAME_CODE, f"globals that are not those of module {part.module}")
        yield ["absent", part.module, names]


def _owner(module: str, code: CodeType) -> origin.Origin | None:
    owner = origin.of_file(code.co_filename)
    if owner is None and code.co_filename.startswith("<"):  # generated, for the module whose globals it uses
        owner = origin.of_module_named(module)
    return owner


def attributes(asked: Iterable[tuple[ModuleType, str, bool]]) -> list[list[Any]]:
    """Which attributes of modules were there when Dynamo asked, for which there are no guards; as data for `moved`."""
    found = {}
    for module, name, there in asked:
        if extensions.module_named(module.__name__) is not module:
            raise CannotKey(Reason.FRAME_GUARD, f"a module that is not loaded under its name, {module.__name__}")
        found[module.__name__, name] = there
    return [["attribute", *key, there] for key, there in found.items()]


def loaded(codes: Iterable[tuple[CodeType, Mapping[str, Any]]]) -> list[list[Any]]:
    """Modules in packages that the code imports: tracing does that, and may leave no trace of it."""
    names: set[str] = set()
    for code, there in codes:
        for use in read(code).imports:
            package = there.get("__package__") or str(there.get("__name__")).rpartition(".")[0]
            if use.level and package.count(".") < use.level - 1:
                continue
            module = f"{package.rsplit('.', use.level - 1)[0]}.{use.module}".rstrip(".") if use.level else use.module
            names.add(module if use.attr is None else f"{module}.{use.attr}")
    return [["loaded", name] for name in sorted(names & sys.modules.keys()) if "." in name]


def moved(row: list[Any]) -> str:
    """What is no longer as `places` found it; '' if nothing is."""
    kind, module, *rest = row
    if kind in fingerprint_process.KINDS:
        return fingerprint_process.changed(row)
    if kind == "loaded" and module not in sys.modules and origin.of_module_named(module.partition(".")[0]) is not None:
        importlib.import_module(module)
    found = extensions.module_named(module)
    if found is None:
        return f"module {module} is not loaded"
    if kind == "loaded":
        return ""
    if kind == "distribution":
        now = origin.of_module_named(module)
        return "" if str(now) == rest[0] else f"{module}: {rest[0]} -> {now}"
    if kind == "attribute":
        same = hasattr(found, rest[0]) == rest[1]
        return "" if same else f"`{portable_module(module)}` has `{rest[0]}`: {rest[1]} -> {not rest[1]}"
    if kind == "absent":
        return shadowed(rest[0], vars(found))
    return "" if rest[1] in _digests(module, rest[0]) else f"code of `{portable_module(module)}.{rest[0]}` changed"


def absent(code: CodeType, names: Mapping[str, Any]) -> list[str]:
    """Globals that `code` loads and that `names` lacks: Dynamo takes the built-in ones, and does not look again."""
    return sorted({use.name for use in read(code).uses if use.name not in names})


def shadowed(absent: Iterable[str], names: Mapping[str, Any]) -> str:
    """Which of the names is there now; '' if none is."""
    return ", ".join(f"the global `{name}` is new" for name in absent if name in names)


def lists_attributes(code: CodeType) -> bool:
    """Whether `code`, which is not torch's, may look at which attributes an object has, for which there are no guards."""
    if code.co_filename.startswith(_TORCH):
        return False
    return any(
        not _LISTING.isdisjoint((*part.co_names, *(c for c in part.co_consts if type(c) is str)))
        for part in parts(code)
    )


_TORCH = os.path.dirname(torch.__file__) + os.sep
_LISTING = frozenset(("__dict__", "__slots__", "vars", "dir", "getmembers", "copy", "deepcopy", "asdict", "astuple"))


def _digests(module: str, qualname: str) -> set[str]:
    """Digests of the code objects called so in the module, wrapped ones and those inside functions included."""
    outer = qualname.partition(".<locals>")[0]
    found: set[str] = set()
    for code in _codes(resolve(module, outer), set()):
        for part in parts(code):
            if qualname_of(part) == qualname:
                try:
                    found.add(read(part).digest)
                except Unidentified:
                    continue
    return found


def _codes(value: Any, seen: set[int]) -> Iterator[CodeType]:
    if value is None or id(value) in seen or len(seen) > 100:
        return
    seen.add(id(value))
    if is_a(value, FunctionType):
        yield value.__code__
        held = (inner for inner in _contents(value.__closure__) if is_a(inner, FunctionType))
        for inner in (getattr(value, "__wrapped__", None), *held):
            yield from _codes(inner, seen)
    for name in WRAPPERS.get(type(value), ()):
        yield from _codes(getattr(value, name), seen)


def _contents(closure: Any) -> Iterator[Any]:
    """The values of a closure's cells that have one."""
    for cell in closure or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
