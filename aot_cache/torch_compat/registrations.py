"""Kernels and rules that Python code registers for operators: noted as they come, since torch keeps no list of them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OperatorBase

from .patches import Patches


@dataclass(frozen=True, eq=False)
class Kernel:
    """`function` runs for the operator `name` (with overload) under `key`, a dispatch key, mode or subclass."""

    name: str
    key: Any
    function: Callable[..., Any]
    by_torch: bool
    library: weakref.ref[Any] | None = None

    @property
    def is_live(self) -> bool:
        if self.library is None:
            return True
        library = self.library()
        return library is not None and library.m is not None


_kernels: dict[str, list[Kernel]] = {}
_fallbacks: list[Kernel] = []
_early: Patches | None = None
_complete = False


def start_early() -> None:
    """Note registrations from now on; called at the end of `import torch`, before any of the user's."""
    global _early, _complete
    if _early is None:
        _early = Patches()
        _wrap(_early)
        _complete = True


def stop_early() -> None:
    global _early, _complete
    if _early is not None:
        _early.undo()
        _early, _complete = None, False


def watch(patches: Patches) -> None:
    """Note registrations for as long as `patches` last, without a gap after `start_early`."""
    global _early
    if _early is not None:
        _early.undo()
        _early = None
    _wrap(patches)
    patches.on_undo(_forget)


def is_complete() -> bool:
    """Whether everything was seen that was registered after torch's own import."""
    return _complete


def of(name: str) -> dict[Any, Kernel]:
    """Live registrations by key, for an operator's full name (`mylib::foo`, `aten::add.Tensor`)."""
    return {kernel.key: kernel for kernel in _kernels.get(name, ()) if kernel.is_live}


def fallbacks() -> dict[str, Kernel]:
    """What user code runs for all operators under a dispatch key."""
    return {kernel.key: kernel for kernel in _fallbacks if kernel.is_live and not kernel.by_torch}


def users() -> dict[str, dict[Any, Kernel]]:
    """Operators for which code outside torch registered something."""
    found = {name: {k: v for k, v in of(name).items() if not v.by_torch} for name in list(_kernels)}
    return {name: kernels for name, kernels in found.items() if kernels}


def _forget() -> None:
    global _complete
    _complete = False


def _wrap(patches: Patches) -> None:
    def impl(original: Callable[..., Any], library: Any, op: Any, fn: Any, key: str = "", **kwargs: Any) -> Any:
        result = original(library, op, fn, key, **kwargs)
        name = library._resolve_op_name(op, "impl").rsplit("::", 1)[-1]
        key = key or library.dispatch_key or "CompositeImplicitAutograd"
        _note(_kernels.setdefault(f"{library.ns}::{name}", []), f"{library.ns}::{name}", key, fn, library)
        return result

    def fallback(original: Callable[..., Any], library: Any, fn: Any, key: str = "", **kwargs: Any) -> Any:
        result = original(library, fn, key, **kwargs)
        _note(_fallbacks, "_", key or library.dispatch_key, fn, library)
        return result

    def py_impl(original: Callable[..., Any], op: Any, key: Any) -> Any:
        register, by_torch = original(op, key), _is_torch_calling()

        def note(fn: Any) -> Any:
            result = register(fn)
            if not by_torch:
                _kernels.setdefault(str(op), []).append(Kernel(str(op), key, fn, by_torch))
            return result

        return note

    patches.wrap(torch.library.Library, "impl", impl)
    patches.wrap(torch.library.Library, "fallback", fallback)
    patches.wrap(OperatorBase, "py_impl", py_impl)


def _note(notes: list[Kernel], name: str, key: Any, fn: Any, library: Any) -> None:
    notes[:] = [kernel for kernel in notes if kernel.is_live]
    notes.append(Kernel(name, key, fn, _is_torch_calling(), weakref.ref(library)))


_THROUGH = ("torch.library", "functools", __name__, Patches.__module__)


def _is_torch_calling() -> bool:
    """Whether the first caller beyond the registration functions themselves lies in torch."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module not in _THROUGH and not module.startswith("torch._library."):
            return module.startswith("torch.")
        frame = frame.f_back  # type: ignore[assignment]
    return False
