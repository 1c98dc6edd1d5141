"""When this process compiles, and what it compiles without AOTAutograd's cache ever being asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from . import moments
from .late import AfterImport
from .patches import Patches


_CALLBACKS = "torch._dynamo.callback"
BUNDLED = 1
"""What the hook makes the default of `bundled_autograd_cache`: as good as True, and no bool."""


class CompileWatch:
    """Calls `start(is_backward)` and `end()` around every compile of torch.compile, lazily compiled backwards included."""

    def __init__(self, start: Callable[[bool], None], end: Callable[[], None]) -> None:
        self._start, self._end = start, end

    def attach(self) -> None:
        """Register with Dynamo; again and again is fine, since torch._dynamo.reset() forgets callbacks."""
        from torch._dynamo.callback import callback_handler

        if self._on_start not in callback_handler.start_callbacks:
            callback_handler.register_start_callback(self._on_start)
        if self._on_end not in callback_handler.end_callbacks:
            callback_handler.register_end_callback(self._on_end)

    def detach(self) -> None:
        if _CALLBACKS not in sys.modules:
            return
        from torch._dynamo.callback import callback_handler

        if self._on_start in callback_handler.start_callbacks:
            callback_handler.remove_start_callback(self._on_start)
        if self._on_end in callback_handler.end_callbacks:
            callback_handler.remove_end_callback(self._on_end)

    def _on_start(self, args: Any) -> None:
        self._start(args.callback_trigger.name == "LAZY_BACKWARD")

    def _on_end(self, args: Any) -> None:
        self._end()


def watch_backends(patches: Patches, around: Callable[[str, Callable[[], Any]], Any]) -> AfterImport:
    """Have every call of a backend by Dynamo go through `around(name of the backend, call)`."""

    def call_user_compiler(original: Callable[..., Any], output_graph: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return moments.handing(lambda: original(output_graph, *args, **kwargs))

        return around(_name(output_graph.compiler_fn), call)

    def patch(module: Any) -> None:
        patches.wrap(module.OutputGraph, "call_user_compiler", call_user_compiler)

    return AfterImport("torch._dynamo.output_graph", patch)


def _name(backend: Any) -> str:
    while (inner := getattr(backend, "_torchdynamo_orig_backend", None)) is not None:
        backend = inner
    name = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", None)
    return str(name or type(backend).__qualname__)


def caching_is_off() -> str:
    """Which of torch's switches turns AOTAutograd's cache off; '' if none does."""
    import torch._functorch.config as functorch
    import torch.compiler.config as shared

    if shared.force_disable_caches:
        return "torch.compiler.config.force_disable_caches (TORCHINDUCTOR_FORCE_DISABLE_CACHES)"
    if not functorch.enable_autograd_cache:
        return "torch._functorch.config.enable_autograd_cache (TORCHINDUCTOR_AUTOGRAD_CACHE)"
    return torchs_own_protocol()


def torchs_own_protocol() -> str:
    """Which setting says that the result is to go another way than our store; '' if none does.

    torch's precompile, ahead-of-time and standalone modes hand the result of AOTAutograd's cache to their caller.
    """
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch

    if getattr(dynamo, "caching_precompile", False):
        return "torch._dynamo.config.caching_precompile"
    if getattr(functorch, "bypass_autograd_cache_key", False):
        return "torch._functorch.config.bypass_autograd_cache_key"
    # The hook makes the default BUNDLED. Whoever sets a bool wants that; what patches put back afterwards is the default.
    override = functorch._config["bundled_autograd_cache"].user_override
    override = override.get() if isinstance(override, ContextVar) else override
    return "torch._functorch.config.bundled_autograd_cache" if isinstance(override, bool) else ""


def untraced(call: Callable[[], Any]) -> Any:
    """`call()`, of which Dynamo traces nothing."""
    from torch._C._dynamo.eval_frame import set_eval_frame

    before = set_eval_frame(None)
    try:
        return call()
    finally:
        set_eval_frame(before)
