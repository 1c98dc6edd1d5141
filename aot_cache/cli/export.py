"""Write graphs, and the kernels they need, to one file that `aot-cache import` reads on another machine.

A frame takes its graphs along. Equal entries give an equal file. FILE may be - for stdout. Damaged entries, and those
whose kernels or graphs are gone, are left out and named.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from ..artifact import archive
from ..errors import EnvelopeError, SettingError, StoreError
from ..store.base import Entry
from ..store.readonly import ReadonlyStore
from . import last_run, report
from .entries import FRAME, GRAPH, parse_age, reading, resolve

HELP = "write entries to one file"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the archive to write, - for stdout")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--since", metavar="WHEN", help="only what was used since: 2h, 3d ago, or an ISO date and time")
    which.add_argument("--last-run", action="store_true", help="only what the last `aot-cache warm` used")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    if arguments.file == "-" and report.on_terminal():
        report.note("aot-cache export: an archive is no text for a terminal: redirect stdout, or give a FILE")
        return 2
    since = None if arguments.since is None else _moment(arguments.since)
    store = reading(settings)
    wanted: Callable[[Entry], bool] = lambda entry: since is None or entry.used >= since
    if arguments.last_run:
        last = last_run.read(store)
        if last is None:
            report.note("aot-cache export: no run is on record: run `aot-cache warm -- COMMAND` first")
            return 1
        ended = report.human_age(time.time() - last.ended)
        report.note(f"exporting what `{report.printable(last.command)}` used, which ended {ended}")
        wanted = lambda entry: last.has(entry.name)
    names = _complete(store, wanted)
    if not names:
        report.note("aot-cache export: nothing to export, no file was written")
        return 1
    with _target(arguments.file) as (file, spool), report.progress("writing entry") as step:
        rows = archive.write(file, names, store.get, spool, step)
    _report(arguments.file, rows)
    return 0


def _complete(store: ReadonlyStore, wanted: Callable[[Entry], bool]) -> set[str]:
    """The names of the wanted graphs and frames that are whole, and of what they need."""
    names: set[str] = set()
    kernels: dict[str, str | None] = {}
    with report.progress("checking entry") as step:
        found = [entry.name for prefix in (GRAPH, FRAME) for entry in filter(wanted, store.entries(prefix))]
        for number, name in enumerate(found, 1):
            try:
                names |= _whole(store, name, kernels)
            except (EnvelopeError, StoreError) as error:
                report.note(f"left out {name}: {report.printable(str(error))}")
            step(number)
    return names


def _whole(store: ReadonlyStore, name: str, kernels: dict[str, str | None]) -> set[str]:
    """The entry's name and those of what it needs; none if it is gone. kernels: what is wrong with each, once read.

    Raises:
        EnvelopeError: it is damaged, or what it needs is.
    """
    if (data := store.get(name)) is None:  # another process removed it just now
        return set()
    one, names = archive.entry(name, data), {name}
    for graph in sorted(one.graphs):
        if not (needed := _whole(store, graph, kernels)):
            raise EnvelopeError(f"its graph {graph} is gone")
        names |= needed
    for kernel in one.kernels - kernels.keys():
        kernels[kernel] = _fault(store, kernel)
    if faults := [fault for kernel in sorted(one.kernels) if (fault := kernels[kernel])]:
        raise EnvelopeError(faults[0])
    return names | one.kernels


def _fault(store: ReadonlyStore, kernel: str) -> str | None:
    data = store.get(kernel)
    if data is None:
        return f"its kernel library {kernel} is gone"
    try:
        archive.check_kernel(kernel, data)
    except EnvelopeError as error:
        return str(error)
    return None


def _moment(text: str) -> float:
    """Seconds since the epoch from `2h` (ago) or an ISO date and time, local unless it names an offset."""
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*[A-Za-z]+\s*", text):
        return time.time() - parse_age("--since", text)
    try:
        # Python 3.10 does not know Z.
        return datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip())).timestamp()
    except (ValueError, OverflowError, OSError):
        raise SettingError("--since", text, "an age such as 2h or 3d, or a time such as 2026-01-31T09:00") from None


@contextlib.contextmanager
def _target(path: str) -> Iterator[tuple[BinaryIO, str | None]]:
    """A file to write to that takes its place when all is well, and the directory for temporary files beside it."""
    if path == "-":
        yield sys.stdout.buffer, None
        sys.stdout.buffer.flush()
        return
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            # A device or a pipe cannot be replaced.
            with open(path, "wb") as file:
                yield file, None
            return
        final = Path(os.path.realpath(path))
        temporary = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(temporary.open("xb"))
            stack.callback(temporary.unlink, missing_ok=True)
            yield file, str(final.parent)
            file.close()
            os.replace(temporary, final)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def _report(path: str, rows: dict[str, archive.Row]) -> None:
    sizes: dict[str, list[int]] = {"graphs": [], "frames": [], "kernels": []}
    for name, row in rows.items():
        what = "graphs" if name.startswith(GRAPH) else "frames" if name.startswith(FRAME) else "kernels"
        sizes[what].append(row.size)
    if not sizes["frames"]:
        del sizes["frames"]
    if path == "-":
        report.note("exported " + "; ".join(f"{what}: {report.entries(found)}" for what, found in sizes.items()))
        return
    facts: list[report.Fact] = [("file", path, "text"), ("bytes", os.path.getsize(path), "size")]
    for what, found in sizes.items():
        facts += [(what, len(found), "count"), (f"{what}.bytes", sum(found), "size")]
    report.facts(facts)
