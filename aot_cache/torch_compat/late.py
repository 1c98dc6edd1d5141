"""Act right before or right after a module is imported, without importing it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

COMPILER = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd.autograd_cache",
    "torch._inductor",
)
"""One of these is imported before anything is compiled."""


class AfterImport(MetaPathFinder):
    """Calls `action(module)` once, when `name` is first imported, or now if it was.

    A failing action must handle its own errors: an exception here would break the user's import.
    """

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name, self._action = name, action
        module = sys.modules.get(name)
        if module is None:
            sys.meta_path.insert(0, self)
        elif getattr(module.__spec__, "_initializing", False):
            # It is found, but not executed: its import is what brought us here.
            _execute_around(module.__spec__, after=action)
        else:
            action(module)

    def cancel(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.cancel()
        return _execute_around(importlib.util.find_spec(fullname), after=self._action)


class BeforeImport(MetaPathFinder):
    """Calls `action()` once, right before any of `names` is first executed, or now if one was."""

    def __init__(self, names: Sequence[str], action: Callable[[], None]) -> None:
        self._names, self._action, self._cancelled = frozenset(names), action, False
        if self._names & sys.modules.keys():
            action()
        else:
            sys.meta_path.insert(0, self)

    def cancel(self) -> None:
        self._cancelled = True
        self._leave()

    def _leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _act(self) -> None:
        if not self._cancelled:
            self._action()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names or self not in sys.meta_path:
            return None
        self._leave()
        # Not here: the interpreter holds its one import lock, and the action imports what another thread may be importing.
        return _execute_around(importlib.util.find_spec(fullname), before=self._act)


def _execute_around(
    spec: ModuleSpec | None,
    before: Callable[[], None] = lambda: None,
    after: Callable[[ModuleType], None] = lambda module: None,
) -> ModuleSpec | None:
    """`spec`, whose loader calls `before`, then executes the module as it would then, then calls `after`."""
    if spec is None or spec.loader is None:
        return spec
    loader, execute = spec.loader, spec.loader.exec_module

    def execute_with_both(module: ModuleType) -> None:
        loader.exec_module = execute  # type: ignore[method-assign]
        before()
        # `before` may have put another one around it.
        loader.exec_module(module)
        after(module)

    loader.exec_module = execute_with_both  # type: ignore[method-assign]
    return spec
