"""What user code reads outside itself: globals, builtins, closure, imports, and attributes of modules that it names.

A chain such as `mod.helper` is followed through the modules in it; all else that a name stands for is taken whole.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType

from ...torch_compat.kinds import is_a
from . import origin
from .bytecode import Code, Import, Use
from .leaf import encode
from .node import FOLLOW, Edge, Named, Unidentified, portable_module

_ABSENT = object()
_PLACES = frozenset("__file__ __path__ __cached__ __spec__ __loader__ __builtins__".split())
_IGNORED = frozenset(("__annotations__", "__conditional_annotations__"))


def reads(function: FunctionType, code: Code) -> list[Edge]:
    """One edge for each thing that `function` reads by name, without duplicates, in an order of their names.

    Raises:
        Unidentified: what a name stands for depends on more than bytecode shows.
    """
    if code.unseen:
        raise Unidentified(f"its code reads `{code.unseen[0]}`, which no identity covers")
    found: dict[str, Edge] = {}
    for edge in (*_globals(function, code), *_closure(function, code), *_imports(function, code)):
        found.setdefault(edge.label, edge)
    return [found[label] for label in sorted(found)]


def names_in(code: CodeType) -> Iterator[str]:
    """The names that code, and code inside it, looks up."""
    yield from code.co_names
    for const in code.co_consts:
        if type(const) is CodeType:
            yield from names_in(const)


def _globals(function: FunctionType, code: Code) -> Iterator[Edge]:
    names, builtins = function.__globals__, function.__builtins__
    for use in code.uses:
        if use.name in _IGNORED:
            continue
        value = names.get(use.name, _ABSENT)
        if value is _ABSENT:
            value = builtins.get(use.name, _ABSENT)
        if value is _ABSENT:
            yield Edge("global", use.name, Named("undefined"))
        else:
            yield from _follow("global", use, value)


def _closure(function: FunctionType, code: Code) -> Iterator[Edge]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            value = cell.cell_contents
        except ValueError:
            yield Edge("closure", name, Named("empty cell"))
            continue
        for use in [use for use in code.locals if use.name == name] or (Use(name),):
            yield from _follow("closure", use, value)


def _imports(function: FunctionType, code: Code) -> Iterator[Edge]:
    for wanted in code.imports:
        if wanted.attr is not None:
            _refuse_place(wanted.attr)
        value = _imported(function.__globals__, wanted)
        shown = "." * wanted.level + wanted.module + (f".{wanted.attr}" if wanted.attr else "")
        uses = [use for use in (*code.locals, *code.uses) if use.name == wanted.bound]
        if wanted.bound == "" or not (uses or is_a(value, ModuleType)):
            uses = [Use(shown)]
        for use in uses:
            yield from _follow("import", use._replace(name=shown), value)


def _imported(names: Mapping[str, object], wanted: Import) -> object:
    name = wanted.module
    if wanted.level:
        package = names.get("__package__") or str(names.get("__name__")).rpartition(".")[0]
        try:
            name = importlib.util.resolve_name("." * wanted.level + name, str(package))
        except ImportError:
            return Named("relative import outside a package")
    if name not in sys.modules:
        return _not_loaded(name)
    module = sys.modules[name]
    if wanted.attr is None:
        return module
    value = _attribute(module, wanted.attr) if is_a(module, ModuleType) else _ABSENT
    if value is _ABSENT:
        value = sys.modules.get(f"{name}.{wanted.attr}", _ABSENT)
    if value is not _ABSENT:
        return value
    if is_a(module, ModuleType) and (owner := origin.of_module(module)) is not None:
        return Named(f"{owner}: {name}.{wanted.attr}")
    raise Unidentified(f"it imports `{wanted.attr}` from `{name}`, which is not loaded yet", remedy="import it first")


def _not_loaded(name: str) -> Named:
    top = name.partition(".")[0]
    if top in sys.modules:
        owner = origin.of_module_named(top)
    else:
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            raise Unidentified(f"it imports `{name}`, which cannot be found") from None
        if spec is None:
            return Named("not installed")
        standard = spec.origin in ("built-in", "frozen")
        owner = origin.PYTHON if standard else origin.of_file(spec.origin or "")
    if owner is None:
        raise Unidentified(f"it imports `{name}`, which is not loaded yet", remedy="import it at the top of the module")
    return Named(f"{owner}: {name}")


def _follow(kind: str, use: Use, value: object) -> Iterator[Edge]:
    """Edges for `use` of a variable that holds `value`."""
    label, attrs = use.name, list(use.attrs)
    if use.how == "getattr" and use.const:
        attrs.append(use.const)
    _refuse_place(label)
    if label == "__name__":
        value = portable_module(value)
    while attrs and is_a(value, ModuleType) and attrs[0] != "__dict__":
        _refuse_place(attrs[0])
        value = portable_module(value.__name__) if attrs[0] == "__name__" else _step(value, attrs[0])
        label = f"{label}.{attrs.pop(0)}"
    if value is sys.modules:
        raise Unidentified("it reads `sys.modules`", remedy=FOLLOW)
    if (variable := _environment(use, value, attrs)) is not None:
        yield Edge("environment", variable, os.environ.get(variable))
        return
    if is_a(value, ModuleType) and use.how == "getattr" and not use.const:
        raise Unidentified(f"it looks up an attribute of module `{label}` by a computed name", remedy=FOLLOW)
    yield Edge(kind, label, value)
    if attrs[:1] == ["__name__"] and is_a(value, FunctionType):
        yield Edge(kind, f"{label}.__name__", value.__name__)
    if attrs and (is_a(value, FunctionType) or is_a(value, type)):
        # Also what somebody hung on a distribution's function or class, whose own parts its version stands for.
        names = type.__getattribute__(value, "__dict__") if is_a(value, type) else vars(value)
        extra = names.get(attrs[0], _ABSENT)
        if is_a(extra, FunctionType) or encode(extra) is not None:
            yield Edge(kind, f"{label}.{attrs[0]}", extra)


def _refuse_place(name: str) -> None:
    if name in _PLACES:
        raise Unidentified(
            f"it reads `{name}`, which differs from machine to machine", remedy="pass what is needed as an argument"
        )


def _step(module: ModuleType, attr: str) -> object:
    """Attribute `attr` of a module, or what stands for it if it is not there yet."""
    value = _attribute(module, attr)
    if value is not _ABSENT:
        standard = module is sys and attr in ("stdin", "stdout", "stderr")
        return Named(f"sys.{attr}") if standard else value
    owner = origin.of_module(module)
    if owner is not None:
        return Named(f"{owner}: {module.__name__}.{attr}")
    if "__getattr__" in vars(module):
        raise Unidentified(f"module `{module.__name__}` computes its attribute `{attr}`", remedy=FOLLOW)
    return Named("undefined")


def _attribute(module: ModuleType, attr: str) -> object:
    value = vars(module).get(attr, _ABSENT)
    if value is not _ABSENT or type(module) is ModuleType:
        return value
    # A module of a class of its own (torch.ops, a lazy one) makes attributes on demand: ask as the code would.
    if origin.of_module_named(type(module).__module__) is None:
        raise Unidentified(f"module `{module.__name__}` is a `{type(module).__name__}`", remedy=FOLLOW)
    try:
        return getattr(module, attr, _ABSENT)
    except Exception:
        return _ABSENT


def _environment(use: Use, value: object, attrs: list[str]) -> str | None:
    """The environment variable that is read; None if none is."""
    if value is os.getenv and use.how == "argument":
        return use.const
    if value is not os.environ and value is not os.getenv:
        return None
    if use.how in ("item", "in") and not attrs:
        return use.const
    if use.how == "argument" and attrs in (["get"], ["pop"], ["setdefault"]):
        return use.const
    raise Unidentified("it reads the environment by a computed name", remedy="read a variable by a constant name")
