"""State of the process that library code computes with, and that name and version of the library do not stand for.

All of it can be told as a value, so that other state is another identity. What cannot is refused (functions.py).
"""

from __future__ import annotations

import _locale
import csv
import decimal
import gc
import socket
import sys
import time
from collections.abc import Callable, Collection
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from . import origin
from .node import Unidentified

_CALCULATORS = frozenset(("decimal", "_decimal", "_pydecimal", "numpy"))
_INT_DIGITS = getattr(sys, "get_int_max_str_digits", lambda: 0)
_INT_DIGITS_AT_START = getattr(sys.int_info, "default_max_str_digits", 0)
_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_NUMPY_BUFFER = 8192


def names(value: object) -> tuple[str, ...]:
    """The names under which `value` may have state: of the package, the module and the function or class it is from."""
    kind = type(value)
    name = ""
    if kind is FunctionType or kind is BuiltinFunctionType:
        module, name = value.__module__, value.__name__  # type: ignore[attr-defined]
        module = module or getattr(getattr(value, "__self__", None), "__name__", "")
    elif issubclass(kind, ModuleType):
        module = vars(value).get("__name__")
    else:
        module = type.__dict__["__module__"].__get__(value if issubclass(kind, type) else kind)
    if type(module) is not str or not module:
        return ()
    return module.partition(".")[0], module, f"{module}.{name}"


def states(reached: Collection[str], users: bool) -> dict[str, Any]:
    """The state of what was reached, by name. Values are plain, but for functions of the user's.

    If that is user code or does arithmetic, then also what any code may depend on, unless it is as Python starts.

    Raises:
        Unidentified: some state cannot be read.
    """
    try:
        found = {name: read() for name, read in _OF.items() if name in reached}
        found |= _anywhere() if users or not _CALCULATORS.isdisjoint(reached) else {}
    except Exception as problem:  # a module of the user's by that name, or one that is half imported
        raise Unidentified(f"state of the process that cannot be read ({type(problem).__name__}: {problem})") from None
    return {f"state of {name}": value for name, value in found.items()}


def zone() -> tuple[object, ...]:
    """The local time zone, and the language of names of months and days."""
    return time.tzname, time.timezone, time.altzone, _locale.setlocale(_locale.LC_TIME)


def _anywhere() -> dict[str, Any]:
    """What arithmetic and formatting depend on without naming any module, where it is not at its default."""
    found: dict[str, Any] = {}
    if (digits := _INT_DIGITS()) != _INT_DIGITS_AT_START:
        found["int digits"] = digits
    if (numbers := _locale.setlocale(_locale.LC_NUMERIC)) != "C":
        found["number locale"] = numbers
    context = _numbers(decimal.getcontext())
    if context != _DECIMAL:
        found["decimal"] = context
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "geterrcall"):
        arithmetic = (numpy.geterr(), numpy.getbufsize(), numpy.geterrcall())
        if arithmetic != (_NUMPY_ERRORS, _NUMPY_BUFFER, None):
            found["numpy arithmetic"] = arithmetic
    return found | _torch()


def _numbers(context: decimal.Context) -> tuple[object, ...]:
    """A context without its flags, which tell of results so far."""
    traps = sorted(signal.__name__ for signal, is_on in context.traps.items() if is_on)
    return (context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, tuple(traps))


_DECIMAL = _numbers(
    decimal.Context(
        prec=28,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=-999999,
        Emax=999999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )
)


def _torch() -> dict[str, Any]:
    """torch's switches that a compile itself does not depend on, where they are on."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "sparse"):
        return {}
    from ...torch_compat import objects

    found: dict[str, Any] = {"hooks of modules": hooks} if (hooks := objects.module_hooks()) else {}
    users = [
        (cls, *how) for cls, how in objects.pytree_nodes().items() if origin.of_module_named(cls.__module__) is None
    ]
    if users:
        found["pytree nodes"] = frozenset(users)
    switches = {
        "warn_always": torch.is_warn_always_enabled,
        "sparse invariants": torch.sparse.check_sparse_tensor_invariants.is_enabled,
        "overwrite_module_params_on_conversion": torch.__future__.get_overwrite_module_params_on_conversion,
        "swap_module_params_on_conversion": torch.__future__.get_swap_module_params_on_conversion,
    }
    return found | {f"torch {name}": True for name, is_on in switches.items() if is_on()}


def _call(*path: str) -> Callable[[], Any]:
    """Reads what `module.name()` returns; the module is loaded, since code that was reached is from it."""

    def read() -> Any:
        found: Any = sys.modules[path[0]]
        for name in path[1:]:
            found = getattr(found, name)
        return found()

    return read


def _mpmath() -> tuple[object, ...]:
    mp, iv = sys.modules["mpmath"].mp, sys.modules["mpmath"].iv
    return mp.prec, mp._prec_rounding[1], mp.pretty, mp.trap_complex, iv.prec


def _serialization() -> tuple[object, ...]:
    module = sys.modules["torch.serialization"]
    return str(module.get_default_load_endianness()), int(module.get_default_mmap_options())


# By package, module or function.
_OF: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(("time", "datetime", "_datetime", "_pydatetime", "_strptime", "calendar", "email"), zone),
    **dict.fromkeys(("locale", "_locale"), lambda: _locale.setlocale(_locale.LC_ALL)),
    **dict.fromkeys(("csv", "_csv"), csv.field_size_limit),
    **dict.fromkeys(("socket", "_socket"), socket.getdefaulttimeout),
    "gc": gc.get_threshold,
    "sys.getswitchinterval": sys.getswitchinterval,
    "sys.getprofile": sys.getprofile,
    "sys.gettrace": sys.gettrace,
    "numpy": _call("numpy", "get_printoptions"),
    "mpmath": _mpmath,
    "torch.get_num_interop_threads": _call("torch", "get_num_interop_threads"),
    "torch.hub": _call("torch.hub", "get_dir"),
    "torch.serialization": _serialization,
}
