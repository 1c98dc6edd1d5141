"""Where AOTAutograd has cut a joint graph into a forward and a backward, and has compiled neither."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx import GraphModule

from ..errors import HookMismatch
from .patches import Patches

_MODULE, _NAME = "torch._functorch._aot_autograd.graph_compile", "_partition_joint_graph_into_fw_bw"
Rewrite = Callable[[GraphModule, GraphModule, int], tuple[GraphModule, GraphModule]]


@contextmanager
def wrapped(rewrite: Rewrite) -> Iterator[None]:
    """Compile what `rewrite(forward, backward, outputs)` makes of each pair, under any backend built on AOTAutograd.

    outputs: how many of the forward's outputs are not saved for the backward; they come first. The partitioner is
    whichever the backend uses. For all threads. Raises HookMismatch: this torch cuts graphs somewhere else.
    """
    patches = Patches()

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[GraphModule, GraphModule, int]:
        forward, backward, outputs = original(*args, **kwargs)
        return *rewrite(forward, backward, outputs), outputs

    module = importlib.import_module(_MODULE)
    if not hasattr(module, _NAME):
        raise HookMismatch(f"{_MODULE} has no {_NAME}: offload schedules do not work with this torch")
    patches.wrap(module, _NAME, around)
    try:
        yield
    finally:
        patches.undo()
