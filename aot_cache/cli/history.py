"""What the hook noted of processes, as the hook's `history` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..key.parts import KeyPart
from ..store import runs
from .entries import key_of


@dataclass(frozen=True)
class Event:
    """One outcome: when (seconds since the epoch), what, and why. key, name and parts are empty if not known."""

    time: float
    outcome: str
    kind: str
    key: str
    name: str
    reason: str
    detail: str
    remedy: str
    parts: tuple[KeyPart, ...]


@dataclass(frozen=True)
class Process:
    """What one process, of the script `program`, reported, oldest first; whether it hit. started: epoch seconds."""

    started: float
    pid: int
    program: str
    events: tuple[Event, ...]
    hit: bool


def processes(directory: Path) -> list[Process]:
    """The processes that reported something readable, latest start first.

    Raises:
        StoreError: the reports cannot be read.
    """
    return [found for run in runs.runs(directory) if (found := _process(run)).events or found.hit]


def _process(run: runs.Run) -> Process:
    program = next((str(line["program"]) for line in run.events if line.get("program")), "")
    events = tuple(_events(run))
    others = tuple(event for event in events if event.outcome != "hit")
    return Process(run.started, run.pid, program, others, len(others) < len(events))


def _events(run: runs.Run) -> Iterator[Event]:
    for line in run.events:
        try:
            yield _event(line)
        except (KeyError, TypeError, ValueError, AttributeError):  # of another version of this program
            continue


def _event(line: Any) -> Event:
    return Event(
        time=float(line["time"]),
        outcome=str(line["outcome"]),
        kind=str(line["kind"]),
        key=key_of(str(line["key"] or "")),
        name=str(line["name"]),
        reason=str(line["reason"]),
        detail=str(line["detail"]),
        remedy=str(line["remedy"]),
        parts=tuple(KeyPart.from_json(part) for part in line["parts"]),
    )
