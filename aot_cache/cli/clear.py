"""Delete every entry of the cache, those in quarantine too; the directory stays."""

from __future__ import annotations

import argparse
import sys

from ..store import quarantine
from . import report
from .entries import deleting, resolve

HELP = "delete everything"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="delete nothing, say what would go")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    asks = not (arguments.yes or arguments.dry_run)
    if asks and not report.is_terminal(sys.stdin):
        report.note("aot-cache clear: there is no terminal to ask on: give --yes to delete, or --dry-run to look")
        return 2
    store = deleting(settings, arguments.dry_run)
    if asks and not _agreed(*store.clear(dry_run=True), str(settings.directory)):
        report.note("nothing was deleted")
        return 1
    report.deleted(*store.clear(dry_run=arguments.dry_run), arguments.dry_run)
    files, size = quarantine.clear(settings.directory, arguments.dry_run)
    if files:
        report.note(f"in quarantine: {report.number(files, 'file')} ({report.human_size(size)})")
    return 0


def _agreed(count: int, size: int, directory: str) -> bool:
    report.note(f"Delete {report.counted(count, size)} from {report.printable(directory)}? [y/N] ", end="")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
