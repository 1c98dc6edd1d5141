"""What an object is, whatever it says of itself."""

from __future__ import annotations


def is_a(value: object, cls: type | tuple[type, ...]) -> bool:
    """isinstance by the real type: a proxy that claims to be a function is none, and its `__class__` does not run."""
    return issubclass(type(value), cls)
