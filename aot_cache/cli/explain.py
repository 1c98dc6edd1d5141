"""Say why something was compiled.

Without KEY: what the last process reported: each miss with the entry most like it, as the cache was then, and what
differs; each bypass with the operator, its source line and the remedy; each failure. If it was warm, which is said, the
same of the last one before it that was not. A process in mode `readonly` leaves no report.
With one KEY: the other entry most like it, what differs, and what processes reported of the key.
With two: what differs from the first to the second.

The answer is no if a KEY is not known or not unique; every explanation is a yes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..artifact.alike import LOOKED_AT, recent
from ..artifact.envelope import Manifest
from ..key.parts import DIGEST, Difference, KeyPart, code_of, diff, nearest
from ..outcome import Reason
from ..store.readonly import ReadonlyStore
from . import report
from .entries import FRAME, GRAPH, key_of, load, not_one, prefixes_of, reading, resolve
from .graph_text import changed_lines
from .history import Event, Process, processes

HELP = "say why something was compiled, or what differs between two keys"


@dataclass(frozen=True)
class Known:
    """A key of which the parts are known, from an entry or from a report of a miss."""

    key: str
    name: str
    parts: tuple[KeyPart, ...]


def add(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("key", metavar="KEY", nargs="?", help="explain this one; a unique prefix is enough")
    parser.add_argument("other", metavar="KEY", nargs="?", help="say what differs from the first to this one")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    store = reading(settings)
    reported = processes(settings.directory)
    if arguments.key is None:
        _print(_last(store, reported), arguments.json)
        if settings.mode == "readonly":
            report.note("a process in mode readonly leaves no report: run it in mode readwrite to have it explained")
        return 0
    found = [_find(store, reported, key) for key in (arguments.key, arguments.other) if key is not None]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return 1
    _print(_one(store, reported, known[0]) if len(known) == 1 else _two(store, *known), arguments.json)
    return 0


# -- the answers, as they are given to a program -----------------------------------------------------------------------


def _last(store: ReadonlyStore, reported: Sequence[Process]) -> dict[str, Any]:
    warm = reported[0] if reported and not reported[0].events else None
    last = next((process for process in reported if process.events), None)
    events = Counter(_without_time(event) for event in last.events) if last else Counter()
    firsts = {_without_time(event): event for event in reversed(last.events)} if last else {}
    kinds = {_kind(event.key) for event in firsts.values() if event.parts}
    stored = {kind: list(recent(store, kind)) for kind in kinds}
    return {
        "warm": warm and _process(warm),
        "process": last and _process(last),
        "events": [
            _explained(store, firsts[same], times, stored.get(_kind(firsts[same].key), ()))
            for same, times in events.items()
        ],
        "looked_at": max(map(len, stored.values()), default=0),
    }


def _process(process: Process) -> dict[str, Any]:
    return {"started": process.started, "pid": process.pid, "program": process.program}


def _kind(key: str) -> str:
    return FRAME if key.startswith(FRAME) else GRAPH


def _without_time(event: Event) -> tuple[str, ...]:
    return event.outcome, event.key, event.name, event.reason, event.detail, event.remedy


def _explained(store: ReadonlyStore, event: Event, times: int, stored: Sequence[Manifest]) -> dict[str, Any]:
    answer = {name: value for name, value in asdict(event).items() if name != "parts"} | {"times": times}
    # What was published later, the entry of this very miss included, explains nothing.
    before = [one for one in stored if one.created < event.time]
    if event.reason == Reason.ABSENT.value:
        answer |= _nearest(store, event, before, alike_only=True)
    elif event.reason == Reason.GUARD.value:
        answer["guards"] = [one.guards for one in before if one.key == event.key]
    return answer


def _one(store: ReadonlyStore, reported: Sequence[Process], known: Known) -> dict[str, Any]:
    stored = list(recent(store, _kind(known.key)))
    reports = [
        {"pid": process.pid, "program": process.program, "time": event.time}
        | {name: getattr(event, name) for name in ("outcome", "reason", "detail", "remedy")}
        for process in reported
        for event in process.events
        if event.key == known.key
    ]
    answer = {"key": known.key, "name": known.name, **_nearest(store, known, stored), "reports": reports}
    return answer | {"looked_at": len(stored)}


def _two(store: ReadonlyStore, old: Known, new: Known) -> dict[str, Any]:
    return {"old": old.key, "new": new.key, "of": new.name} | _differences(store, old, new)


def _nearest(
    store: ReadonlyStore, of: Known | Event, stored: Sequence[Manifest], alike_only: bool = False
) -> dict[str, Any]:
    """The entry most like `of`; with `alike_only`, none that has neither its content nor its name."""
    near = nearest(of.name, of.parts, stored)
    same = _same(of, near) if near else None
    if near is None or alike_only and same is None:
        return {"nearest": None, "differences": [], "lines": []}
    key = FRAME + near.key if _kind(of.key) == FRAME else near.key
    about = {"key": key, "name": near.name, "created": near.created, "same": same}
    return {"nearest": about} | _differences(store, near, of)


def _differences(store: ReadonlyStore, old: Known | Manifest, new: Known | Event) -> dict[str, Any]:
    found = diff(old.parts, new.parts)
    lines = changed_lines(store, old.key, new.key) if any(one.part == "graph" for one in found) else []
    return {"differences": [asdict(one) for one in found], "lines": lines}


def _same(of: Known | Event, near: Manifest) -> str | None:
    for what in ("graph", "frame"):
        found = [{part.digest for part in parts if part.name == what} for parts in (of.parts, near.parts)]
        if found[0] & found[1]:
            return what
    if (code := code_of(of.parts)) and code == code_of(near.parts):
        return "code"
    return "name" if of.name == near.name else None


def _name(key: str) -> str:
    return key if key.startswith(FRAME) else GRAPH + key


def _find(store: ReadonlyStore, reported: Sequence[Process], wanted: str) -> Known | None:
    """The one key that starts so; None after saying why there is not one."""
    prefixes = prefixes_of(wanted)
    entries = [entry for prefix in prefixes for entry in store.entries(prefix)]
    events = [event for process in reported for event in process.events if event.parts]
    misses = {e.key: e for e in events if _name(e.key).startswith(tuple(prefixes))}
    keys = sorted({key_of(entry.name) for entry in entries} | misses.keys())
    if len(keys) != 1:
        report.note(f"aot-cache explain: {not_one(wanted, keys)}")
        return None
    stored = [loaded[0] for entry in entries if (loaded := load(store, entry))]
    made = next((one.manifest for one in stored if one.manifest), None) or misses.get(keys[0])
    if made is None:
        problem = next((one.problem for one in stored), "it was removed just now")
        report.note(f"aot-cache explain: the entry of {keys[0]} cannot be read: {problem}")
        return None
    return Known(keys[0], made.name, made.parts)


# -- the same for a person and for a pipe ------------------------------------------------------------------------------


def _print(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        report.as_json(answer)
        return
    for number, one in enumerate(answer.get("events", [answer])):
        if number:
            report.say("")
        report.facts(_rows(one))
    if "process" in answer:
        report.note(_about(answer))
    elif not answer["differences"]:
        report.note("nothing differs" if "old" in answer else "there is no entry of another key")
    if answer.get("looked_at", 0) >= LOOKED_AT:
        report.note(f"only the {LOOKED_AT} entries that were used last were compared")


def _about(answer: dict[str, Any]) -> str:
    warm, process = answer["warm"], answer["process"]
    if warm is None and process is None:
        return "no process has reported anything yet"
    if process is None:
        return f"the last run was warm: {_who(warm)} hit, and compiled nothing"
    counts: Counter[str] = Counter()
    for event in answer["events"]:
        counts[event["outcome"]] += event["times"]
    said = f"{_who(process)}: " + ", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items()))
    return f"the last run was warm: {_who(warm)} hit, and compiled nothing; before it, {said}" if warm else said


def _who(process: dict[str, Any]) -> str:
    started = report.show(process["started"], "time", True)
    return f"{report.printable(process['program'] or 'a program')} (process {process['pid']}, {started})"


def _rows(one: dict[str, Any]) -> Iterator[report.Fact]:
    for name in ("outcome", "name", "key", "reason", "detail", "remedy"):
        if one.get(name):
            yield name, one[name], "key" if name == "key" else "text"
    if one.get("times", 1) > 1:
        yield "times", one["times"], "count"
    yield from (("guards", guards or "none", "text") for guards in one.get("guards", ()))
    if "nearest" in one:
        yield from _nearest_rows(one["nearest"])
    differences = [_said(Difference(**difference), one) for difference in one.get("differences", ())]
    yield from report.bounded("differs", differences)
    yield from report.bounded("line", one.get("lines", ()))
    for past in one.get("reports", ()):
        why = "; ".join(past[name] for name in ("detail", "remedy") if past[name])
        yield "reported", past["time"], "time"
        yield f"reported.{past['outcome']}", f"{past['reason']}{': ' if why else ''}{why}", "text"


def _said(difference: Difference, one: Mapping[str, Any]) -> str:
    """The code of a frame, and a graph whose lines are shown, are known by digests, which say nothing to a person."""
    if (difference.part, difference.name) == ("frame", "code"):
        return f"code of `{one.get('name') or one.get('of')}` changed"
    if (difference.part, difference.name) == ("graph", DIGEST) and one.get("lines"):
        return "graph: the lines below"
    return str(difference)


def _nearest_rows(near: dict[str, Any] | None) -> Iterator[report.Fact]:
    if near is None:
        yield "nearest", "none with this graph or this name", "text"
        return
    yield "nearest", near["key"], "key"
    yield "nearest.made", near["created"], "time"
    yield "nearest.same", near["same"] or "neither graph nor name", "text"
