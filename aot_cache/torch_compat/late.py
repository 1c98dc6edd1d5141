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
        if (module := sys.modules.get(name)) is not None:
            action(module)
        else:
            sys.meta_path.insert(0, self)

    def cancel(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.cancel()
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute, act = spec.loader.exec_module, self._action

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            act(module)

        spec.loader.exec_module = execute_then_act  # type: ignore[method-assign]
        return spec


class BeforeImport(MetaPathFinder):
    """Calls `action()` once, when any of `names` is about to be imported, or now if one was."""

    def __init__(self, names: Sequence[str], action: Callable[[], None]) -> None:
        self._names, self._action = frozenset(names), action
        if self._names & sys.modules.keys():
            action()
        else:
            sys.meta_path.insert(0, self)

    def cancel(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self._names and self in sys.meta_path:
            self.cancel()
            self._action()
        return None
