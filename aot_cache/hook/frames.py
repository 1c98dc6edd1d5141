"""The frame cache: a frame whose guards see what they saw before runs what Dynamo made of it then, untraced.

Order on a start: the frame's fingerprints agree -> its graphs are loaded by name from the graph cache's entries -> its
bytecode runs. Any doubt falls to Dynamo, and from there to the graph cache. A frame that hits is a hit of each of its
graphs, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from ..artifact import codec, envelope
from ..artifact import frame as artifact
from ..errors import AotCacheError, EnvelopeError, OffloadError, StoreError, TransferError, told
from ..key import parts
from ..key.encode import CannotKey
from ..key.fingerprint_key import frame_key
from ..key.fingerprint_places import frame_name
from ..offloading import active
from ..outcome import Bypass, Failed, Hit, Ledger, Miss, Outcome, Reason
from ..settings import Settings
from ..store.readonly import ReadonlyStore
from ..torch_compat import collector, entries, frames, frames_install, frames_state, kernels, light
from . import frames_record
from .frames_drafts import Drafts
from .graph_entries import served, why_unusable
from .graphs import GraphCache

log = logging.getLogger("aot_cache")
# Entries of one frame that a look-up compares; edits leave old ones behind until they are evicted.
_MOST_ENTRIES = 32
Named = tuple[str, tuple[parts.KeyPart, ...]]
"""A frame's name and its key's parts, as far as they are known."""


class FrameCache:
    """Answers Dynamo's compile step; `graphs` is where the frames' graphs are."""

    def __init__(self, settings: Settings, graphs: GraphCache, ledger: Ledger) -> None:
        self._settings, self._graphs, self._ledger = settings, graphs, ledger
        # Comparing is no use of an entry.
        self._looking = ReadonlyStore(settings.directory)
        self._drafts = Drafts(graphs, self._fail)
        self.published = self._drafts.published
        self._added: dict[int, set[str]] = {}
        self._verifier: Any = None
        if settings.verify:
            from .frames_verify import FrameVerifier

            self._verifier = FrameVerifier(settings, ledger, self._end)

    # -- the seam ------------------------------------------------------------------------------------------------------

    def compile(self, call: frames.Call, compile_it: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        try:
            if obstacle := call.obstacle():
                raise CannotKey(Reason.FRAME_STATE, obstacle)
            with collector.paused():
                key = frame_key(call)
        except CannotKey as error:
            self._end(Bypass, None, started, error.reason, error.detail, error.remedy, of=(frame_name(call), ()))
            return compile_it()
        except Exception as error:
            self._fail(None, started, error)
            self._end(Bypass, None, started, Reason.INTERNAL, told(error))
            return compile_it()
        name = frames.PREFIX + key.digest
        try:
            with collector.paused():
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
        started, of = time.perf_counter(), (frame_name(call), key.parts)
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
            draft = self._drafts.of(key, call, trace, result, added, seconds)
        except CannotKey as error:
            self._end(Bypass, name, started, error.reason, error.detail, error.remedy, of=(of[0], ()))
        except Exception as error:
            self._fail(name, started, error)
            self._end(Bypass, name, started, Reason.INTERNAL, told(error))
        else:
            self._end(Miss, name, started, reason, detail, of=of)
            self._drafts.add(draft)
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
                found, reason, detail, hits = self._use(stored, opened, call)
                if found is not None:
                    self._graphs.store.get(stored)  # marks it as used
                    took = time.perf_counter() - started - sum(hit.seconds for hit in hits)
                    for hit in (*hits, Hit("frame", name, took, sum(opened.manifest.seconds.values()), stored)):
                        self._ledger.add(hit)
                        self._graphs.history.record(hit)
                    return found, Reason.ABSENT, ""
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

    def _use(self, stored: str, opened: envelope.Envelope, call: frames.Call) -> tuple[Any, Reason, str, list[Hit]]:
        """The result of one entry for the live frame; or None, and why not. Last: the hits of its graphs.

        Raises:
            frames_record.Picked: the entry would be used, and is to be verified.
        """
        started = time.perf_counter()
        try:
            frame = artifact.load({name: opened.section(name) for name in opened.names})
        except AotCacheError as error:
            self._discard(stored, error)
            return None, Reason.UNUSABLE, str(error), []
        hits: list[Hit] = []
        plans: list[Any] = []
        try:
            with frames_record.compare(frame, call) as live:
                loaded = {name: self._graph(graph, call, hits, plans) for name, graph in frame.graphs.items()}
                result = frames_record.install(frame, live, call, loaded)
                if self._verifier and self._verifier.picks(stored):
                    raise frames_record.Picked(stored, self._graphs.store.get(stored) or b"", opened.manifest, frame)
                if session := active.session():
                    for plan in plans:
                        session.accept(plan)
                return result, Reason.ABSENT, "", hits
        except frames_record.Changed as change:
            return None, Reason.CHANGED, str(change), []
        except frames_record.Unusable as error:
            return None, Reason.UNUSABLE, str(error), []
        except Exception as error:  # whatever an entry does when it is brought to life
            self._fail(stored, started, error)
            return None, Reason.UNUSABLE, told(error), []

    def _graph(self, name: str, call: frames.Call, hits: list[Hit], plans: list[Any]) -> Callable[..., Any]:
        """A stored graph, ready to run; adds its hit to `hits`, and its offload plan, checked, to `plans`."""
        started = time.perf_counter()
        try:
            data = self._graphs.store.get(name)
            if data is None:
                raise frames_record.Unusable(f"its graph {name} is not in the store any more")
            opened = envelope.Envelope(data)
            section = opened.section("result")
        except (StoreError, EnvelopeError) as error:  # the graph cache will meet it, and say so
            raise frames_record.Unusable(f"its graph {name} cannot be read: {error}") from None
        if session := active.session():
            try:
                plans.append(session.check(opened.manifest.kind, opened.manifest.extra))
            except (OffloadError, TransferError) as error:
                raise frames_record.Unusable(f"its graph {name} is not used: {error}") from None
        entry = codec.load(section)
        light.lighten(entries.graphs(entry), opened.manifest.extra.get("externs", []))
        with served(opened, self._graphs.store.get):
            revived = frames_install.revive(entry, call.settings or {})
        saved = sum(opened.manifest.seconds.values())
        hits.append(Hit("graph", name.partition(".")[0], time.perf_counter() - started, saved, name))
        return revived

    # -- the edge ------------------------------------------------------------------------------------------------------

    def _discard(self, name: str, error: Exception) -> None:
        reason = why_unusable(error)
        self._graphs.warn(f"entry {name} is not used: {reason.value} ({told(error)})")
        self._end(Failed, name, time.perf_counter(), reason, told(error))
        if self._graphs.writable and reason is not Reason.DIRECTORY:
            try:
                self._graphs.store.delete(name)
            except AotCacheError:
                log.debug("cannot delete %s", name, exc_info=True)

    def _fail(self, name: str | None, started: float, error: Exception) -> None:
        of_store = isinstance(error, StoreError)
        self._graphs.warn(str(error) if of_store else f"the frame cache failed, the compile goes on: {told(error)}")
        log.debug("the frame cache failed", exc_info=True)
        self._end(Failed, name, started, Reason.DIRECTORY if of_store else Reason.INTERNAL, told(error))

    def _end(
        self, kind: type[Any], key: str | None, started: float, reason: Reason, *text: str, of: Named = ("", ())
    ) -> None:
        outcome: Outcome = kind("frame", key, time.perf_counter() - started, reason, *text)
        self._ledger.add(outcome)
        self._graphs.history.record(outcome, *of)
        log.info("aot_cache: %s", outcome)
