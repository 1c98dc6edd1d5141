"""Between AOTAutograd and the graph cache: tells the frame cache which stored graph belongs to which frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..torch_compat import aot, frames, targets
from .graphs import GraphCache


@dataclass(frozen=True)
class FrameGraph:
    """A graph of the frame that is being traced: the key that it will be stored under, and its name once it is."""

    key: str
    stored: str | None


class Watched:
    """The graph cache as the seam sees it, with every graph noted at the frame that it belongs to."""

    def __init__(self, graphs: GraphCache, published: Callable[[str, str | None], None]) -> None:
        self._graphs, self._published = graphs, published
        self.begin, self.end, self.adopt = graphs.begin, graphs.end, graphs.adopt

    def key(self, request: aot.Request) -> str | None:
        trace, key = frames.current(), self._graphs.key(request)
        if trace is not None:
            request.notes["frame"] = trace
            request.notes["global"] = getattr(request.graph, "meta", {}).get("backend_id")
            if doubt := _doubt(request):
                trace.doubts.append(doubt)
            trace.called += [target for target in _called(request) if target not in trace.called]
        return key

    def load(self, key: str, request: aot.Request) -> aot.Loaded | None:
        loaded = self._graphs.load(key, request)
        trace, name = request.notes.get("frame"), request.notes.get("global")
        if trace is not None and name is not None:
            trace.graphs[name] = FrameGraph(key, request.notes.get("entry") if loaded else None)
        return loaded

    def save(self, key: str, entry: Any, notes: Mapping[str, Any]) -> str | None:
        name = self._graphs.save(key, entry, notes)
        self._published(key, name)
        return name

    def unserializable(self, error: Exception) -> None:
        self._graphs.unserializable(error)


def _doubt(request: aot.Request) -> str:
    """Why the frame's guards and settings do not decide this graph's key; '' if they do."""
    if request.flags.get("num_params_buffers"):
        return "its graph holds parameters or buffers of its own"
    if request.notes["global"] is None:
        return "one of its graphs has no name"
    for module in request.graph.modules():
        # What AOTAutograd calls, as the policy of a checkpoint, Dynamo neither inlines nor guards.
        for value in getattr(module, "meta", {}).values():
            if callable(value):
                return f"its graph holds {getattr(value, '__qualname__', value)}, which is called when it is compiled"
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.op in ("call_module",):
                return f"its graph calls module {node.target}"
    return ""


def _called(request: aot.Request) -> Iterator[Any]:
    """Code of others that the graph calls as it is."""
    for module in request.graph.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.op == "call_function" and _is_foreign(node.target):
                yield node.target


def _is_foreign(target: Any) -> bool:
    kind = targets.kind(target)
    if kind is targets.Kind.HIGHER_ORDER:
        return not type(target).__module__.startswith("torch.")
    return kind in (targets.Kind.OTHER, targets.Kind.CUSTOM_OP)
