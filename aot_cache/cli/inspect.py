"""List the stored graphs and frames, or show one: its facts, guards, key parts and sections.

Columns of the list, newest use first: key (of a frame: f-...), variant (the digest of a graph's guards, or of a frame),
made, kind, name, hits, size, saved (seconds), used, guards and graphs (of a frame: how many), problem.
Of one frame: the keys of its graphs, the code that it runs, and each guard with its source, kind and what it saw.
With --schedule, of one graph: its offload plan's record and timeline, a text that `aot_cache.offload` takes as a plan.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..artifact.envelope import Envelope
from ..errors import EnvelopeError, OffloadError
from ..store.base import Entry
from ..store.readonly import ReadonlyStore
from . import frame_text, plan_text, report
from .entries import FRAME, GRAPH, JOINT, KERNEL, Stored, all_of, key_of, load, not_one, prefixes_of, reading, resolve

HELP = "list the stored graphs and frames, or show one"

_TEXT = "text."
# Characters of one value of `extra`; a longer one is counted.
_LONGEST = 200
_COLUMNS: tuple[tuple[str, report.Kind], ...] = (
    ("key", "key"),
    ("variant", "key"),
    ("made", "time"),
    ("kind", "text"),
    ("name", "text"),
    ("hits", "count"),
    ("size", "size"),
    ("saved", "seconds"),
    ("used", "time"),
    ("guards", "count"),
    ("graphs", "count"),
    ("problem", "text"),
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", nargs="?", help="show this one; a unique prefix is enough")
    parser.add_argument("--graph", action="store_true", help="with KEY: print the graph and its generated source too")
    parser.add_argument("--schedule", action="store_true", help="with KEY: print the graph's offload plan instead")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="with --schedule: draw the plan into FILE too")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    store = reading(resolve(arguments))
    if arguments.svg and not arguments.schedule:
        return _usage("--svg needs --schedule")
    if arguments.schedule and arguments.graph:
        return _usage("--schedule and --graph show different things: give one of them")
    if arguments.key is not None:
        return _show(store, arguments)
    if arguments.graph or arguments.schedule:
        return _usage(f"{'--graph' if arguments.graph else '--schedule'} needs a KEY")
    return _list(store, arguments.json)


def _usage(wrong: str) -> int:
    report.note(f"aot-cache inspect: {wrong}")
    return 2


def _list(store: ReadonlyStore, as_json: bool) -> int:
    found = sorted(all_of(store, GRAPH, FRAME), key=lambda one: one.entry.used, reverse=True)
    names = (("graphs", False), ("frames", True))
    kinds = {what: [one for one in found if one.is_frame is frames] for what, frames in names}
    kernels, joints = ([entry.size for entry in store.entries(prefix)] for prefix in (KERNEL, JOINT))
    if as_json:
        sizes = (("kernels", kernels), ("joints", joints))
        totals = {what: {"count": len(held), "bytes": sum(held)} for what, held in sizes}
        report.as_json({what: [one.to_json() for one in ones] for what, ones in kinds.items()} | totals)
    else:
        _print_list(found)
        said = [f"{what}: {report.entries([one.entry.size for one in ones])}" for what, ones in kinds.items() if ones]
        said += [f"joint graphs: {report.entries(joints)}"] if joints else []
        report.note("; ".join([*said, f"kernels: {report.entries(kernels)}"]))
    return 1 if any(one.problem for one in found) else 0


def _print_list(found: Sequence[Stored]) -> None:
    columns = list(_COLUMNS)
    if report.on_terminal():
        # What says nothing here would only make the lines longer.
        if len({one.key for one in found}) == len(found):
            columns.remove(("variant", "key"))
        if not any(one.problem for one in found):
            columns.remove(("problem", "text"))
        if not any(one.is_frame for one in found):
            columns = [column for column in columns if column[0] not in ("guards", "graphs")]
    rows = [one.to_json() for one in found]
    for row in rows:
        row["graphs"] = len(row["graphs"]) if row.get("graphs") else None
    if rows:
        report.table(columns, [[row.get(title) for title, _ in columns] for row in rows])


def _show(store: ReadonlyStore, arguments: argparse.Namespace) -> int:
    entries = [entry for prefix in prefixes_of(arguments.key) for entry in store.entries(prefix)]
    keys = sorted({key_of(entry.name) for entry in entries})
    if len(keys) != 1:
        report.note(f"aot-cache inspect: {not_one(arguments.key, keys)}")
        return 1
    if arguments.schedule:
        return _show_plans(store, entries, arguments)
    shown = [_describe(store, *found, arguments.graph) for entry in entries if (found := load(store, entry))]
    if arguments.json:
        report.as_json({"frames" if keys[0].startswith(FRAME) else "graphs": shown})
    else:
        for number, one in enumerate(shown):
            _print_one(one, first=number == 0)
    # None is left if another process removed them just now.
    return 1 if not shown or any(one["problem"] for one in shown) else 0


def _show_plans(store: ReadonlyStore, entries: Sequence[Entry], arguments: argparse.Namespace) -> int:
    """The plans of one key's entries, which differ in their guards; 1 if one has none, or it is damaged."""
    plans: dict[str, plan_text.Planned] = {}
    for entry in entries:
        try:
            found = load(store, entry)
            if found and found[0].problem:
                raise EnvelopeError(found[0].problem)
            planned = plan_text.read(found[1].manifest.extra) if found and found[1] else None
        except (EnvelopeError, OffloadError) as error:
            report.note(f"aot-cache inspect: {entry.name}: {report.printable(str(error))}")
            continue
        if planned is None:
            report.note(f"aot-cache inspect: {entry.name} has no offload schedule: it was compiled without one")
        else:
            plans[entry.name] = planned
    if arguments.json:
        report.as_json({"schedules": [{"name": name, **plan.to_json()} for name, plan in plans.items()]})
    else:
        for name, plan in plans.items():
            report.say(report.printable(f"{plan.text}" if len(entries) == 1 else f"# {name}\n{plan.text}", keep="\n"))
    if arguments.svg and not _draw(plans, arguments.svg):
        return 1
    return 0 if plans and len(plans) == len(entries) else 1


