"""Which keys a dictionary has, and in what order; and what is not there."""

from __future__ import annotations

import ast
import collections
import inspect
from collections.abc import Callable
from typing import Any

from ..torch_compat.kinds import is_a
from .encode import CannotKey
from .parts import digest

MARK = "keys "
"""What is said of a dictionary's keys starts so."""
LACKS = "lacks "
"""What is said of something that is not there starts so."""


def told(value: dict[Any, Any], constant: Callable[[Any], str]) -> str:
    """The keys of a dictionary, those that `constant` has no text for by their type alone."""
    listed = []
    for key in dict.keys(value):
        try:
            listed.append(constant(key))
        except CannotKey:
            listed.append(f"{type(key).__module__}.{type(key).__qualname__}")
    return f"{MARK}{digest(repr(listed).encode())}{order(value)}"


def order(value: Any) -> str:
    """In what order an ordered dictionary has its keys, if that is not the order in which they were added; else ""."""
    if not is_a(value, collections.OrderedDict):
        return ""
    places = {id(key): place for place, key in enumerate(dict.keys(value))}
    found = [places.get(id(key), -1) for key in collections.OrderedDict.keys(value)]
    return "" if found == sorted(found) else f" in order {digest(repr(found).encode())}"


def lacking(value: Any, what: str) -> str:
    """Whether something is there: `attribute NAME` of an object, told without running a property; `key TEXT` of a dictionary."""
    kind, _, name = what.partition(" ")
    if kind == "key":
        found = is_a(value, dict) and dict.__contains__(value, ast.literal_eval(name))
    else:
        found = inspect.getattr_static(value, name, inspect) is not inspect or hasattr(value, name)
    return f"{'has ' if found else LACKS}{what}"
