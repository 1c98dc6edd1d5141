"""What Dynamo finds missing, or to be the same, while it traces a frame, and makes no guard of."""

from __future__ import annotations

import abc
import typing
from collections.abc import Callable
from typing import Any

from .frames_trace import current
from .patches import Patches


def watch(patches: Patches) -> None:
    """Listen where Dynamo finds something missing, one object twice, what a class or this process says of something."""
    import torch._dynamo.variables.builder as builder
    import torch._dynamo.variables.builtin as builtin
    import torch._dynamo.variables.dicts as dicts
    import torch._dynamo.variables.user_defined as user_defined

    patches.wrap(dicts.ConstDictVariable, "getitem_const_raise_exception_if_absent", _miss_key)
    for owner in (user_defined.UserDefinedObjectVariable, user_defined.UserDefinedClassVariable):
        patches.wrap(owner, "var_getattr", _miss_attribute)
    generic = hasattr(user_defined.UserDefinedObjectVariable, "generic_getattr")
    patches.wrap(
        user_defined.UserDefinedObjectVariable, "generic_getattr" if generic else "var_getattr", _look_for_attribute
    )
    patches.wrap(builtin.BuiltinVariable, "call_isinstance", _check_instance)
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


def _look_for_attribute(original: Callable[..., Any], variable: Any, tx: Any, name: str, *args: Any) -> Any:
    """Where Python looks before it finds an attribute has no guard, unless a class has it."""
    trace = current() if variable.source is not None else None
    # What the frame itself has set is not there yet.
    if trace is not None and not tx.output.side_effects.has_pending_mutation_of_attr(variable, name):
        trace.found.append((variable.source, name))
    return original(variable, tx, name, *args)


def _check_instance(original: Callable[..., Any], variable: Any, tx: Any, argument: Any, classes: Any) -> Any:
    """Where a metaclass decides `isinstance`, Dynamo asks it, and there is no guard on what it looks at."""
    from torch._dynamo.variables import UserDefinedObjectVariable

    answer = original(variable, tx, argument, classes)
    if (trace := current()) is not None and isinstance(argument, UserDefinedObjectVariable):
        asked = classes.as_python_constant()
        for cls in typing.get_args(asked) or (asked,):
            if argument.source is not None and isinstance(cls, type) and _decides(type(cls)):
                trace.checked.append((argument.source, cls))
    return answer


def _decides(metaclass: type) -> bool:
    """Whether its classes may look at more of an object than its type."""
    owner = next(base for base in metaclass.__mro__ if "__instancecheck__" in vars(base))
    return owner not in (type, abc.ABCMeta)


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
