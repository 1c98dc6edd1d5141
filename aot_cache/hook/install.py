"""On and off: the only module that patches torch, and puts it back."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import AotCacheError
from ..key import machine
from ..offloading import active
from ..outcome import LEDGER, Bypass, Failed, Reason, Refused
from ..settings import NATIVE, Settings, unknown
from ..store.opening import Opened, open_store
from ..torch_compat import aot, compilers, compiling, cpu, frames, late, registries, versions
from ..torch_compat.patches import Patches
from . import report
from .graphs import GraphCache

log = logging.getLogger("aot_cache")


class Installation:
    """The hook in place, with one set of settings, until `remove`."""

    def __init__(self, settings: Settings) -> None:
        versions.require_supported()
        self.settings = settings
        self.failure: Exception | None = None
        self._patches = Patches()
        cpu.use(self._cpu_level())
        self.cache = GraphCache(settings, self._open, LEDGER)
        seam: aot.Seam = self.cache
        self._late = [late.without_collections(name) for name in late.HEAVY]
        if settings.frames:
            from .frames import FrameCache
            from .frames_graphs import Watched

            kept = FrameCache(settings, self.cache, LEDGER)
            seam = Watched(self.cache, kept.published)
            self._late.append(frames.join(kept, self._patches, self._could_not_join))
        registries.watch(self._patches)
        self._late += [
            aot.join(seam, self._patches, self._could_not_join),
            compilers.watch(self._patches),
            compiling.watch_backends(self._patches, self._around_backend),
        ]
        if settings.verify:
            from ..torch_compat import verify

            self._late.append(verify.watch(self._patches, self._could_not_join))

    @property
    def patched(self) -> list[str]:
        """The names in torch that are replaced now."""
        return self._patches.names

    def remove(self) -> None:
        for waiting in self._late:
            waiting.cancel()
        for name in self._patches.undo():
            log.warning("aot_cache: %s was replaced by somebody else after us and is left as it is", name)
        self.cache.close()
        cpu.use("")

    def _cpu_level(self) -> str:
        """The level to compile for; "" for this CPU, also where it lacks what the level has."""
        level = self.settings.cpu
        if level == NATIVE:
            return ""
        lacking = machine.lacking(level)
        reason = f"it lacks {' '.join(lacking)}" if lacking else cpu.obstacle()
        if not reason:
            return level
        detail = f"AOT_CACHE_CPU={level}: {reason}; kernels are compiled for this CPU itself"
        LEDGER.add(Failed("graph", None, 0.0, Reason.CPU, detail, "choose a level that every machine has"))
        log.warning("aot_cache: %s", detail)
        return ""

    def _open(self) -> Opened:
        return open_store(self.settings)

    def _could_not_join(self, error: Exception) -> None:
        self.failure = error
        outcome = Failed("graph", None, 0.0, Reason.INTERNAL, str(error))
        LEDGER.add(outcome)
        self.cache.history.record(outcome)
        log.warning("aot_cache: the cache is off: %s", error)

    def _around_backend(self, backend: str, call: Callable[[], Any]) -> Any:
        """No graph is compiled in silence: one that never reached the cache is a bypass."""
        before, trace, started = len(LEDGER.events()), frames.current(), time.perf_counter()
        try:
            result = call()
        finally:
            if trace is not None:
                trace.backend_seconds += time.perf_counter() - started
        if len(LEDGER.events()) == before:
            switch, session = compiling.caching_is_off(), active.session()
            reason, detail = (Reason.TORCH_OFF, switch) if switch else (Reason.BACKEND, f"backend {backend!r}")
            if session is not None and session.options.dry_run:
                reason, detail = Reason.UNKNOWN_STATE, "a dry run of aot_cache.offload"
            outcome = Bypass("graph", None, 0.0, reason, detail)
            LEDGER.add(outcome)
            self.cache.history.record(outcome)
        return result


_current: Installation | None = None
_mutex = threading.RLock()
report.attach(LEDGER)


def current() -> Installation | None:
    return _current


def install(settings: Settings) -> Installation | None:
    """Replace whatever is installed; with `settings.enabled` off, only remove it."""
    global _current
    with _mutex:
        if _current is not None:
            _current.remove()
            _current = None
        if settings.enabled:
            _warn_of_unknown()
            _current = Installation(settings)
        return _current


@functools.cache
def _warn_of_unknown() -> None:
    for name, meant in unknown(os.environ).items():
        log.warning("aot_cache: %s is set, and not read%s", name, f"; is {meant} meant?" if meant else "")


def uninstall() -> None:
    global _current
    with _mutex:
        if _current is not None:
            _current.remove()
            _current = None


def install_from_environment() -> None:
    """As `install`, for the automatic start: a bad setting is one warning, and the cache stays off."""
    try:
        if current() is None:
            install(Settings.resolve())
    except AotCacheError as error:
        LEDGER.add(Refused("graph", None, 0.0, Reason.SETTING, str(error)))
        log.warning("aot_cache: the cache is off: %s", error)
