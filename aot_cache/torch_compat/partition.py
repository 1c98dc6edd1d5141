"""Where AOTAutograd cuts a joint graph into a forward and a backward, and has compiled neither."""

from __future__ import annotations

import copy
import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from ..errors import HookMismatch, OffloadError, TransferError
from .patches import Patches

_MODULE, _NAME = "torch._functorch._aot_autograd.graph_compile", "_partition_joint_graph_into_fw_bw"
Halves = tuple[GraphModule, GraphModule, int]
"""A forward, a backward, and how many of the forward's outputs are not saved for the backward; they come first."""


@dataclass(frozen=True)
class Joint:
    """A joint graph that is about to be cut.

    cut: cuts a copy, with a share of the activations kept (torch's activation_memory_budget; None: as configured).
    knob: the configured share. repeatable: whether `cut` can be called more than once.
    fuses: whether the graphs go to Inductor.
    """

    module: GraphModule
    cut: Callable[[float | None], Halves]
    knob: float
    repeatable: bool
    fuses: bool


Cutter = Callable[[Joint], Halves]
Rewrite = Callable[[GraphModule, GraphModule, int], tuple[GraphModule, GraphModule]]
_CUT = "aot_cache.cut"
_CUTTER: ContextVar[Cutter | None] = ContextVar("who cuts joint graphs", default=None)


@contextmanager
def wrapped(rewrite: Rewrite) -> Iterator[None]:
    """Compile what `rewrite(forward, backward, outputs)` makes of each pair; else as `cutting`, without any cache."""

    def cutter(joint: Joint) -> Halves:
        forward, backward, outputs = joint.cut(None)
        return *rewrite(forward, backward, outputs), outputs

    with cutting(cutter, cached=False):
        yield


def require() -> Any:
    """The module of torch that cuts joint graphs, imported with its compiler.

    Raises:
        HookMismatch: this torch cuts graphs somewhere else.
    """
    importlib.import_module("torch._dynamo")
    module = importlib.import_module(_MODULE)
    if not hasattr(module, _NAME):
        raise HookMismatch(f"{_MODULE} has no {_NAME}: offload schedules do not work with this torch")
    return module


@contextmanager
def cutting(cutter: Cutter, cached: bool) -> Iterator[None]:
    """Have `cutter` cut each joint graph, under any backend built on AOTAutograd.

    The partitioner is whichever the backend uses. Concerns what this thread compiles; backwards that are compiled later
    are included. An OffloadError of `cutter` reaches the caller of the compiled function as what it is. AOTAutograd's
    cache is off meanwhile unless `cached`: the keys of torch's own know nothing of `cutter`.

    Raises:
        HookMismatch: this torch cuts graphs somewhere else.
    """
    from torch._functorch import config

    module = require()
    patches = Patches()
    patches.wrap(module, _NAME, _cutting)
    token = _CUTTER.set(cutter)
    try:
        with config.patch({} if cached else {"enable_autograd_cache": False}):
            yield
    finally:
        _CUTTER.reset(token)
        patches.undo()


def _cutting(
    original: Callable[..., Any], joint: GraphModule, inputs: Any, inner: Any, metadata: Any, *rest: Any
) -> Any:
    cutter = _CUTTER.get()
    if cutter is None:  # of nested contexts only the innermost acts
        return original(joint, inputs, inner, metadata, *rest)
    from torch._functorch import config

    repeatable = not any(isinstance(child, GraphModule) for child in joint.children())
    noted: list[dict[str, Any]] = []

    def cut(knob: float | None) -> Halves:
        told = copy.copy(metadata)
        with config.patch({} if knob is None else {"activation_memory_budget": knob}):
            halves: Halves = original(_copy(joint) if repeatable else joint, inputs, inner, told, *rest)
        halves[0].meta[_CUT] = len(noted)
        noted.append(vars(told))
        return halves

    token = _CUTTER.set(None)
    try:
        halves = cutter(Joint(joint, cut, config.activation_memory_budget, repeatable, _is_inductor(rest[-1])))
    except (OffloadError, TransferError) as error:
        raise _for_the_caller(error) from None
    finally:
        _CUTTER.reset(token)
    # What the partitioner notes of a cut, of the one that was chosen.
    vars(metadata).update(noted[halves[0].meta.pop(_CUT)])
    return halves


def _is_inductor(partitioner: Any) -> bool:
    while isinstance(partitioner, functools.partial):
        partitioner = partitioner.func
    return str(getattr(partitioner, "__module__", "")).startswith("torch._inductor")


def _copy(module: GraphModule) -> GraphModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch about its own tree specs
        copied = GraphModule(module, copy.deepcopy(module.graph), module.__class__.__name__)
    copied.meta = dict(module.meta)
    return copied


def _for_the_caller(error: Exception) -> Exception:
    """The same error as one of those that Dynamo raises as they are; any other it would wrap, or hide."""
    from torch._dynamo.exc import ShortenTraceback

    kind = type(type(error).__name__, (type(error), ShortenTraceback), {"__module__": type(error).__module__})
    raised = kind.__new__(kind, *error.args)
    raised.args = error.args
    vars(raised).update(vars(error), first_useful_frame=None)
    return raised
