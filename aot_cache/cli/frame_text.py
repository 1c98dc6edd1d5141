"""What a stored frame compares and runs, for `aot-cache inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..artifact import frame_view
from ..artifact.envelope import Envelope
from ..errors import EnvelopeError
from ..store.readonly import ReadonlyStore
from . import report
from .entries import key_of


def describe(store: ReadonlyStore, opened: Envelope) -> dict[str, Any]:
    """Its guards, the code it runs, and its graphs, or the problem; with a graph `gone`, the frame is never a hit."""
    try:
        names = frame_view.graphs(opened.manifest)
        graphs = [{"key": key_of(name), "name": name, "gone": not any(store.entries(name))} for name in names]
        return {"graphs": graphs, "frame": frame_view.read(opened).to_json()}
    except EnvelopeError as error:
        return {"problem": str(error)}


def rows(one: dict[str, Any]) -> Iterator[report.Fact]:
    """What `describe` adds, flat."""
    for graph in one["graphs"]:
        if isinstance(graph, dict):
            yield "graph", graph["key"] + (" (gone)" if graph["gone"] else ""), "text"
    if frame := one.get("frame"):
        yield from report.bounded("code", frame["code"])
        guards = [f"{row['source'] or 'state'}  {row['kind']}  {row['fingerprint']}" for row in frame["guards"]]
        yield from report.bounded("guard", guards)
        unguarded = [f"{row['source']}  {row['fingerprint']}" for row in frame["unguarded"]]
        yield from report.bounded("unguarded", unguarded)
