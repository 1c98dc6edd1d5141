"""What one process has by chance, and Dynamo makes no guard of: which equal constants are one object, a set's order."""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Callable
from typing import Any

from .frames_trace import current
from .patches import Patches

HASH_SEED = ("hash", ("the order of a set that is iterated",))
"""What is sought where the seed of hashes has decided something."""
_CONSTANTS = frozenset((str, bytes, int, float, complex, tuple, frozenset))
# CPython has one object for each of these.
_SHARED_INTEGERS = range(-5, 257)


def watch(patches: Patches) -> None:
    """Listen where Dynamo compares constants by identity, and where it goes through a set."""
    import torch._dynamo.symbolic_convert as convert
    import torch._dynamo.variables.builtin as builtin
    import torch._dynamo.variables.constant as constant
    import torch._dynamo.variables.sets as sets

    handlers = {name: _comparing(handler) for name, handler in convert.compare_op_handlers.items() if "is" in name}
    patches.set(convert, "compare_op_handlers", convert.compare_op_handlers | handlers)
    patches.wrap(builtin.BuiltinVariable, "call_function", _call)
    for owner in (sets.SetVariable, sets.FrozensetVariable):
        for name in {"unpack_var_sequence", "tp_iter_impl", "repr_impl"} & vars(owner).keys():
            patches.wrap(owner, name, _iterate)
    patches.wrap(sets.SetVariable, "call_method", _call_method)
    patches.wrap(constant.ConstantVariable, "call_method", _give_to_text)


def _comparing(handler: Callable[..., Any]) -> Callable[..., Any]:
    def compare(tx: Any, arguments: Any, keywords: Any) -> Any:
        found = handler(tx, arguments, keywords)
        _compare(arguments)
        return found

    return compare


def _call(original: Callable[..., Any], variable: Any, tx: Any, arguments: Any, keywords: Any) -> Any:
    found = original(variable, tx, arguments, keywords)
    if variable.fn is operator.is_ or variable.fn is operator.is_not:
        _compare(arguments)
    return found


def _compare(arguments: Any) -> None:
    if (trace := current()) is None or len(arguments) != 2:
        return
    left, right = arguments
    if left is right or not (left.is_python_constant() and right.is_python_constant()):
        return
    a, b = left.as_python_constant(), right.as_python_constant()
    if type(a) is type(b) and type(a) in _CONSTANTS and (a == b or a != a) and not _is_one_object(a):
        trace.doubts.append(f"it compares {a!r:.40} with {b!r:.40} by identity; compare constants by value")


def _is_one_object(value: Any) -> bool:
    if type(value) is int:
        return value in _SHARED_INTEGERS
    return type(value) in (str, bytes, tuple) and not value


def _iterate(original: Callable[..., Any], variable: Any, *args: Any) -> Any:
    _order_counts(variable)
    return original(variable, *args)


def _call_method(original: Callable[..., Any], variable: Any, tx: Any, name: str, *args: Any) -> Any:
    if name in ("pop", "__repr__", "__str__"):
        _order_counts(variable)
    return original(variable, tx, name, *args)


def _give_to_text(original: Callable[..., Any], variable: Any, tx: Any, name: str, args: Any, *more: Any) -> Any:
    """`", ".join(names)`."""
    from torch._dynamo.variables.sets import SetVariable

    for argument in args:
        if isinstance(argument, SetVariable):
            _order_counts(argument)
    return original(variable, tx, name, args, *more)


def _order_counts(variable: Any) -> None:
    from torch._dynamo.variables.sets import FrozensetVariable, SetVariable

    if (
        (trace := current()) is None
        or type(variable) not in (SetVariable, FrozensetVariable)
        or len(variable.items) < 2
    ):
        return
    by = {_ordered_by(item.vt) for item in variable.items}
    if "address" in by:
        trace.doubts.append("it goes through a set of objects, whose order is chance; sort them, or use a list")
    elif "seed" in by:
        trace.sought.append(HASH_SEED)


def _ordered_by(variable: Any) -> str:
    return _by(variable.as_python_constant()) if variable.is_python_constant() else "address"


def _by(value: Any) -> str:
    """What decides the hash of a value: nothing but the value, the "seed" of this process too, or an "address"."""
    if value is None:
        return "" if sys.version_info >= (3, 12) else "address"
    if type(value) in (bool, int, float, complex):
        return ""
    if type(value) in (tuple, frozenset):
        return max(map(_by, value), key=("", "seed", "address").index, default="")
    return "seed" if type(value) in (str, bytes) or isinstance(value, enum.Enum) else "address"
