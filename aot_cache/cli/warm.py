"""Run a command with the cache on, and say what its processes found in the cache and what they had to compile.

The exit code is that of the command (128 + N if signal N ended it), or 1 if it went well but missed too often: graphs
count, because a frame that is not found is traced, and compiles nothing if its graphs are. The report goes to stderr;
with --json it goes to stdout, and what the command writes to its stdout goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from ..errors import SettingError, StoreError
from ..settings import Settings
from ..store.opening import open_store
from ..store.readonly import ReadonlyStore
from . import last_run, report
from .entries import reading, resolve
from .tally import FRAME_ENDS, GRAPH_ENDS, Ends, Share, Tally, tally

HELP = "run a command with the cache on, and report"

_NOT_FOUND, _NOT_RUN, _SIGNAL = 127, 126, 128


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-misses", metavar="N", type=_count, help="answer no if more graphs missed the cache")
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.add_argument("command", metavar="-- COMMAND", nargs="+", help="what to run, with its arguments")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    store = reading(settings)
    began, started = time.time(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="aot-cache-warm-") as directory:
        path = Path(directory) / "report.jsonl"
        path.touch(0o600)
        try:
            code = _run(arguments.command, _environment(settings, path), to_stderr=arguments.json)
        except OSError as error:
            report.note(f"aot-cache warm: {report.printable(arguments.command[0])}: {error.strerror or error}")
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN
        found = tally(path, store, began)
    seconds = time.monotonic() - started
    verdict = "" if arguments.max_misses is None else _verdict(found, arguments.max_misses)
    if arguments.json:
        warm = None if arguments.max_misses is None else not verdict
        about = {"command": arguments.command, "exit_code": code, "seconds": seconds}
        report.as_json({**about, "warm": warm, "cache_seen": bool(found.processes), **found.to_json()})
    else:
        _print(found, code, seconds)
    if not found.processes:
        remedy = "`aot-cache doctor`, run with the command's Python, may say why"
        report.note(f"aot-cache warm: no process of the command compiled with the cache there: {remedy}")
    _record(settings, arguments.command, found)
    if verdict:
        report.note(f"aot-cache warm: {verdict}")
    return code or bool(verdict)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of graphs, at least 0")
    return int(text)


def _environment(settings: Settings, path: Path) -> dict[str, str]:
    return os.environ | {
        "AOT_CACHE": "1",
        "AOT_CACHE_DIR": str(settings.directory),
        "AOT_CACHE_REPORT": str(path),
    }


def _run(command: Sequence[str], environment: dict[str, str], to_stderr: bool) -> int:
    """The exit code of the command, as a shell gives it. Raises OSError if it cannot be started."""
    report.flush()
    process = subprocess.Popen(command, env=environment, stdout=2 if to_stderr else None)
    with _signals_for(process):
        code = process.wait()
    return code if code >= 0 else _SIGNAL - code


@contextmanager
def _signals_for(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """What would end this process ends the command instead, so that there is still a report of what it did."""

    def forward(number: int, frame: FrameType | None) -> None:
        # A terminal sends ^C to the command as well as to this process.
        if number != signal.SIGINT:
            process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _verdict(found: Tally, limit: int) -> str:
    """Why the answer is no; empty if it is yes."""
    if not found.processes:
        return "nothing says that the cache was on, so --max-misses does not hold"
    # A refusal is a miss of everything: the directory could not be used.
    missed = found.graphs.compiled.count + found.graphs.count("refused")
    if missed > limit:
        frames = f" (and {report.number(count, 'frame')})" if (count := found.frames.compiled.count) else ""
        return f"{report.number(missed, 'graph')}{frames} missed the cache, --max-misses allows {limit}"
    return ""


def _record(settings: Settings, command: Sequence[str], found: Tally) -> None:
    """Remember what was used for `export --last-run`, where something may be written."""
    if settings.mode == "readonly" or not found.processes:
        return
    with suppress(SettingError, StoreError):
        store = open_store(settings).store
        if not isinstance(store, ReadonlyStore):
            last_run.write(store, shlex.join(command), time.time(), found.used)


def _print(found: Tally, code: int, seconds: float) -> None:
    report.note(f"aot-cache warm: exit code {code} after {report.human_seconds(seconds)}")
    if not found.processes:
        return
    graphs, frames = found.graphs, found.frames
    _print_share(graphs.hit, "hit", "of compiling saved")
    _print_share(graphs.compiled, "compiled", "to compile")
    _print_reasons(graphs, GRAPH_ENDS.values())
    if frames.hit.count or frames.others:
        report.note("  frames, their graphs included where they hit:")
        _print_share(frames.hit, "hit", "of tracing saved")
        _print_reasons(frames, FRAME_ENDS.values())


def _print_share(share: Share, what: str, of: str) -> None:
    size, seconds = report.human_size(share.bytes), report.human_seconds(share.seconds)
    report.note(f"  {share.count:6} {what:<9} {size:>8}  {seconds} {of}")


def _print_reasons(ends: Ends, what: Iterable[str]) -> None:
    for name in what:
        for text, count in ends.reasons(name):
            report.note(f"  {count:6} {name:<9} {report.printable(text)}")
