"""Where AOTAutograd has cut a joint graph into a forward and a backward, and has compiled neither."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch.fx import GraphModule

from ..errors import HookMismatch
from .patches import Patches

_MODULE, _NAME = "torch._functorch._aot_autograd.graph_compile", "_partition_joint_graph_into_fw_bw"
Rewrite = Callable[[GraphModule, GraphModule, int], tuple[GraphModule, GraphModule]]
_REWRITE: ContextVar[Rewrite | None] = ContextVar("what becomes of a forward and a backward", default=None)


@contextmanager
def wrapped(rewrite: Rewrite) -> Iterator[None]:
    """Compile what `rewrite(forward, backward, outputs)` makes of each pair, under any backend built on AOTAutograd.

    outputs: how many of the forward's outputs are not saved for the backward; they come first. The partitioner is
    whichever the backend uses. Concerns what this thread compiles; backwards that are compiled later are included.
    AOTAutograd's cache is off meanwhile: its keys know nothing of `rewrite`.

    Raises:
        HookMismatch: this torch cuts graphs somewhere else.
    """
    from torch._functorch import config

    module = importlib.import_module(_MODULE)
    if not hasattr(module, _NAME):
        raise HookMismatch(f"{_MODULE} has no {_NAME}: offload schedules do not work with this torch")
    patches = Patches()
    patches.wrap(module, _NAME, _rewriting)
    token = _REWRITE.set(rewrite)
    try:
        with config.patch(enable_autograd_cache=False):
            yield
    finally:
        _REWRITE.reset(token)
        patches.undo()


def _rewriting(original: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[GraphModule, GraphModule, int]:
    forward, backward, outputs = original(*args, **kwargs)
    # Of nested contexts only the innermost acts, and only once.
    if (rewrite := _REWRITE.get()) is not None and not forward.meta.get("aot_cache.rewritten"):
        forward, backward = rewrite(forward, backward, outputs)
        forward.meta["aot_cache.rewritten"] = True
    return forward, backward, outputs
