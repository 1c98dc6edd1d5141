"""The graph cache: key, look up, compile once, publish. Its one edge to torch never lets an exception through."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..artifact import alike, envelope, native
from ..errors import MissAsserted, NotSerializable, OffloadError, StoreError, TransferError, told
from ..key.build import graph_key
from ..key.encode import CannotKey
from ..offloading import active
from ..outcome import Bypass, Failed, Hit, Ledger, Miss, Outcome, Reason, Refused
from ..settings import Settings
from ..store.base import Store
from ..store.opening import Opened
from ..store.readonly import ReadonlyStore
from ..torch_compat import aot, collector, entries, kernels, moments, tensors
from .flights import Flights
from .graph_entries import Pending, check_belongs, check_name_tells_content, is_ours, pack, revive, why_unusable
from .history import History
from .joints import Joints

if TYPE_CHECKING:
    from .verify import Verifier

log = logging.getLogger("aot_cache")
T = TypeVar("T")


class GraphCache:
    """The seam's other side; see torch_compat.aot.Seam for what each verb is called for."""

    def __init__(self, settings: Settings, open_store: Callable[[], Opened], ledger: Ledger) -> None:
        self._settings, self._open_store, self._ledger = settings, open_store, ledger
        self._opened: Store | None = None
        self.writable = settings.mode != "readonly"
        self._flights = Flights(settings.directory, settings.wait)
        self.history = History(settings)
        self._said: set[str] = set()
        self._discarded: set[str] = set()
        look = settings.mode != "refresh"
        self.joints = Joints(look, lambda: self.writable, lambda: self.store, self._fail_open, self._discard)
        self._verifier: Verifier | None = None
        if settings.verify:
            from .verify import Verifier

            self._verifier = Verifier(settings, self._end)

    def close(self) -> None:
        self._flights.close()
        kernels.uninstall()

    @property
    def store(self) -> Store:
        """The store, opened when the first graph arrives."""
        if self._opened is None:
            try:
                opened = self._open_store()
            except StoreError as error:
                self.warn(f"the cache is off: {error}")
                raise
            self._opened = opened.store
            if opened.reason:
                self.writable = False
                self.warn(f"nothing will be stored: {opened.reason}")
                self._end(Failed, None, time.perf_counter(), Reason.DIRECTORY, opened.reason)
        return self._opened

    # -- the seam ------------------------------------------------------------------------------------------------------

    def begin(self) -> int:
        self.joints.forget()
        return len(self._ledger.events())

    def end(self, token: int) -> None:
        if not self._settings.assert_hit:
            return
        for event in self._ledger.events()[token:]:
            if event.kind == "graph" and isinstance(event, (Miss, Bypass, Refused)):
                raise MissAsserted(f"AOT_CACHE_ASSERT_HIT is set, but a graph was compiled: {event}")

    def key(self, request: aot.Request) -> str | None:
        started = time.perf_counter()

        def build() -> str | None:
            try:
                _ = self.store
                kernels.install()
                symbols = tensors.Symbols(request.inputs)
                with collector.paused():
                    key = graph_key(request, symbols)
            except (CannotKey, StoreError) as error:
                if request.peeking:  # it will be asked again, and then counts
                    return None
                if isinstance(error, StoreError):
                    return self._end(Refused, None, started, Reason.DIRECTORY, str(error))
                return self._end(Bypass, None, started, error.reason, error.detail, error.remedy)
            request.notes["pending"] = Pending(
                key,
                entries.graph_name(request.graph),
                symbols.names,
                request.sources,
                entries.alias_guard_count(),
                entries.shape_facts(),
                moments.handed(),
                session.slot() if (session := active.session()) else {},
            )
            request.notes["started"] = started
            return aot.PREFIX + key.digest

        return self._fail_open(build, lambda error: self._end(Bypass, None, started, Reason.INTERNAL, told(error)))

    def load(self, key: str, request: aot.Request) -> aot.Loaded | None:
        started = request.notes["started"]
        reason = Reason.UNUSABLE
        detail = ""

        def look_up() -> aot.Loaded | None:
            nonlocal reason, detail
            if request.peeking and self._verifier and self._verifier.picks(key):
                return None
            loaded, reason = self._find(key, request)
            if loaded is None and request.peeking:
                return None
            if loaded is None and self.writable and not self._flights.holds(key):
                self._flights.take(key)
                if reason is not Reason.REFRESH:
                    loaded, reason = self._find(key, request)
            if loaded is not None:
                self._flights.land(key)
                took = (loaded.forward_time_taken_ns + loaded.backward_time_taken_ns) / 1e9
                verified, entry = loaded.settle is not None, request.notes.get("entry", "")
                saved = 0.0 if verified else took
                hit = Hit("graph", key, time.perf_counter() - started, saved, entry, verified)
                self._ledger.add(hit)
                self.history.record(hit)
                return loaded
            pending: Pending = request.notes["pending"]
            self._fail_open(pending.remember_code, lambda error: None, key)
            if active.session() is not None:
                self.joints.expect(request.graph, request.notes)
            if self._settings.assert_hit:
                self._flights.land(key)
                looking = ReadonlyStore(self._settings.directory)
                detail = alike.differences(looking, aot.PREFIX, pending.name, pending.key.parts)
            return None

        loaded = self._fail_open(look_up, lambda error: None, key)
        if loaded is None and not request.peeking:
            self._end(Miss, key, started, reason, detail, of=request.notes["pending"])
        return loaded

    def save(self, key: str, entry: Any, notes: Mapping[str, Any]) -> str | None:
        """The name that the entry was stored under; None if it was not."""
        if not self.writable:
            return None

        def publish() -> str:
            sealed = pack(notes["pending"], entry, self._flights.backward_seconds())
            # The libraries go first: an entry that was published is complete.
            for name, library in sealed.libraries.items():
                self.store.put(name, library)
            self.store.put(sealed.name, sealed.data)
            for name, data in (*sealed.libraries.items(), (sealed.name, sealed.data)):
                aot.add_to_portable_archive(name, data)
            return sealed.name

        started = time.perf_counter()
        try:
            return self._fail_open(publish, lambda error: None, key, started)
        finally:
            self._flights.land(key)

    def unserializable(self, error: Exception) -> None:
        self._end(Failed, None, time.perf_counter(), Reason.NOT_SERIALIZABLE, str(error))
        self._flights.land_all()

    def adopt(self, key: str, data: bytes) -> bool:
        if not is_ours(key, data):
            return False

        def publish() -> None:
            check_name_tells_content(key, data)
            if self.writable:
                self.store.put(key, data)

        self._fail_open(publish, lambda error: None, key)
        return True

    def _fetch_library(self, name: str) -> bytes | None:
        """A kernel library, read once; what is loaded is in torch's portable archive, as what was compiled is."""
        library = self.store.get(name)
        if library is not None:
            aot.add_to_portable_archive(name, library)
        return library

    def _carry_libraries(self, names: Iterable[str]) -> None:
        # An earlier hit may have loaded them for an archive that was cleared since.
        there = aot.portable_archive()
        for name in names:
            if name not in there:
                self._fetch_library(name)

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
                pending: Pending = request.notes["pending"]
                check_belongs(opened.manifest, pending.key)
                if opened.manifest.guards and not entries.holds(opened.manifest.guards, request):
                    reason = Reason.GUARD
                    continue
                session = active.session()
                plan = session.check(opened.manifest.kind, opened.manifest.extra) if session else None
                loaded, rebuilt = revive(opened, pending, request, self._fetch_library)
                for why in rebuilt:
                    self.warn(f"a kernel of {pending.name} was compiled again: {why}")
                aot.add_to_portable_archive(stored.name, data)
                self._carry_libraries(native.library_names(opened.manifest.extra["kernels"]))
                request.notes["entry"] = stored.name
                if session:
                    session.accept(plan)
                if self._verifier and self._verifier.picks(key):
                    suspect = stored.name, data, opened.manifest, pending
                    store = self.store if self.writable else None
                    loaded.settle = self._verifier.settle(suspect, loaded.function, store)
                return loaded, Reason.ABSENT
            except (OffloadError, TransferError) as error:
                self.warn(f"entry {stored.name} is not used: {error}")
                reason = Reason.SCHEDULE
            except Exception as error:  # whatever an entry does when it is brought to life
                self._discarded.add(key)
                self._discard(stored.name, error, started)
        # What was discarded at one look-up is absent at the next.
        return None, Reason.UNUSABLE if key in self._discarded else reason

    def _discard(self, name: str, error: Exception, started: float) -> None:
        """An entry that cannot be used is in the way of the one that will replace it."""
        reason = why_unusable(error)
        self.warn(f"entry {name} is not used: {reason.value} ({told(error)})")
        self._end(Failed, name, started, reason, told(error))
        if self.writable and reason is not Reason.DIRECTORY:
            self._fail_open(lambda: self.store.delete(name), lambda _: False, name)

    # -- the edge ------------------------------------------------------------------------------------------------------

    def _fail_open(
        self,
        do: Callable[[], T],
        otherwise: Callable[[Exception], T],
        key: str | None = None,
        started: float | None = None,
    ) -> T:
        """`do()`, or what `otherwise` makes of its exception; the exception itself becomes an outcome."""
        started = time.perf_counter() if started is None else started
        try:
            return do()
        except NotSerializable as error:
            self._end(Failed, key, started, Reason.NOT_SERIALIZABLE, str(error))
            return otherwise(error)
        except StoreError as error:
            self.warn(str(error))
            self._end(Failed, key, started, Reason.WRITE, str(error))
            return otherwise(error)
        except Exception as error:
            self.warn(f"the cache failed, the compile goes on: {told(error)}")
            log.debug("aot_cache failed", exc_info=True)
            self._end(Failed, key, started, Reason.INTERNAL, told(error))
            return otherwise(error)

    def _end(
        self, kind: type[Any], key: str | None, started: float, reason: Reason, *text: str, of: Pending | None = None
    ) -> None:
        outcome: Outcome = kind("graph", key, time.perf_counter() - started, reason, *text)
        self._ledger.add(outcome)
        self.history.record(outcome, *((of.name, of.key.parts) if of else ()))
        log.info("aot_cache: %s", outcome)

    def warn(self, text: str) -> None:
        """Say it, unless that was said before, perhaps as part of something longer."""
        if not any(text in said for said in self._said):
            self._said.add(text)
            log.warning("aot_cache: %s", text)
