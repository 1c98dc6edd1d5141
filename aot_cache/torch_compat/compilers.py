"""Which compilers AOTAutograd was given for the graph at hand: torch's own, or somebody else's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import Any

from torch.fx import GraphModule

from . import registrations
from .late import AfterImport
from .patches import Patches

_AOT_ARGUMENTS: ContextVar[dict[str, Any] | None] = ContextVar("aot_autograd's arguments", default=None)
_ROLES = ("fw_compiler", "bw_compiler", "inference_compiler", "partition_fn", "pre_grad_passes")


def watch(patches: Patches) -> AfterImport:
    """Note what `AotAutograd.__call__` is given, from when it is imported, and what is registered for operators."""
    registrations.watch(patches)

    def note(module: Any) -> None:
        patches.wrap(module.AotAutograd, "__call__", _noting_arguments)

    return AfterImport("torch._dynamo.backends.common", note)


def _noting_arguments(original: Callable[..., Any], backend: Any, *args: Any, **kwargs: Any) -> Any:
    token = _AOT_ARGUMENTS.set(dict(backend.kwargs))
    try:
        return original(backend, *args, **kwargs)
    finally:
        _AOT_ARGUMENTS.reset(token)


@contextmanager
def torchs_own() -> Iterator[None]:
    """Look a graph up as one that Inductor's own compilers would compile."""
    token = _AOT_ARGUMENTS.set({})
    try:
        yield
    finally:
        _AOT_ARGUMENTS.reset(token)


def are_known() -> bool:
    """Whether the current graph came through `AotAutograd`, so that its compilers were seen."""
    return _AOT_ARGUMENTS.get() is not None


def foreign() -> dict[str, Any]:
    """Compilers, passes and partitioners of the current graph that are not torch's own, by role."""
    arguments = _AOT_ARGUMENTS.get() or {}
    found = {}
    for role in _ROLES:
        for number, function in enumerate(_foreign_in(arguments.get(role))):
            found[f"{role} {number}"] = function
    return found


def is_torch(value: Any) -> bool:
    """Whether a callable, and every function that it wraps or closes over, lies in torch."""
    return next(_foreign_in(value), None) is None


def foreign_callables(value: Any) -> Iterator[Any]:
    """Callables outside torch that `value` is, wraps or closes over; torch's own wrappers are looked through."""
    return _foreign_in(value)


def _foreign_in(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    seen = set() if seen is None else seen
    if value is None or id(value) in seen or not callable(value) or isinstance(value, GraphModule):
        return
    seen.add(id(value))
    if not _home(value).startswith("torch.") and not _is_patching(value):
        yield value
    else:
        for inner in _parts(value):
            yield from _foreign_in(inner, seen)


def _home(value: Any) -> str:
    """The module in which the code of a callable was written, with a final dot."""
    if isinstance(value, functools.partial):
        return "torch."
    if isinstance(value, MethodType):
        home = _home(value.__func__)
        return home if home != "." else f"{type(value.__self__).__module__}."
    if isinstance(value, FunctionType):
        # Generated code may have globals without a name.
        return f"{value.__globals__.get('__name__') or value.__module__ or ''}."
    if isinstance(value, type):
        return f"{value.__module__}."
    if (module := getattr(value, "__module__", None)) and type(value).__name__ == "builtin_function_or_method":
        return f"{module}."
    return f"{type(value).__module__}."


def _is_patching(value: Any) -> bool:
    # A context manager used as a decorator, as torch's configuration patches are.
    return isinstance(value, FunctionType) and value.__globals__.get("__name__") == "contextlib"


_FUNCTIONS = (FunctionType, MethodType, functools.partial)
_KNOWN = sys.stdlib_module_names | {"torch", "sympy", "numpy", "triton"}


def _is_users_object(value: Any) -> bool:
    """Whether it is callable because its class, which neither torch nor Python brings, says so."""
    return callable(value) and not isinstance(value, type) and type(value).__module__.split(".")[0] not in _KNOWN


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # the cell is empty
                continue
            if isinstance(content, _FUNCTIONS) or hasattr(content, "compiler_fn") or _is_users_object(content):
                yield content
        yield getattr(value, "__wrapped__", None)
    yield getattr(value, "compiler_fn", None)
