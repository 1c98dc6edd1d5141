"""Tells `aot-cache warm`, which started this process or one above it, what became of the graphs here.

AOT_CACHE_REPORT names a file that all these processes append to: one JSON object a line, one write a line, at once, so that
a process that crashes has told everything up to then. The first line of a process has no outcome; it only says that the
cache was there.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..outcome import Hit, Ledger, Outcome

VARIABLE = "AOT_CACHE_REPORT"


def attach(ledger: Ledger) -> None:
    """Report every outcome of `ledger` from now on, if AOT_CACHE_REPORT is set. Never raises."""
    path = os.environ.get(VARIABLE)
    if path:
        _append(path, {})
        ledger.listen(lambda outcome: _append(path, _described(outcome)))


def _described(outcome: Outcome) -> dict[str, Any]:
    described: dict[str, Any] = {
        "outcome": type(outcome).__name__.lower(),
        "kind": outcome.kind,
        "key": outcome.key,
        "seconds": outcome.seconds,
    }
    if isinstance(outcome, Hit):
        return {**described, "saved": outcome.saved, "entry": outcome.entry}
    return {**described, "reason": outcome.reason.value, "detail": outcome.detail, "remedy": outcome.remedy}


def _append(path: str, event: dict[str, Any]) -> None:
    # The pid is asked for each time, and the file opened: a process may fork between two events.
    line = json.dumps({"pid": os.getpid(), **event}).encode() + b"\n"
    try:
        # Not created: whoever waited for the report may be gone, and with it the directory or its name.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError:
        pass
