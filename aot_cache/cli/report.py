"""Output manners: data to stdout, the rest to stderr; aligned for a person, tab-separated and in full for a program."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, TextIO

from ..units import size as human_size

Kind = Literal["text", "key", "count", "size", "time", "seconds"]
Fact = tuple[str, Any, Kind]
"""Title, value, and how to show the value."""

# Seconds between two signs of progress, and before the first.
_PAUSE = 0.2
# So many texts of one title on a terminal; a program gets all.
_SHOWN = 20
_AGES = ((86400 * 365, "y"), (86400, "d"), (3600, "h"), (60, "min"))


def say(text: str) -> None:
    """Data: one piece of text, with a newline, to stdout."""
    _write(sys.stdout, text)


def note(text: str, end: str = "\n") -> None:
    """Anything that is not data, to stderr."""
    _write(sys.stderr, text, end)


def as_json(data: Any) -> None:
    """Sizes in bytes, durations in seconds, times in seconds since the epoch."""
    say(json.dumps(data, indent=2))


def table(columns: Sequence[tuple[str, Kind]], rows: Iterable[Sequence[Any]]) -> None:
    """Rows under titles for a person; for a program the rows alone, so that `cut` and `wc -l` need no exception."""
    person = on_terminal()
    lines = [[show(value, kind, person) for value, (_, kind) in zip(row, columns)] for row in rows]
    if person:
        lines.insert(0, [title for title, _ in columns])
    _lines(lines, [kind not in ("text", "key") for _, kind in columns], person)


def facts(rows: Iterable[Fact]) -> None:
    """One `title value` a line."""
    person = on_terminal()
    lines = [[title, show(value, kind, person)] for title, value, kind in rows]
    _lines(lines, [False, False], person)


def bounded(title: str, texts: Sequence[str]) -> Iterator[Fact]:
    """One fact a text; a person gets the first ones, and how many more there are."""
    shown = texts[:_SHOWN] if on_terminal() else texts
    yield from ((title, text, "text") for text in shown)
    if len(shown) < len(texts):
        yield title, f"... and {len(texts) - len(shown)} more (--json has all)", "text"


def deleted(count: int, size: int, dry_run: bool) -> None:
    """What a deleting verb did, or would do."""
    verb = "would delete" if dry_run else "deleted"
    say(f"{verb} {counted(count, size)}" if on_terminal() else f"{verb}\t{count}\t{size}")


def entries(sizes: Sequence[int]) -> str:
    """`3 entries (1.2 MB)`, for a sentence."""
    return counted(len(sizes), sum(sizes))


def counted(count: int, size: int) -> str:
    """The same of a count and bytes."""
    return f"{count} {'entry' if count == 1 else 'entries'} ({human_size(size)})"


def number(count: int, noun: str) -> str:
    """`1 graph`, `2 graphs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def on_terminal() -> bool:
    """Whether a person reads the data."""
    return is_terminal(sys.stdout)


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def show(value: Any, kind: Kind, person: bool) -> str:
    """One value as text: short for a person, complete for a program."""
    if value is None:
        return "-" if person else ""
    if kind == "size":
        return human_size(value) if person else str(value)
    if kind == "time":
        return human_age(time.time() - value) if person else _iso(value)
    if kind == "seconds":
        return human_seconds(value) if person else f"{value:.6g}"
    text = printable(str(value))
    return text[:12] if person and kind == "key" else text


def human_age(seconds: float) -> str:
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"


def human_seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def printable(text: str, keep: str = "") -> str:
    """`text` without characters that would break a table or steer a terminal; those in `keep` stand."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """Yields `step(done)`, which shows a count on stderr if that is a terminal, a few times a second."""
    live, due, shown = is_terminal(sys.stderr), time.monotonic() + _PAUSE, False

    def step(done: int) -> None:
        nonlocal due, shown
        if live and time.monotonic() >= due:
            due, shown = time.monotonic() + _PAUSE, True
            note(f"\r{what} {done}", end="")

    try:
        yield step
    finally:
        if shown:
            note("\r\x1b[K", end="")


def flush() -> None:
    """Send what is buffered while a failure can still be reported; a reader that has gone is no failure."""
    _write(sys.stdout, "", end="")
    if sys.stdout is not None:
        _quiet_pipe(sys.stdout, sys.stdout.flush)


def _write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    if stream is not None:
        _quiet_pipe(stream, lambda: stream.write(text + end))


def _quiet_pipe(stream: TextIO, action: Callable[[], object]) -> None:
    # A verb whose reader has gone still finishes its work and gives its answer; the rest of the text goes nowhere.
    try:
        action()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _lines(lines: list[list[str]], right: Sequence[bool], person: bool) -> None:
    for line in _aligned(lines, right) if person else lines:
        say("  ".join(line).rstrip() if person else "\t".join(line))


def _aligned(lines: list[list[str]], right: Sequence[bool]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [[cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right)] for line in lines]


def _iso(value: float) -> str:
    try:
        return datetime.fromtimestamp(value, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a damaged row may say any number
        return str(value)