def _draw(plans: dict[str, plan_text.Planned], target: Path) -> bool:
    if len(plans) > 1:
        report.note("\n  ".join([f"aot-cache inspect: {len(plans)} plans, and one drawing: give one of", *plans]))
    if len(plans) != 1:
        return False
    try:
        target.write_text(next(iter(plans.values())).svg)
    except OSError as error:
        report.note(f"aot-cache inspect: nothing was drawn: {report.printable(str(error))}")
        return False
    return True


def _describe(store: ReadonlyStore, one: Stored, opened: Envelope | None, with_text: bool) -> dict[str, Any]:
    """All of one entry that can be read without torch."""
    described = one.to_json()
    if opened is None:
        return described
    made = opened.manifest
    described |= frame_text.describe(store, opened) if one.is_frame else {"guards": made.guards}
    described |= {
        "seconds": dict(made.seconds),
        "facts": dict(made.facts),
        "extra": dict(made.extra),
        "parts": [part.to_json() for part in made.parts],
        "sections": opened.sizes(),
    }
    try:
        opened.check()
        if with_text:
            texts = [name for name in opened.names if name.startswith(_TEXT)]
            described["text"] = {name: bytes(opened.section(name)).decode("utf-8", "replace") for name in texts}
    except EnvelopeError as error:
        described["problem"] = str(error)
    return described


def _print_one(one: dict[str, Any], first: bool) -> None:
    if not first:
        report.say("")
    report.facts(_rows(one))
    for name, text in one.get("text", {}).items():
        report.say(f"\n# {name}\n{report.printable(text.rstrip(), keep=chr(10) + chr(9))}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    if len(text) <= _LONGEST or not isinstance(value, (list, dict)):
        return text
    named = value.items() if isinstance(value, dict) else ()
    counts = [f"{name}: {len(one)}" for name, one in named if isinstance(one, (list, dict))]
    said = ", ".join(counts) or report.number(len(value), "value")
    return f"{said} (--json has all)"


def _rows(one: dict[str, Any]) -> Iterator[report.Fact]:
    """One flat list, so that every value has a name that can be searched for."""
    for title, kind in _COLUMNS:
        if title in ("guards", "graphs") or title == "problem" and not one["problem"]:
            continue
        yield title, one[title], "text" if kind == "key" else kind
    yield "guards", one.get("guards"), "text"
    if one["key"].startswith(FRAME):
        yield from frame_text.rows(one)
    yield from ((f"seconds.{phase}", value, "seconds") for phase, value in one.get("seconds", {}).items())
    yield from ((f"fact.{name}", value, "text") for name, value in one.get("facts", {}).items())
    extra = one.get("extra", {})
    if plan_text.SCHEDULE in extra:
        yield "plan", plan_text.summary(extra), "text"
    plain = (name for name in extra if name not in (plan_text.SCHEDULE, plan_text.PROBLEM))
    yield from ((f"extra.{name}", _short(extra[name]), "text") for name in plain)
    for part in one.get("parts", ()):
        yield f"part.{part['name']}", part["digest"], "text"
        yield from ((f"part.{part['name']}.{name}", value, "text") for name, value in part["summary"].items())
    yield from ((f"section.{name}", size, "size") for name, size in one.get("sections", {}).items())
