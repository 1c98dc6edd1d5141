"""Read every entry completely and check the index against the files.

The answer is no while anything damaged is left: with --fix it is removed, and the answer is yes.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from . import report
from .entries import deleting, fault, reading, resolve

HELP = "check every entry; --fix removes what is damaged"

_COLUMNS: tuple[tuple[str, report.Kind], ...] = (("entry", "text"), ("problem", "text"), ("size", "size"))


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="delete what is damaged")
    parser.add_argument("--dry-run", action="store_true", help="with --fix: delete nothing, say what would go")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    fix = arguments.fix and not arguments.dry_run
    store = deleting(settings, dry_run=False) if fix else reading(settings)
    sizes: list[int] = []

    def check(name: str, data: bytes) -> str | None:
        sizes.append(len(data))
        step(len(sizes))
        return fault(name, data)

    with report.progress("checking entry") as step:
        problems = store.verify(check, fix)
    if arguments.json:
        checked = {"count": len(sizes), "bytes": sum(sizes)}
        report.as_json({"checked": checked, "problems": [asdict(one) for one in problems]})
    else:
        if problems:
            report.table(_COLUMNS, [(one.name, one.what, one.bytes) for one in problems])
        if arguments.fix:
            gone = [one for one in problems if one.fixed or not fix]
            report.deleted(len(gone), sum(one.bytes for one in gone), dry_run=not fix)
    report.note(f"checked {report.entries(sizes)}; problems: {len(problems)}")
    return 0 if all(one.fixed for one in problems) else 1
