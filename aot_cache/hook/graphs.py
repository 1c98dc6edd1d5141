"""The graph cache: key, look up, compile once, publish. Its one edge to torch never lets an exception through."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..artifact import codec, envelope, native
from ..errors import AotCacheError, EnvelopeError, ForeignEntry, MissAsserted, NotSerializable, StoreError
from ..key import parts
from ..key.build import graph_key
from ..key.encode import CannotKey
from ..key.state import facts
from ..outcome import Bypass, Failed, Hit, Ledger, Miss, Outcome, Reason, Refused
from ..settings import Settings
from ..store.base import Store
from ..store.opening import Opened
from ..torch_compat import aot, entries, kernels, tensors
from .flights import Flights

log = logging.getLogger("aot_cache")
T = TypeVar("T")


@dataclass
class Pending:
    """What has to be remembered from a look-up that missed until its result is saved."""

    key: parts.CacheKey
    name: str
    symbols: dict[str, str]
    sources: Any
    alias_guards_before: int
    started: float = field(default_factory=time.monotonic)


class GraphCache:
    """The seam's other side; see torch_compat.aot.Seam for what each verb is called for."""

    def __init__(self, settings: Settings, open_store: Callable[[], Opened], ledger: Ledger) -> None:
        self._settings, self._open_store, self._ledger = settings, open_store, ledger
        self._opened: Store | None = None
        self.writable = settings.mode != "readonly"
        self._flights = Flights(settings.directory, settings.wait)
        self._pending: dict[str, Pending] = {}
        self._said: set[str] = set()

    def close(self) -> None:
        self._flights.close()
        kernels.uninstall()

    @property
    def store(self) -> Store:
        """The store, opened when the first graph arrives; raises StoreError if it cannot be."""
        if self._opened is None:
            opened = self._open_store()
            self._opened = opened.store
            if opened.reason:
                self.writable = False
                self._warn(f"nothing will be stored: {opened.reason}")
                self._end(Failed, None, time.perf_counter(), Reason.DIRECTORY, opened.reason)
        return self._opened

    # -- the seam ------------------------------------------------------------------------------------------------------

    def begin(self) -> int:
        return len(self._ledger.events())

    def end(self, token: int) -> None:
        if not self._settings.assert_hit:
            return
        for event in self._ledger.events()[token:]:
            if isinstance(event, (Miss, Bypass, Refused)):
                raise MissAsserted(f"AOT_CACHE_ASSERT_HIT is set, but a graph was compiled: {event}")

    def key(self, request: aot.Request) -> str | None:
        started = time.perf_counter()

        def build() -> str | None:
            try:
                _ = self.store
                kernels.install()
                symbols = tensors.Symbols(request.inputs)
                key = graph_key(request, symbols)
            except CannotKey as error:
                return self._end(Bypass, None, started, error.reason, error.detail, error.remedy)
            except StoreError as error:
                self._warn(f"the cache is off: {error}")
                return self._end(Refused, None, started, Reason.DIRECTORY, str(error))
            request.notes["pending"] = Pending(
                key, entries.graph_name(request.graph), symbols.names, request.sources, entries.alias_guard_count()
            )
            request.notes["started"] = started
            return aot.PREFIX + key.digest

        return self._fail_open(build, lambda error: self._end(Bypass, None, started, Reason.INTERNAL, repr(error)))

    def load(self, key: str, request: aot.Request) -> aot.Loaded | None:
        started = request.notes["started"]
        reason = Reason.UNUSABLE
        detail = ""

        def look_up() -> aot.Loaded | None:
            nonlocal reason, detail
            loaded, reason = self._find(key, request)
            if loaded is None and self.writable and not self._flights.holds(key):
                self._flights.take(key)
                if reason is not Reason.REFRESH:
                    loaded, reason = self._find(key, request)
            if loaded is not None:
                self._flights.land(key)
                saved = (loaded.forward_time_taken_ns + loaded.backward_time_taken_ns) / 1e9
                self._ledger.add(Hit("graph", key, time.perf_counter() - started, saved))
            elif self._settings.assert_hit:
                self._flights.land(key)
                detail = self._nearest(request.notes["pending"].key)
            return loaded

        loaded = self._fail_open(look_up, lambda error: None, key)
        if loaded is None:
            self._pending[key] = request.notes["pending"]
            self._end(Miss, key, started, reason, detail)
        return loaded

    def save(self, key: str, entry: Any) -> str | None:
        """The name that the entry was stored under; None if it was not."""
        pending = self._pending.pop(key, None)
        if pending is None or not self.writable:
            return None

        def publish() -> str | None:
            name, data = self._pack(pending, entry)
            self.store.put(name, data)
            return name

        started = time.perf_counter()
        try:
            return self._fail_open(publish, lambda error: None, key, started)
        finally:
            self._flights.land(key)

    def unserializable(self, error: Exception) -> None:
        self._end(Failed, None, time.perf_counter(), Reason.NOT_SERIALIZABLE, str(error))
        self._flights.land_all()

    def adopt(self, key: str, data: bytes) -> bool:
        if not data.startswith(envelope.MAGIC):
            return False

        def publish() -> None:
            manifest = envelope.Envelope(data).manifest
            if self.writable:
                self.store.put(_name(aot.PREFIX + manifest.key, manifest.guards), data)

        self._fail_open(publish, lambda error: None, key)
        return True

    # -- reading -------------------------------------------------------------------------------------------------------

    def _find(self, key: str, request: aot.Request) -> tuple[aot.Loaded | None, Reason]:
        if self._settings.mode == "refresh":
            return None, Reason.REFRESH
        reason = Reason.ABSENT
        for stored in list(self.store.entries(f"{key}.")):
            started = time.perf_counter()
            try:
                data = self.store.get(stored.name)
                if data is None:
                    continue
                opened = envelope.Envelope(data)
                _check_belongs(opened.manifest, request.notes["pending"].key)
                if opened.manifest.guards and not entries.holds(opened.manifest.guards, request):
                    reason = Reason.GUARD
                    continue
                loaded = self._revive(opened, request)
                request.notes["entry"] = stored.name
                return loaded, Reason.ABSENT
            except Exception as error:  # whatever an entry does when it is brought to life
                reason = Reason.UNUSABLE
                self._discard(stored.name, error, started)
        return None, reason

    def _revive(self, opened: envelope.Envelope, request: aot.Request) -> aot.Loaded:
        manifest, content = opened.manifest, opened.section("result")
        entry = codec.load(content)
        texts = {name: codec.decode_text(opened.section(name)) for name in opened.names if name.startswith("text.")}
        entries.put_texts(entry, texts)
        pending: Pending = request.notes["pending"]
        theirs = {new: old for old, new in manifest.extra.get("symbols", {}).items()}
        entries.rename_symbols(entry, {theirs[new]: old for old, new in pending.symbols.items() if new in theirs})
        with native.serve(manifest.extra["kernels"], self.store.get) as serving:
            function = entries.revive(entry, request)
        for why in serving.rebuilt.values():
            self._warn(f"a kernel of {manifest.name} was compiled again: {why}")
        entries.add_alias_guards(manifest.extra.get("alias_guards", ()), request.sources)
        forward, backward = (int(manifest.seconds.get(phase, 0.0) * 1e9) for phase in ("forward", "backward"))
        return aot.Loaded(function, bytes(content), forward, backward)

    def _discard(self, name: str, error: Exception, started: float) -> None:
        """An entry that cannot be used is in the way of the one that will replace it."""
        if isinstance(error, StoreError):
            reason = Reason.DIRECTORY
        elif isinstance(error, ForeignEntry):
            reason = Reason.FOREIGN
        else:
            reason = Reason.DAMAGED if isinstance(error, EnvelopeError) else Reason.LOAD
        self._warn(f"entry {name} is not used: {reason.value} ({error!r})")
        self._end(Failed, name, started, reason, repr(error))
        if self.writable and reason is not Reason.DIRECTORY:
            self._fail_open(lambda: self.store.delete(name), lambda _: False, name)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _pack(self, pending: Pending, entry: Any) -> tuple[str, bytes]:
        seconds = entries.seconds(entry)
        seconds["backward"] = seconds["backward"] or (self._flights.backward_seconds() if entry.compiled_bw else 0.0)
        entries.set_backward_seconds(entry, seconds["backward"])
        alias_guards = entries.alias_guards(pending.alias_guards_before, pending.sources)
        entries.prepare(entry)
        texts = entries.take_texts(entry)
        try:
            sections = {"result": codec.dump(entry)} | codec.encode_texts(texts)
        finally:
            entries.put_texts(entry, texts)
        # The libraries go first: an entry that was published is complete.
        bundle = native.bundle(entries.sources(entry))
        for name, library in bundle.libraries.items():
            self.store.put(native.store_name(name), library)
        manifest = envelope.Manifest(
            key=pending.key.digest,
            parts=pending.key.parts,
            name=pending.name,
            kind=entries.kind(entry),
            guards=entries.guards(entry),
            created=time.time(),
            seconds=seconds,
            facts=facts(),
            extra={"symbols": pending.symbols, "alias_guards": alias_guards, "kernels": bundle.table},
        )
        return _name(aot.PREFIX + pending.key.digest, manifest.guards), envelope.pack(manifest, sections)

    # -- the edge ------------------------------------------------------------------------------------------------------

    def _fail_open(self, do: Callable[[], T], otherwise: Callable[[Exception], T], key: str | None = None, started: float | None = None) -> T:
        """`do()`, or what `otherwise` makes of its exception; the exception itself becomes an outcome."""
        started = time.perf_counter() if started is None else started
        try:
            return do()
        except NotSerializable as error:
            self._end(Failed, key, started, Reason.NOT_SERIALIZABLE, str(error))
            return otherwise(error)
        except StoreError as error:
            self._warn(str(error))
            self._end(Failed, key, started, Reason.WRITE, str(error))
            return otherwise(error)
        except Exception as error:
            self._warn(f"the cache failed, the compile goes on: {error!r}")
            log.debug("aot_cache failed", exc_info=True)
            self._end(Failed, key, started, Reason.INTERNAL, repr(error))
            return otherwise(error)

    def _end(self, kind: type[Any], key: str | None, started: float, reason: Reason, detail: str = "", remedy: str = "") -> None:
        outcome: Outcome = kind("graph", key, time.perf_counter() - started, reason, detail, remedy)
        self._ledger.add(outcome)
        log.info("aot_cache: %s", outcome)

    def _warn(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log.warning("aot_cache: %s", text)

    def _nearest(self, key: parts.CacheKey) -> str:
        """What differs between `key` and the entry most like it, for the message of an asserted hit."""
        known: dict[str, tuple[parts.KeyPart, ...]] = {}
        for stored in sorted(self.store.entries(aot.PREFIX), key=lambda e: -e.used)[:200]:
            try:
                known[stored.name] = envelope.Envelope(self.store.get(stored.name) or b"").manifest.parts
            except AotCacheError:
                continue
        name = parts.nearest(key.parts, known)
        if name is None:
            return "the cache is empty"
        changes = parts.diff(known[name], key.parts)
        return f"nearest entry {name} differs in " + "; ".join(map(str, changes[:20]))


def _name(key: str, guards: str | None) -> str:
    """Entries of one key with different shape guards live side by side."""
    return f"{key}.{parts.digest((guards or '').encode())[:16]}"


def _check_belongs(manifest: envelope.Manifest, key: parts.CacheKey) -> None:
    """Before anything is unpickled: the entry is of exactly this key, torch build and machine included."""
    if manifest.key != key.digest or [(p.name, p.digest) for p in manifest.parts] != [(p.name, p.digest) for p in key.parts]:
        raise ForeignEntry(f"the entry says it is of key {manifest.key}, not {key.digest}")
