"""Python's collector of cyclic garbage, paused while a start makes hundreds of thousands of objects that all stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_is_ours = False


@contextmanager
def paused() -> Iterator[None]:
    """No collections inside the block, in any thread; a collector that was off before stays off.

    A full collection looks at every object there is; the import of torch's compiler alone sets off several of them.
    What was made inside counts as old afterwards, so that the end of the block does not set one off either.
    """
    global _pauses, _is_ours
    with _lock:
        _pauses += 1
        if gc.isenabled():
            # The young garbage of the caller, which would wait for a full collection otherwise.
            gc.collect(1)
            gc.disable()
            _is_ours = True
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _is_ours and not _pauses:
                _all_are_old()
                gc.enable()
                _is_ours = False


def _all_are_old() -> None:
    """Move every object to the oldest generation, unlooked at; what the caller has frozen stays frozen."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
