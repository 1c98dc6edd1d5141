"""Where AOTAutograd traces a joint graph: a trace that was captured earlier can stand in for it.

Only graphs that are known to come back exactly are captured: of plain tensors of static sizes, without modules, tensors
or effects of their own; and a capture is used only where all that the trace is given is the same.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch.fx import GraphModule

from ..errors import NotSerializable
from . import collector, entries, joint_graphs, trace_facts
from .patches import Patches

_MODULE, _NAME = "torch._functorch._aot_autograd.graph_compile", "aot_dispatch_autograd_graph"
# Raise this whenever the same capture makes another graph.
_VERSION = 1


class Keeper(Protocol):
    """Where captures are kept; none of its verbs raises.

    ticket: what AOTAutograd's cache calls the graph. given: a digest of all that the trace is given.
    """

    def source(self, ticket: str) -> GraphModule | None:
        """The graph that is traced; None: nothing is known of it."""

    def find(self, ticket: str, given: str) -> bytes | None:
        """The capture of such a trace."""

    def used(self, ticket: str) -> None:
        """The one that was found stands in for the trace."""

    def refuse(self, ticket: str, error: Exception) -> None:
        """The one that was found cannot be used."""

    def keep(self, ticket: str, given: str, capture: bytes, seconds: float) -> None:
        """A new one, and how long the trace took."""

    def unkept(self, ticket: str, error: Exception) -> None:
        """A trace is of a kind that is not captured."""


_KEEPER: ContextVar[Keeper | None] = ContextVar("who keeps joint graphs", default=None)


@contextmanager
def captured(keeper: Keeper) -> Iterator[None]:
    """Have the joint graphs that this thread traces kept, and used again. Without effect on a torch that has no such seam."""
    module = importlib.import_module(_MODULE)
    patches = Patches()
    if hasattr(module, _NAME):
        patches.wrap(module, _NAME, _tracing)
    token = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(token)
        patches.undo()


def _tracing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    keeper = _KEEPER.get()
    call = _call(keeper, args, kwargs) if keeper else None
    if keeper is None or call is None:
        return original(*args, **kwargs)
    found = keeper.find(call.ticket, call.given)
    if found is not None:
        try:
            with collector.paused():
                replayed = call.replay(found)
        except Exception as error:  # whatever a capture does that is none
            keeper.refuse(call.ticket, error)
        else:
            keeper.used(call.ticket)
            return replayed
    token, started = _KEEPER.set(None), time.perf_counter()  # of nested contexts only the innermost acts
    try:
        traced = original(*args, **kwargs)
    finally:
        _KEEPER.reset(token)
    seconds = time.perf_counter() - started
    try:
        with collector.paused():
            capture = call.capture(traced)
    except Exception as error:  # whatever an object does that is not known
        keeper.unkept(call.ticket, error)
    else:
        keeper.keep(call.ticket, call.given, capture, seconds)
    return traced


def _call(keeper: Keeper, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    if len(args) != 4 or kwargs.keys() != {"fw_metadata"}:
        return None
    _, inputs, descriptors, config = args
    ticket = getattr(getattr(config, "cache_info", None), "cache_key", None)
    source = keeper.source(ticket) if isinstance(ticket, str) else None
    if source is None or not isinstance(ticket, str):
        return None
    try:
        return _Call(ticket, source, (inputs, descriptors, config, kwargs["fw_metadata"]))
    except Exception as error:  # whatever an object does that is not known
        keeper.unkept(ticket, error)
        return None


class _Call:
    """One trace that is asked for, and what it is given."""

    def __init__(self, ticket: str, source: GraphModule, given: tuple[Any, Any, Any, Any]) -> None:
        """Raises NotSerializable: it is of no kind that is captured."""
        self.ticket, self._source, self._given = ticket, source, given
        inputs, descriptors, _, self._metadata = given
        self._facts = trace_facts.given(*given)
        self.given = hashlib.blake2b(json.dumps([_VERSION, self._facts]).encode(), digest_size=16).hexdigest()
        self._fake_mode = torch._guards.detect_fake_mode(inputs)
        # As AOTAutograd hands them on; made before the trace, which may change what is known of its inputs.
        both = (inputs, self._metadata.traced_tangents)
        self._inputs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, both)
        self._descriptors = (descriptors, self._metadata.traced_tangents_descs)
        self._surroundings = self._look_around()

    def _look_around(self) -> Any:
        """What else a trace could change."""
        return entries.shape_facts(), entries.alias_guard_count()

    def capture(self, traced: Any) -> bytes:
        """What `replay` needs to return the same as the trace did.

        Raises:
            NotSerializable: that is not known to come back exactly.
        """
        joint, inputs, descriptors, subclasses = traced
        described = trace_facts.described
        if subclasses is not None or self._look_around() != self._surroundings:
            raise NotSerializable("a trace unwraps subclasses, or adds guards")
        if described(inputs) != described(self._inputs) or described(descriptors) != described(self._descriptors):
            raise NotSerializable("a trace changes its inputs")
        before, after = self._facts["metadata"], trace_facts.fields(self._metadata)
        changed = [name for name in after if name not in before or after[name] != before[name]]
        notes = {name: getattr(self._metadata, name) for name in changed}
        plain = {"joint": joint_graphs.take(joint, self._source), "notes": notes}
        text = json.dumps(plain, separators=(",", ":"))
        if json.loads(text)["notes"] != notes:
            raise NotSerializable(f"a trace notes {', '.join(changed)}")
        return text.encode()

    def replay(self, capture: bytes) -> Any:
        """What the trace would have returned; raises whatever a damaged capture makes it raise, and has done nothing."""
        plain = json.loads(capture)
        joint = joint_graphs.rebuild(plain["joint"], self._source, self._fake_mode)
        vars(self._metadata).update(plain["notes"])
        return joint, self._inputs, self._descriptors, None
