"""The seam at which Dynamo hands a frame to its compile step, and what it says of a frame while it traces it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Protocol

import torch

from ..errors import HookMismatch
from . import frames_chance, frames_missing, frames_state, frames_switches
from .frames_trace import Inlined, Trace, current, traced, watch
from .late import AfterImport
from .patches import Patches

__all__ = ["MODULE", "PREFIX", "Call", "Inlined", "Seam", "Trace", "current", "join", "traced"]

MODULE = "torch._dynamo.convert_frame"
PREFIX = "f-"
"""Names of stored frames start so."""


@dataclass
class Call:
    """One call of Dynamo's compile step; `settings` are the arguments of torch.compile, None for other backends."""

    code: CodeType
    globals: dict[str, Any]
    locals: dict[str, Any]
    closure: Any
    full_graph: bool
    backend: Any
    settings: dict[str, Any] | None
    hooks: Any
    cache_entries: Any
    cache_size: Any
    compile_id: Any
    package: Any
    export: bool

    def scope(self) -> dict[str, Any]:
        return {"L": self.locals, "G": self.globals}

    def obstacle(self) -> str:
        """Why this call cannot be answered from a store; '' if it can."""
        if self.export or self.package is not None:
            return "torch.export or torch's own precompile compiles it"
        for name in ("guard_export_fn", "guard_fail_fn", "guard_filter_fn", "frame_traced_fn"):
            if getattr(self.hooks, name, None) is not None:
                return f"the hook {name} is set"
        return frames_state.active()


class Seam(Protocol):
    def compile(self, call: Call, compile_it: Callable[[], Any]) -> Any:
        """Dynamo's result for the frame: from a store, or what `compile_it()` returns."""


_ARGUMENTS = ("code", "globals", "locals", "closure", "compiler_fn", "one_graph", "export", "hooks", "cache_entries")
_ARGUMENTS += ("cache_size", "compile_id", "package")


def join(seam: Seam, patches: Patches, failed: Callable[[Exception], None]) -> AfterImport:
    """Put `seam` in place once Dynamo is imported; `failed` hears why if that cannot be done."""

    def act(module: Any) -> None:
        try:
            _patch(module, seam, patches)
        except Exception as error:  # torch's own import must not fail with ours
            patches.undo()
            failed(error)

    return AfterImport(MODULE, act)


def _patch(module: Any, seam: Seam, patches: Patches) -> None:
    signature = inspect.signature(module._compile)
    lacking = [name for name in _ARGUMENTS if name not in signature.parameters]
    if lacking:
        raise HookMismatch(f"torch {torch.__version__}: convert_frame._compile takes no {', '.join(lacking)}")

    def compile_(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return seam.compile(_call(given.arguments), lambda: original(*args, **kwargs))

    patches.wrap(module, "_compile", compile_)
    watch(patches)
    frames_missing.watch(patches)
    frames_chance.watch(patches)
    frames_switches.watch(patches)


def _call(given: dict[str, Any]) -> Call:
    return Call(
        code=given["code"],
        globals=given["globals"],
        locals=given["locals"],
        closure=given["closure"],
        full_graph=given["one_graph"],
        backend=given["compiler_fn"],
        settings=frames_state.backend_settings(given["compiler_fn"]),
        hooks=given["hooks"],
        cache_entries=given["cache_entries"],
        cache_size=given["cache_size"],
        compile_id=given["compile_id"],
        package=given["package"],
        export=given["export"],
    )
