"""Frames that wait for their graphs to be stored; the last one's publication publishes the frame."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..artifact import envelope
from ..artifact import frame as artifact
from ..errors import NotSerializable
from ..key import parts
from ..key.encode import CannotKey
from ..key.fingerprint_places import frame_name
from ..key.state import facts
from ..outcome import Reason
from ..torch_compat import frames, frames_install
from . import frames_record
from .graphs import GraphCache


@dataclass
class Draft:
    """A frame that will be published as soon as all its graphs are in the store."""

    key: parts.CacheKey
    frame: artifact.Frame
    name: str
    seconds: float
    waiting: dict[str, str]
    """Globals whose graph is not stored yet, with the key that it will be stored under."""


class Drafts:
    """The frames of one process that are not published yet. failed(name, started, error) hears of what was not."""

    def __init__(self, graphs: GraphCache, failed: Callable[[str, float, Exception], None]) -> None:
        self._graphs, self._fail = graphs, failed
        self._drafts: list[Draft] = []
        self._stored: dict[str, str | None] = {}
        # A backward may be compiled, and so its frame be published, in a thread of autograd's.
        self._mutex = threading.RLock()

    def of(
        self,
        key: parts.CacheKey,
        call: frames.Call,
        trace: frames.Trace,
        result: Any,
        added: frozenset[str],
        seconds: float,
    ) -> Draft:
        """A frame that was traced, as it will be stored.

        Raises:
            CannotKey: it cannot be; says why.
        """
        if frames_install.guarded_code(result) is None:
            raise CannotKey(Reason.FRAME_SKIPPED, str(getattr(result, "skip_reason", "")))
        frame = frames_record.record(call, trace, result, added)
        try:
            artifact.dump_code(frame.result)
        except NotSerializable as error:
            raise CannotKey(Reason.FRAME_GLOBAL, str(error)) from None
        waiting = {}
        for name in frame.result.graphs:
            graph = trace.graphs.get(name)
            if graph is None:
                raise CannotKey(Reason.FRAME_GRAPH, name)
            stored = graph.stored or self._stored.get(graph.key)
            if stored:
                frame.graphs[name] = stored
            elif graph.key in self._stored:
                raise CannotKey(Reason.FRAME_GRAPH, f"{graph.key} was not stored")
            else:
                waiting[name] = graph.key
        return Draft(key, frame, frame_name(call), seconds, waiting)

    def add(self, draft: Draft) -> None:
        with self._mutex:
            self._drafts.append(draft)
            self._publish_complete()

    def published(self, key: str, name: str | None) -> None:
        """The graph with this key was stored under `name`; None: it never will be."""
        with self._mutex:
            self._stored[key] = name
            for draft in list(self._drafts):
                for place in [place for place, wanted in draft.waiting.items() if wanted == key]:
                    if name is None:
                        self._drafts.remove(draft)
                        break
                    draft.frame.graphs[place] = name
                    del draft.waiting[place]
            self._publish_complete()

    def _publish_complete(self) -> None:
        for draft in [draft for draft in self._drafts if not draft.waiting]:
            self._drafts.remove(draft)
            if not self._graphs.writable:
                continue
            started, name = time.perf_counter(), frames.PREFIX + draft.key.digest
            try:
                manifest = envelope.Manifest(
                    key=draft.key.digest,
                    parts=draft.key.parts,
                    name=draft.name,
                    kind="frame",
                    guards=None,
                    created=time.time(),
                    seconds={"trace": draft.seconds},
                    facts=facts(),
                    extra={"graphs": sorted(draft.frame.graphs.values()), "guards": len(draft.frame.prints)},
                )
                sections = artifact.dump(draft.frame)
                variant = parts.digest(b"".join(sections.values()))[:16]
                self._graphs.store.put(f"{name}.{variant}", envelope.pack(manifest, sections))
            except Exception as error:
                self._fail(name, started, error)
