"""What the last processes reported, beside their entries: a file of JSON lines each, the newest few of them.

runs/20260131T095959.123456Z-4711.jsonl       when the process started, and its id
runs/20260131T095959.123456Z-4711.hits.jsonl  that it hit: apart, so that warm processes push out no other's report
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .base import store_errors
from .locks import make_private

KEPT = 20
# Beyond this many bytes a process has said enough.
FILE_LIMIT = 2 * 2**20
_FOLDER = "runs"
_FILENAME = re.compile(r"(\d{8}T\d{6}\.\d{6})Z-(\d+)(\.hits)?\.jsonl")
_TIME = "%Y%m%dT%H%M%S.%f"


@dataclass(frozen=True)
class Run:
    """One process: when it started (seconds since the epoch), its id, and what it reported, oldest first."""

    started: float
    pid: int
    events: tuple[Mapping[str, Any], ...]


def append(directory: Path, started: float, pid: int, event: Mapping[str, Any], hit: bool = False) -> None:
    """Add one event to the file of a process, or of its hits; a new file removes those of old runs. Raises StoreError."""
    line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    folder = directory / _FOLDER
    time = datetime.fromtimestamp(started, timezone.utc).strftime(_TIME)
    path = folder / f"{time}Z-{pid}{'.hits' if hit else ''}.jsonl"
    with store_errors("write", path):
        make_private(folder)
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size + len(line) <= FILE_LIMIT:
                # One write, so that the lines of two threads do not mix.
                os.write(descriptor, line)
        finally:
            os.close(descriptor)
        if size == 0:
            _remove_old(folder, hit)


def runs(directory: Path) -> list[Run]:
    """What is there, newest first; a line that was cut short is left out. Raises StoreError."""
    folder = directory / _FOLDER
    with store_errors("read", folder):
        found = [read for name in _names(folder) if (read := _read(folder, name))]
    merged: dict[tuple[float, int], Run] = {}
    for run in found:
        same = merged.get((run.started, run.pid))
        merged[run.started, run.pid] = Run(run.started, run.pid, same.events + run.events) if same else run
    return list(merged.values())


def _names(folder: Path) -> list[str]:
    """File names, newest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(filter(_FILENAME.fullmatch, names), reverse=True)


def _remove_old(folder: Path, hit: bool) -> None:
    for name in [name for name in _names(folder) if _of_hits(name) is hit][KEPT:]:
        with suppress(FileNotFoundError):
            os.unlink(folder / name)


def _of_hits(name: str) -> bool:
    return _FILENAME.fullmatch(name)[3] is not None  # type: ignore[index]


def _read(folder: Path, name: str) -> Run | None:
    time, pid, _ = _FILENAME.fullmatch(name).groups()  # type: ignore[union-attr]
    try:
        lines = (folder / name).read_bytes().splitlines()
        started = datetime.strptime(time, _TIME).replace(tzinfo=timezone.utc).timestamp()
    except (FileNotFoundError, ValueError):  # another process removed it just now; not a time
        return None
    events = tuple(event for line in lines if isinstance(event := _parsed(line), dict))
    return Run(started, int(pid), events)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
