"""Single flight: of all processes that miss a key, one compiles and the others wait for what it publishes."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import torch

from ..store.locks import KeyLock
from ..torch_compat.compiling import CompileWatch

log = logging.getLogger("aot_cache")

# Seconds for which a process that compiles nothing keeps the locks of graphs whose backward has not been asked for.
LINGER = 30.0


class Flights:
    """The keys that this process compiles, each under its lock until it lands.

    A backward is compiled when it is first called, so a lock outlives the compile of its forward: it is held while this
    process compiles anything, and for LINGER seconds after.
    """

    def __init__(self, directory: Path, wait: float, linger: float = LINGER) -> None:
        self._directory, self._wait, self._linger = directory, wait, linger
        self._locks: dict[str, KeyLock] = {}
        self._mutex = threading.Lock()
        self._timer: threading.Timer | None = None
        self._backward_began: float | None = None
        self._watch = CompileWatch(self._compile_starts, self._compile_ends)

    def take(self, key: str) -> None:
        """Return when this process may compile `key`: it has the lock, or waiting would be wrong or in vain.

        Raises:
            StoreError: the lock cannot be made.
        """
        self._watch.attach()
        with self._mutex:
            # Whoever holds a lock must not wait for another: two processes could wait for each other.
            patience = 0.0 if self._locks or _in_collective() else self._wait
        lock = KeyLock(self._directory, key)
        if lock.acquire(patience, lambda waited: _say_waiting(key, waited)):
            with self._mutex:
                self._locks[key] = lock
        elif patience:
            log.warning("aot_cache: another process has compiled %s for %.0f s; compiling it here too", key, patience)

    def holds(self, key: str) -> bool:
        with self._mutex:
            return key in self._locks

    def land(self, key: str) -> None:
        """The key is published, or never will be: let the others go on."""
        with self._mutex:
            lock = self._locks.pop(key, None)
        if lock is not None:
            lock.release()

    def land_all(self) -> None:
        for key in list(self._locks):
            self.land(key)

    def close(self) -> None:
        self._cancel_timer()
        self._watch.detach()
        self.land_all()

    def backward_seconds(self) -> float:
        """Seconds since the compile of a backward began, 0 if none is under way."""
        return 0.0 if self._backward_began is None else time.monotonic() - self._backward_began

    def _compile_starts(self, is_backward: bool) -> None:
        self._backward_began = time.monotonic() if is_backward else None
        self._cancel_timer()

    def _compile_ends(self) -> None:
        self._backward_began = None
        self._cancel_timer()
        if self._locks:
            self._timer = threading.Timer(self._linger, self.land_all)
            self._timer.daemon = True
            self._timer.start()

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def _in_collective() -> bool:
    """Ranks of one job may have to meet in a collective while they compile: none may wait for another."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _say_waiting(key: str, waited: float) -> None:
    log.warning("aot_cache: another process compiles %s; waiting for it (%.0f s so far)", key, waited)
