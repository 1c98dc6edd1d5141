"""The frame cache: a frame whose guards see what they saw before runs what Dynamo made of it then, untraced.

Order on a start: the frame's fingerprints agree -> its graphs are loaded by name from the graph cache's entries -> its
bytecode runs. Any doubt falls to Dynamo, and from there to the graph cache. A graph that is loaded for a frame counts
with the frame: `graph_hit` counts only graphs that Dynamo asked for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..artifact import codec, envelope, native
from ..artifact import frame as artifact
from ..errors import AotCacheError, NotSerializable
from ..key import parts
from ..key.encode import CannotKey
from ..key.fingerprint_key import frame_key
from ..key.state import facts
from ..outcome import Bypass, Failed, Hit, Ledger, Miss, Outcome, Reason
from ..settings import Settings
from ..store.readonly import ReadonlyStore
from ..torch_compat import entries, frames, frames_install, frames_state, kernels, light
from . import frames_record
from .graphs import GraphCache

log = logging.getLogger("aot_cache")
# Entries of one frame that a look-up compares; edits leave old ones behind until they are evicted.
_MOST_ENTRIES = 32
Named = tuple[str, tuple[parts.KeyPart, ...]]
"""A frame's name and its key's parts, as far as they are known."""


@dataclass
class Draft:
    """A frame that will be published as soon as all its graphs are in the store."""

    key: parts.CacheKey
    frame: artifact.Frame
    name: str
    seconds: float
    waiting: dict[str, str]
    """Globals whose graph is not stored yet, with the key that it will be stored under."""


class FrameCache:
    """Answers Dynamo's compile step; `graphs` is where the frames' graphs are."""

    def __init__(self, settings: Settings, graphs: GraphCache, ledger: Ledger) -> None:
        self._settings, self._graphs, self._ledger = settings, graphs, ledger
        # Comparing is no use of an entry.
        self._looking = ReadonlyStore(settings.directory)
        self._drafts: list[Draft] = []
        self._added: dict[int, set[str]] = {}
        self._stored: dict[str, str | None] = {}
        self._verifier: Any = None
        if settings.verify:
            from .frames_verify import FrameVerifier

            self._verifier = FrameVerifier(settings, ledger, self._end)
        # A backward may be compiled, and so its frame be published, in a thread of autograd's.
        self._mutex = threading.RLock()

    # -- the seam ------------------------------------------------------------------------------------------------------

    def compile(self, call: frames.Call, compile_it: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        try:
            if obstacle := call.obstacle():
                raise CannotKey(Reason.FRAME_STATE, obstacle)
            key = frame_key(call)
        except CannotKey as error:
            self._end(Bypass, None, started, error.reason, error.detail, error.remedy, of=(call.code.co_name, ()))
            return compile_it()
        except Exception as error:
            self._fail(None, started, error)
            self._end(Bypass, None, started, Reason.INTERNAL, repr(error))
            return compile_it()
        name = frames.PREFIX + key.digest
        try:
            found, reason, detail = self._look_up(name, key, call, started)
        except frames_record.Picked as picked:
            store = self._graphs.store if self._graphs.writable else None
            return self._verifier.settle(picked, name, call, lambda: self._traced(call, compile_it), store)
        if found is not None:
            return found
        return self._compile(name, key, call, compile_it, reason, detail)

    def _compile(
        self,
        name: str,
        key: parts.CacheKey,
        call: frames.Call,
        compile_it: Callable[[], Any],
        reason: Reason,
        detail: str,
    ) -> Any:
        started, of = time.perf_counter(), (call.code.co_name, key.parts)
        try:
            result, trace, added = self._traced(call, compile_it)
        except Exception as error:
            if why := frames_record.gave_up(error):
                self._end(Bypass, name, started, Reason.FRAME_SKIPPED, why, of=(of[0], ()))
            else:
                self._end(Miss, name, started, reason, detail, of=of)
            raise
        seconds = time.perf_counter() - started - trace.backend_seconds
        try:
            draft = self._draft(key, call, trace, result, added, seconds)
        except CannotKey as error:
            self._end(Bypass, name, started, error.reason, error.detail, error.remedy, of=(of[0], ()))
        except Exception as error:
            self._fail(name, started, error)
            self._end(Bypass, name, started, Reason.INTERNAL, repr(error))
        else:
            self._end(Miss, name, started, reason, detail, of=of)
            with self._mutex:
                self._drafts.append(draft)
                self._publish_complete()
        return result

    def _traced(self, call: frames.Call, compile_it: Callable[[], Any]) -> tuple[Any, frames.Trace, frozenset[str]]:
        """Dynamo's result, what it did, and the globals that compiles of this process added to those of the frame."""
        before = frozenset(call.globals)
        result, trace = frames.traced(compile_it)
        added = self._added.setdefault(id(call.globals), set())
        added |= call.globals.keys() - before
        return result, trace, frozenset(added)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _look_up(self, name: str, key: parts.CacheKey, call: frames.Call, started: float) -> tuple[Any, Reason, str]:
        """Dynamo's result from an entry; or None, and why."""
        if self._settings.mode == "refresh":
            return None, Reason.REFRESH, ""
        if frames_state.exceeds_limit(call.cache_size, call.compile_id):
            return None, Reason.ABSENT, ""
        reason, detail = Reason.ABSENT, ""
        try:
            kernels.install()
            for stored, opened in self._candidates(name, key):
                found, change, saved = self._use(stored, opened, call)
                if found is not None:
                    self._graphs.store.get(stored)  # marks it as used
                    self._ledger.add(Hit("frame", name, time.perf_counter() - started, saved))
                    return found, Reason.ABSENT, ""
                reason, detail = Reason.CHANGED, change
        except Exception as error:
            self._fail(name, started, error)
        return None, reason, detail

    def _candidates(self, name: str, key: parts.CacheKey) -> list[tuple[str, envelope.Envelope]]:
        """The entries of a frame, oldest first, as its first process met them."""
        found = []
        for entry in sorted(self._graphs.store.entries(f"{name}."), key=lambda e: -e.used)[:_MOST_ENTRIES]:
            try:
                opened = envelope.Envelope(self._looking.get(entry.name) or b"")
                frames_record.check_belongs(opened.manifest, key)
                found.append((entry.name, opened))
            except AotCacheError as error:
                self._discard(entry.name, error)
        return sorted(found, key=lambda pair: pair[1].manifest.created)

    def _use(self, stored: str, opened: envelope.Envelope, call: frames.Call) -> tuple[Any, str, float]:
        """The result of one entry for the live frame; or None, and what is different. Last: seconds that it saves.

        Raises:
            frames_record.Picked: the entry would be used, and is to be verified.
        """
        started = time.perf_counter()
        try:
            frame = artifact.load({name: opened.section(name) for name in opened.names})
        except AotCacheError as error:
            self._discard(stored, error)
            return None, str(error), 0.0
        saved = dict(opened.manifest.seconds)
        try:
            with frames_record.compare(frame, call) as live:
                loaded = {name: self._graph(graph, call, saved) for name, graph in frame.graphs.items()}
                result = frames_record.install(frame, live, call, loaded)
                if self._verifier and self._verifier.picks(stored):
                    raise frames_record.Picked(stored, self._graphs.store.get(stored) or b"", opened.manifest, frame)
                return result, "", sum(saved.values())
        except frames_record.Changed as change:
            return None, str(change), 0.0
        except Exception as error:  # whatever an entry does when it is brought to life
            self._fail(stored, started, error)
            return None, repr(error), 0.0

    def _graph(self, name: str, call: frames.Call, saved: dict[str, float]) -> Callable[..., Any]:
        """A stored graph, ready to run; adds to `saved` the seconds that compiling it took."""
        data = self._graphs.store.get(name)
        if data is None:
            raise frames_record.Changed(f"its graph {name} is not in the store any more")
        opened = envelope.Envelope(data)
        saved |= {f"{name} {phase}": seconds for phase, seconds in opened.manifest.seconds.items()}
        entry = codec.load(opened.section("result"))
        light.lighten(entries.graphs(entry), opened.manifest.extra.get("externs", []))
        with native.serve(opened.manifest.extra["kernels"], self._graphs.store.get):
            return frames_install.revive(entry, call.settings or {})

    # -- writing -------------------------------------------------------------------------------------------------------

    def _draft(
        self,
        key: parts.CacheKey,
        call: frames.Call,
        trace: frames.Trace,
        result: Any,
        added: frozenset[str],
        seconds: float,
    ) -> Draft:
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
        return Draft(key, frame, call.code.co_name, seconds, waiting)

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

    # -- the edge ------------------------------------------------------------------------------------------------------

    def _discard(self, name: str, error: Exception) -> None:
        self._fail(name, time.perf_counter(), error)
        if self._graphs.writable:
            try:
                self._graphs.store.delete(name)
            except AotCacheError:
                log.debug("cannot delete %s", name, exc_info=True)

    def _fail(self, name: str | None, started: float, error: Exception) -> None:
        log.warning("aot_cache: the frame cache failed, the compile goes on: %r", error)
        log.debug("the frame cache failed", exc_info=True)
        self._end(Failed, name, started, Reason.INTERNAL, repr(error))

    def _end(
        self, kind: type[Any], key: str | None, started: float, reason: Reason, *text: str, of: Named = ("", ())
    ) -> None:
        outcome: Outcome = kind("frame", key, time.perf_counter() - started, reason, *text)
        self._ledger.add(outcome)
        self._graphs.history.record(outcome, *of)
        log.info("aot_cache: frame: %s", outcome)
