"""Functions, methods and built-in functions as nodes."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)

from ...torch_compat.kinds import is_a
from . import lookup, origin
from .bytecode import read
from .leaf import encode
from .node import FOLLOW, Edge, Named, Node, Unidentified, portable_module

# By module and name: what finds code, names or source text in ways that the caller's bytecode does not show.
_DYNAMIC = frozenset(
    "builtins.eval builtins.exec builtins.globals builtins.__import__ importlib.import_module importlib.reload "
    "importlib.__import__ importlib._bootstrap.__import__ importlib.util.module_from_spec _imp.create_dynamic "
    "importlib.util.spec_from_file_location sys._getframe sys._getframemodulename sys._current_frames "
    "inspect.currentframe inspect.stack inspect.getsource inspect.getsourcelines inspect.getdoc inspect.getcomments "
    "inspect.get_annotations typing.get_type_hints traceback.extract_stack traceback.format_stack "
    "gc.get_objects gc.get_referrers gc.get_referents runpy.run_path runpy.run_module pkgutil.resolve_name os.getenv "
    "ctypes.CDLL ctypes.PyDLL ctypes.WinDLL torch.utils.cpp_extension.load "
    "torch.utils.cpp_extension.load_inline".split()
)
# What brings data from outside the program into it.
_READERS = frozenset(
    "io.open _io.open io.open_code torch.serialization.load numpy.load numpy.loadtxt numpy.fromfile numpy.genfromtxt "
    "numpy.memmap safetensors.torch.load_file urllib.request.urlopen".split()
)
# What tells of the process, so that the same code does something else in another one.
_OF_THE_PROCESS = frozenset(
    "posix.getcwd posix.getcwdb posix.listdir posix.scandir posix.stat genericpath.exists genericpath.isfile "
    "genericpath.isdir genericpath.getsize genericpath.getmtime sys.getrecursionlimit sys.get_int_max_str_digits "
    "gc.isenabled decimal.getcontext _decimal.getcontext threading.current_thread torch.random.initial_seed "
    "logging.getLogger".split()
)
READ_EARLY = "read it into a variable when the module is imported"
_NEVER_FOREIGN = frozenset(
    (type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset, BuiltinFunctionType)
    + (MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType)
)
_WRAPPERS = (staticmethod, classmethod, property, functools.partial, functools.cached_property, MethodType)
_SINGLEDISPATCH = functools.singledispatch(lambda x: x).__code__  # type: ignore[attr-defined]


def function(fn: FunctionType) -> Node:
    """A function: its code, and if it is the user's, all that the code reads."""
    module = portable_module(fn.__module__)
    refuse_dynamic(module, fn.__name__)
    code = read(fn.__code__)
    facts = {"module": module, "qualname": fn.__qualname__, "code": code.digest}
    if fn.__code__ is _SINGLEDISPATCH:
        return Node("singledispatch", facts, list(_registrations(fn)))
    owner = _owner(fn)
    if owner is None:
        edges = [*_defaults(fn), *lookup.reads(fn, code), *_attributes(fn)]
        return Node("function", facts, edges)
    facts["distribution"] = str(owner)
    if origin.of_module_named(module) is not None and (
        resolve(fn.__module__, fn.__qualname__) is fn or resolve(fn.__module__, fn.__name__) is fn
    ):
        # The distribution made it when it was imported; but look at what was wrapped, which may be somebody else's.
        return Node("function", facts, [edge for edge in _cells(fn) if _is_plain(edge.value)])
    return Node("function", facts, [*_defaults(fn), *_cells(fn)])


def builtin(fn: BuiltinFunctionType) -> Node:
    """A function in C: its name, and the version of what it comes from, or the value that it is bound to."""
    owner = fn.__self__
    facts = {"qualname": fn.__qualname__}
    # pybind11 binds a function to a record of its own: it then is what its module holds under its name, or unknown.
    if owner is not None and not is_a(owner, ModuleType) and resolve(fn.__module__, fn.__name__) is not fn:
        return Node("builtin", facts, [Edge("self", "", owner)])
    module = fn.__module__ or (owner.__name__ if is_a(owner, ModuleType) else "")
    refuse_dynamic(module, fn.__name__)
    return Node("builtin", {"module": module} | facts | source_facts(module))


def source_facts(module: str) -> dict[str, str]:
    """Which distribution, or which file's content, stands for the C code of `module`."""
    owner = origin.of_module_named(module)
    if owner is not None:
        return {"distribution": str(owner)}
    loaded = sys.modules.get(module)
    library = origin.library_digest(loaded) if isinstance(loaded, ModuleType) else None
    if library is None:
        raise Unidentified(f"compiled code of module `{module}`, which belongs to no installed distribution")
    return {"library": library}


