"""What Dynamo finds missing, or to be the same, while it traces a frame, and makes no guard of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .frames_trace import current
from .patches import Patches


def watch(patches: Patches) -> None:
    """Listen where Dynamo finds something missing, one object twice, or a hash that is this process's own."""
    import torch._dynamo.variables.builder as builder
    import torch._dynamo.variables.builtin as builtin
    import torch._dynamo.variables.dicts as dicts
    import torch._dynamo.variables.user_defined as user_defined

    patches.wrap(dicts.ConstDictVariable, "getitem_const_raise_exception_if_absent", _miss_key)
    for owner in (user_defined.UserDefinedObjectVariable, user_defined.UserDefinedClassVariable):
        patches.wrap(owner, "var_getattr", _miss_attribute)
    patches.wrap(builder, "make_dupe_guard", _meet_again)
    patches.wrap(builtin.BuiltinVariable, "call_hash", _number)


def _miss_key(original: Callable[..., Any], variable: Any, tx: Any, key: Any) -> Any:
    """A key that is not there is found missing without a guard, unless code asks by `in` or `get`."""
    from torch._dynamo.exc import ObservedException

    try:
        return original(variable, tx, key)
    except ObservedException:
        if (trace := current()) is not None:
            if variable.source is None:
                trace.doubts.append("it looks for a key that is not there")
            elif key.is_python_constant() and type(value := key.as_python_constant()) in (str, bytes, int):
                trace.lacking.append((variable.source, f"key {value!r}"))
            else:
                trace.looped.append(variable.source)
        raise


def _miss_attribute(original: Callable[..., Any], variable: Any, tx: Any, name: str, *args: Any) -> Any:
    """As a key; where code asks by `hasattr` there is a guard."""
    from torch._dynamo.exc import ObservedException

    try:
        return original(variable, tx, name, *args)
    except ObservedException:
        # Of an object that the frame has made, its class and code tell what it has.
        if (trace := current()) is not None and variable.source is not None:
            trace.lacking.append((variable.source, f"attribute {name}"))
        raise


def _meet_again(original: Callable[..., Any], source: Any, earlier: Any) -> Any:
    """One object by two sources, for which there is no guard where one is local and one is global."""
    guard = original(source, earlier)
    if guard is None and earlier is not None and earlier != source and (trace := current()) is not None:
        trace.met += [earlier, source]
    return guard


def _number(original: Callable[..., Any], variable: Any, tx: Any, *args: Any) -> Any:
    """What `hash` says of anything but numbers is this process's own."""
    found = original(variable, tx, *args)
    if (trace := current()) is not None and found is not None and not all(map(_is_number, args)):
        trace.doubts.append("it asks for the hash of something")
    return found


def _is_number(argument: Any) -> bool:
    return argument.is_python_constant() and type(argument.as_python_constant()) in (bool, int, float, complex)
