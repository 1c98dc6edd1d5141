"""What Dynamo learns of an object and makes no guard of: where an attribute is not, and what a class says of it."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from ..outcome import Reason
from .callables.functions import resolve
from .encode import CannotKey

FOUND, CHECKED = "found ", "checked "
"""What is said of where an attribute was found, and of what a class said of an object, starts so."""
_OF_A_MODULE = ("_parameters", "_buffers", "_modules")
_NOWHERE = object()


def found(value: Any, name: str) -> str:
    """Which of the object's own places have an attribute, told without running its code.

    '' if Python looks in no other first: its class has a data descriptor, or its own `__dict__` has it.
    """
    own = _own(value)
    if name in own or inspect.isdatadescriptor(_of_class(type(value), name)):
        return ""
    places = _OF_A_MODULE if isinstance(value, torch.nn.Module) else ()
    having = [place for place in places if isinstance(part := own.get(place), dict) and dict.__contains__(part, name)]
    return f"{FOUND}{name} in {' '.join(having) or 'nothing of its own'}"


def found_as(value: Any, before: str) -> str:
    """What `before`, which `found` said, says now."""
    name = before.removeprefix(FOUND).rpartition(" in ")[0]
    return found(value, name) or f"{FOUND}{name} in __dict__"


def checked(value: Any, cls: type) -> str:
    """What the class says of whether the object is its instance, where its metaclass decides that.

    Raises:
        CannotKey: the class is not found by its name, or its answer is not plain.
    """
    return _checked(value, cls, f"{cls.__module__}:{cls.__qualname__}")


def checked_as(value: Any, before: str) -> str:
    """As `checked`, of the class that `before` names."""
    place = before.removeprefix(CHECKED).split(" ", 1)[0]
    return _checked(value, resolve(*place.split(":", 1)), place)


def _checked(value: Any, cls: Any, place: str) -> str:
    if not isinstance(cls, type) or resolve(*place.split(":", 1)) is not cls:
        raise CannotKey(Reason.FRAME_GUARD, f"isinstance of `{place}`, which decides it", "define it in a module")
    # As Dynamo asks.
    answer = type(cls).__instancecheck__(cls, value)
    if not isinstance(answer, (bool, int, str, type(None))):
        raise CannotKey(Reason.FRAME_GUARD, f"isinstance of `{place}`, which answers with a {type(answer).__name__}")
    return f"{CHECKED}{place} {answer!r}"


def _own(value: Any) -> dict[str, Any]:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def _of_class(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), _NOWHERE)
