"""Act right before or right after a module is imported, without importing it; its import pauses the collector."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import collector

COMPILER = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd.autograd_cache",
    "torch._inductor",
)
"""One of these is imported before anything is compiled."""
HEAVY = ("torch._dynamo", "torch._dynamo.repro.after_dynamo")
"""What a call of torch.compile imports; the second brings AOTAutograd's modules."""


class AfterImport(MetaPathFinder):
    """Calls `action(module)` once, when `name` is first imported, or now if it was.

    A failing action must handle its own errors: an exception here would break the user's import.
    """

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name, self._action = name, action
        self._asking: set[int] = set()
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

    def _act(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            self.cancel()
            self._action(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Somebody may only ask whether the module exists, so this stays until it is executed.
        return _found(fullname, self._asking, after=self._act) if fullname == self._name else None


class BeforeImport(MetaPathFinder):
    """Calls `action()` once, right before any of `names` is first executed, or now if one was."""

    def __init__(self, names: Sequence[str], action: Callable[[], None]) -> None:
        self._names, self._action = frozenset(names), action
        self._asking: set[int] = set()
        if self._names & sys.modules.keys():
            action()
        else:
            sys.meta_path.insert(0, self)

    def cancel(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _act(self) -> None:
        if self in sys.meta_path:
            self.cancel()
            self._action()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Not here: the interpreter holds its one import lock, and the action imports what another thread may be importing.
        return _found(fullname, self._asking, before=self._act) if fullname in self._names else None


def without_collections(name: str) -> AfterImport:
    """Have the module imported with the collector paused, as every one is that something here waits for."""
    return AfterImport(name, lambda module: None)


def _found(fullname: str, asking: set[int], **around: Callable[..., None]) -> ModuleSpec | None:
    """The spec that the other finders give, with something done when it is executed."""
    thread = threading.get_ident()
    if thread in asking:
        return None
    asking.add(thread)
    try:
        return _execute_around(importlib.util.find_spec(fullname), **around)
    finally:
        asking.discard(thread)


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
        with collector.paused():
            before()
            # `before` may have put another one around it.
            loader.exec_module(module)
        after(module)

    loader.exec_module = execute_with_both  # type: ignore[method-assign]
    return spec