def method(bound: MethodType) -> Node:
    return Node("method", {}, [Edge("function", "", bound.__func__), Edge("self", "", bound.__self__)])


def resolve(module: object, qualname: str) -> object:
    """What `module.qualname` is now, looked up without running code; None if there is nothing."""
    found: object = sys.modules.get(module) if isinstance(module, str) else None
    for name in qualname.split("."):
        if is_a(found, type):
            found = type.__getattribute__(found, "__dict__").get(name)
        elif is_a(found, ModuleType):
            found = vars(found).get(name)
        else:
            return None
    return found.__func__ if type(found) in (staticmethod, classmethod) else found


def _owner(fn: FunctionType) -> origin.Origin | None:
    """The distribution whose file holds the function's code, if its globals are that file's too."""
    file, names = fn.__code__.co_filename, fn.__globals__
    owner = origin.of_file(file)
    if owner is None or file.startswith("<frozen "):
        standard = owner is not None and getattr(names.get("__spec__"), "origin", None) == "frozen"
        return owner if standard else None
    where = names.get("__file__")
    return owner if isinstance(where, str) and os.path.normcase(where) == os.path.normcase(file) else None


def foreign(member: object, owner: origin.Origin) -> bool:
    """Whether a member of a class of the distribution `owner` was put there by user code."""
    kind = type(member)
    if kind is FunctionType:
        return _is_users(member)
    if kind in _NEVER_FOREIGN:
        return False
    if kind in _WRAPPERS:
        return any(foreign(getattr(member, name, None), owner) for name in ("__func__", "func", "fget", "fset", "fdel"))
    home = (member if is_a(member, type) else kind).__module__
    if type(home) is str and home.startswith("_cython_"):  # made for all that Cython compiled, and no file's
        home = getattr(member, "__module__", None)
    loaded = sys.modules.get(home)
    return is_a(loaded, ModuleType) and origin.of_module(loaded) is None


def _is_users(fn: FunctionType) -> bool:
    file, where = fn.__code__.co_filename, fn.__globals__.get("__file__")
    if origin.of_file(file) is not None:
        return False
    if file.startswith("<") and isinstance(where, str):  # generated code belongs to the module it was generated for
        return origin.of_file(where) is None
    return os.path.isabs(file) or fn.__globals__.get("__name__") == "__main__"


def _defaults(fn: FunctionType) -> Iterator[Edge]:
    code, defaults = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
    if len(names) != len(defaults):
        names = tuple(str(i) for i in range(len(defaults)))
    yield from (Edge("default", name, value) for name, value in zip(names, defaults))
    for name, value in sorted((fn.__kwdefaults__ or {}).items()):
        yield Edge("default", name, value)


def _cells(fn: FunctionType) -> Iterator[Edge]:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            yield Edge("closure", name, cell.cell_contents)
        except ValueError:
            yield Edge("closure", name, Named("empty cell"))


def _attributes(fn: FunctionType) -> Iterator[Edge]:
    # All of them, since a caller may read any; also __wrapped__, which inspect.signature and torch's schemas follow.
    yield from (Edge("attribute", name, value) for name, value in sorted(vars(fn).items()))


def _is_plain(value: object) -> bool:
    return type(value) in (FunctionType, MethodType, functools.partial) or encode(value) is not None


def _registrations(fn: FunctionType) -> Iterator[Edge]:
    found = {f"{cls.__module__}.{cls.__qualname__}": (cls, impl) for cls, impl in fn.registry.items()}
    if len(found) != len(fn.registry):
        raise Unidentified("two classes of one name are registered with a singledispatch function")
    yield from (Edge("registered", name, found[name]) for name in sorted(found))
    its_own = ("register", "dispatch", "registry", "_clear_cache")
    yield from (edge for edge in _attributes(fn) if edge.name not in its_own)


def refuse_dynamic(module: str, name: str) -> None:
    if f"{module}.{name}" in _READERS:
        raise Unidentified(f"`{name}` reads a file, whose content no identity covers", remedy=READ_EARLY)
    if f"{module}.{name}" in _OF_THE_PROCESS:
        raise Unidentified(f"`{name}` tells of the process, which no identity covers", remedy=READ_EARLY)
    if f"{module}.{name}" in _DYNAMIC:
        raise Unidentified(f"`{name}` finds what it uses at run time", remedy=FOLLOW)
