"""Reversible replacement of attributes: what was patched is listed, and goes back exactly as it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .kinds import is_a

_ABSENT = object()


def original_of(value: Any) -> Any:
    """What one of our own replacements stands in for; None for anything else."""
    ours = is_a(value, FunctionType) and value.__globals__ is globals()
    return getattr(value, "__wrapped__", None) if ours else None


class Patches:
    """Replaced attributes, restored in reverse order by `undo`."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []
        self._afterwards: list[Callable[[], None]] = []

    def on_undo(self, action: Callable[[], None]) -> None:
        """Call `action` after everything was put back."""
        self._afterwards.append(action)

    @property
    def names(self) -> list[str]:
        return [f"{getattr(owner, '__name__', owner)}.{name}" for owner, name, _, _ in self._done]

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`; for a class, static methods are put back as static methods."""
        old = inspect.getattr_static(owner, name, _ABSENT) if is_a(owner, type) else getattr(owner, name, _ABSENT)
        setattr(owner, name, value)
        self._done.append((owner, name, old, value))

    def wrap_static(self, owner: type, name: str, around: Callable[..., Any]) -> None:
        """Replace a static method by `around(original, *args, **kwargs)`."""
        original = getattr(owner, name)

        def replacement(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        replacement.__name__ = name
        self.set(owner, name, staticmethod(replacement))

    def wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Replace a module's function, or a method, by `around(original, *args, **kwargs)`."""
        original = getattr(owner, name)

        def replacement(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        replacement.__name__, replacement.__wrapped__ = name, original  # type: ignore[attr-defined]
        self.set(owner, name, replacement)

    def undo(self) -> list[str]:
        """Put everything back; returns the names that somebody else replaced meanwhile, which are left alone."""
        foreign = []
        while self._done:
            owner, name, old, ours = self._done.pop()
            now = inspect.getattr_static(owner, name, _ABSENT) if is_a(owner, type) else getattr(owner, name, _ABSENT)
            if now is not ours and now != ours:
                foreign.append(f"{getattr(owner, '__name__', owner)}.{name}")
            elif old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        while self._afterwards:
            self._afterwards.pop()()
        return foreign
