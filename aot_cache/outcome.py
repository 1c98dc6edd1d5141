"""What became of one look-up: Hit | Miss | Bypass | Refused | Failed, each with a reason from a closed set.

A graph ends as exactly one of Hit, Miss, Bypass or Refused. Failed is extra: trouble on the way (a damaged entry, a full
disk) after which the compile went on.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Union

Kind = Literal["graph", "frame"]


class Reason(enum.Enum):
    """Why something was not a hit. The value is the text that users read and machines match."""

    # Miss
    ABSENT = "no entry has this key"
    GUARD = "entries with this key exist, but their shape guards do not hold"
    REFRESH = "mode is 'refresh': entries are written, never read"
    UNUSABLE = "the entry could not be used"
    SCHEDULE = "the entry's offload schedule does not do here"
    CHANGED = "entries of this frame exist, but what it reads has changed"
    # Bypass
    UNKNOWN_CALLABLE = "the graph calls code that the key cannot identify"
    UNKNOWN_OBJECT = "the graph holds an object that the key cannot identify"
    UNKNOWN_STATE = "an ambient setting is on that the key does not cover"
    UNCACHEABLE_OP = "the graph has an operator that torch marks as not cacheable"
    CUSTOM_PASS = "a custom compiler pass is set that the key cannot identify"
    BACKEND = "the backend does not compile through AOTAutograd's cache"
    TORCH_OFF = "torch's own switches turn caching off"
    FRAME_GUARD = "the frame depends on something that cannot be compared with another process"
    FRAME_CODE = "the frame runs code that cannot be found again in another process"
    FRAME_GLOBAL = "the frame's result loads something that cannot be rebuilt"
    FRAME_GRAPH = "a graph of the frame is not cached"
    FRAME_STATE = "something is active that a stored frame does not describe"
    FRAME_SKIPPED = "Dynamo does not compile this frame"
    # Refused
    SETTING = "a setting is not valid"
    DIRECTORY = "the cache directory cannot be used"
    # Failed
    DAMAGED = "the entry is damaged"
    FOREIGN = "the entry was written by another torch, format or machine"
    LOAD = "the entry could not be loaded"
    WRITE = "the entry could not be written"
    CPU = "kernels cannot be compiled for the CPU level that was asked for"
    NOT_SERIALIZABLE = "the compiled graph cannot be stored"
    INTERNAL = "the cache itself failed"
    VERIFY = "a verified hit is not what a fresh compile gives"
    UNVERIFIED = "a hit could not be verified"


@dataclass(frozen=True)
class Hit:
    kind: Kind
    key: str
    seconds: float
    saved: float = 0.0
    """Compile time, in seconds, that the entry's first compile took; 0 if the hit was verified, and so saved none."""
    entry: str = ""
    """The name in the store of what was hit, as far as it is known."""
    verified: bool = False
    """Compared with a fresh compile (AOT_CACHE_VERIFY); a Failed says so where that could not be done."""


@dataclass(frozen=True)
class _WithReason:
    kind: Kind
    key: str | None
    seconds: float
    reason: Reason
    detail: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{type(self).__name__.lower()} of a {self.kind}: {self.reason.value}"
        if self.detail:
            text += f": {self.detail}"
        return f"{text} ({self.remedy})" if self.remedy else text


class Miss(_WithReason):
    """Compiled, and stored for the next process."""


class Bypass(_WithReason):
    """Compiled without the cache: something is not known to be covered by the key."""


class Refused(_WithReason):
    """Compiled without the cache: the cache itself may not be used (directory, setting)."""


class Failed(_WithReason):
    """Trouble on the way; the compile went on."""


Outcome = Union[Hit, Miss, Bypass, Refused, Failed]


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome as plain values, with the same names for every kind; seconds, and no reason for a hit."""
    if isinstance(outcome, Hit):
        reason, detail, remedy = None, "", ""
    else:
        reason, detail, remedy = outcome.reason.value, outcome.detail, outcome.remedy
    return {
        "outcome": type(outcome).__name__.lower(),
        "kind": outcome.kind,
        "key": outcome.key,
        "seconds": outcome.seconds,
        "reason": reason,
        "detail": detail,
        "remedy": remedy,
    }


_COUNTED_AS = {"Hit": "hit", "Miss": "miss", "Bypass": "bypass", "Refused": "bypass"}
_NAMES = tuple(f"{kind}_{what}" for kind in ("graph", "frame") for what in ("hit", "miss", "bypass")) + ("error",)


class Ledger:
    """The outcomes of this process, in order; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Outcome] = []
        self._listeners: list[Callable[[Outcome], None]] = []

    def add(self, outcome: Outcome) -> None:
        with self._lock:
            self._events.append(outcome)
        for listener in self._listeners:
            listener(outcome)

    def listen(self, listener: Callable[[Outcome], None]) -> None:
        """Have `listener`, which may not raise, called with every outcome from now on."""
        self._listeners.append(listener)

    def events(self) -> list[Outcome]:
        with self._lock:
            return list(self._events)

    def clear(self) -> None:
        with self._lock:
            self._events.clear()

    def stats(self) -> dict[str, int]:
        """Counts by name; always all of `graph_hit graph_miss graph_bypass frame_hit frame_miss frame_bypass error`."""
        counts = dict.fromkeys(_NAMES, 0)
        for event in self.events():
            what = _COUNTED_AS.get(type(event).__name__)
            counts["error" if what is None else f"{event.kind}_{what}"] += 1
        return counts


LEDGER = Ledger()
