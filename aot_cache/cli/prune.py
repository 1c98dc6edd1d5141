"""Delete what was not used for long, and the least recently used entries until the rest fits the size limit."""

from __future__ import annotations

import argparse
from importlib import metadata

from ..errors import SettingError
from ..settings import parse_size
from ..store.base import Entry
from ..store.readonly import ReadonlyStore
from . import report
from .entries import FRAME, GRAPH, JOINT, all_of, deleting, parse_age, reading, resolve

HELP = "delete stale entries, and what exceeds the size limit"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", metavar="SIZE", help="the size to fit (default: AOT_CACHE_SIZE_LIMIT)")
    parser.add_argument("--older-than", metavar="AGE", help="also delete what was not used for so long (30d, 12h, ...)")
    parser.add_argument("--other-torch", action="store_true", help="only delete what another torch version compiled")
    parser.add_argument("--dry-run", action="store_true", help="delete nothing, say what would go")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    limit = settings.size_limit if arguments.size is None else parse_size("--size", arguments.size)
    age = None if arguments.older_than is None else parse_age("--older-than", arguments.older_than)
    if arguments.other_torch and (arguments.size or arguments.older_than):
        # Their dry runs would count an entry twice.
        report.note("aot-cache prune: --other-torch goes alone: run prune once more for the rest")
        return 2
    store = deleting(settings, arguments.dry_run)
    if arguments.other_torch:
        other = _of_other_torch(reading(settings), _installed_torch())
        sizes = [entry.size for entry in other if arguments.dry_run or store.delete(entry.name)]
        gone = len(sizes), sum(sizes)
    else:
        gone = store.prune(limit, age, arguments.dry_run)
    report.deleted(*gone, arguments.dry_run)
    return 0


def _of_other_torch(store: ReadonlyStore, installed: str) -> list[Entry]:
    readable = [(one.entry, one.manifest) for one in all_of(store, GRAPH, FRAME, JOINT) if one.manifest]
    return [entry for entry, manifest in readable if not _same_torch(manifest.facts.get("torch", ""), installed)]


def _installed_torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise SettingError("--other-torch", True, "used where torch is installed") from None


def _same_torch(compiled: str, installed: str) -> bool:
    # torch calls itself 2.13.0+cu130 where its distribution may say 2.13.0 only.
    return compiled == installed or ("+" not in installed and compiled.partition("+")[0] == installed)
