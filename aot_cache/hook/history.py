"""What was not a hit, and that there were hits, noted in the cache directory for `aot-cache explain`.

It may never disturb a compile.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable

from ..key.parts import KeyPart
from ..outcome import Hit, Outcome, to_json
from ..settings import Settings
from ..store import runs
from ..store.opening import check_directory

log = logging.getLogger("aot_cache")

# One file a process, however often the cache is turned on in it.
_STARTED = time.time()


class History:
    """Notes outcomes until one cannot be written; a mode or directory that is for reading only takes none."""

    def __init__(self, settings: Settings) -> None:
        self._directory = settings.directory
        self._on = settings.mode != "readonly"
        self._checked = False
        self._warm: int | None = None

    def record(self, outcome: Outcome, name: str = "", parts: Iterable[KeyPart] = ()) -> None:
        """Note `outcome`, of hits only the first, with its name and its key's parts if known. Never raises."""
        hit, pid = isinstance(outcome, Hit), os.getpid()
        if not self._on or hit and self._warm == pid:
            return
        if hit:
            self._warm = pid
        try:
            if not self._checked:
                check_directory(self._directory)
                self._checked = True
            event = {"time": time.time(), **to_json(outcome), "name": name, "program": _program()}
            event["parts"] = [part.to_json() for part in parts]
            runs.append(self._directory, _STARTED, pid, event, hit)
        except Exception as error:
            self._on = False
            log.debug("aot_cache: outcomes are not noted for `aot-cache explain`: %r", error)


def _program() -> str:
    """The script's name, without its arguments: they may hold secrets."""
    return os.path.basename(sys.argv[0]) if sys.argv else ""
