"""Take the entries of an archive that `aot-cache export` wrote into the cache.

Everything in it is checked before anything is stored; a damaged archive changes nothing. What could not hit here
(another torch, another CPU) is skipped, and so is what is here already or in a newer version. An entry holds native
code that runs when it is used: import only what comes from somebody you trust. FILE may be - for stdin.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..artifact import archive
from ..errors import EnvelopeError, SettingError, StoreError
from ..key.machine import LEVELS, here, lacking
from ..settings import Settings
from ..store.base import LOW_WATER, Store
from ..store.opening import open_store
from ..store.readonly import ReadonlyStore
from . import report
from .entries import FRAME, key_of, reading, resolve

HELP = "take entries from a file"

# What an archive has beyond its values is never more than this.
_OVERHEAD = 2**27
_COLUMNS: tuple[tuple[str, report.Kind], ...] = (
    ("key", "key"),
    ("variant", "key"),
    ("name", "text"),
    ("size", "size"),
    ("result", "text"),
    ("reason", "text"),
)


@dataclass(frozen=True)
class Plan:
    """What becomes of one graph or frame: reason says why it is skipped, and is empty if it is not."""

    entry: archive.Carried
    size: int
    reason: str

    @property
    def is_frame(self) -> bool:
        return self.entry.name.startswith(FRAME)

    def to_json(self, dry_run: bool) -> dict[str, Any]:
        result = "skipped" if self.reason else "would import" if dry_run else "imported"
        return {
            "key": key_of(self.entry.name),
            "variant": self.entry.name.partition(".")[2],
            "name": self.entry.title,
            "size": self.size,
            "result": result,
            "reason": self.reason,
        }


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the archive to read, - for stdin")
    parser.add_argument("--dry-run", action="store_true", help="check all and store nothing, say what would come")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    settings = resolve(arguments)
    if settings.mode == "readonly" and not arguments.dry_run:
        raise SettingError("AOT_CACHE_MODE", settings.mode, "readwrite or refresh to import entries")
    store = reading(settings)
    # What an import stores may not make the store evict what the same import stored.
    limit = int(settings.size_limit * LOW_WATER)
    try:
        with _opened(arguments.file, limit) as file:
            opened = archive.Archive(file, limit)
            with report.progress("checking entry") as step:
                entries = opened.check(step)
            plans = [_plan(one, opened.rows[one.name].size, store) for one in entries]
            # The libraries go first: an entry that was published is complete.
            kernels = _lacking(plans, store)
            # A frame without its graphs would be a miss, so it follows them.
            coming = sorted((one for one in plans if not one.reason), key=lambda one: one.is_frame)
            names = kernels + [one.entry.name for one in coming]
            if names and not arguments.dry_run:
                _publish(opened, names, settings)
    except EnvelopeError as error:
        report.note(f"aot-cache import: {report.printable(arguments.file)}: {report.printable(str(error))}")
        return 1
    _report(plans, [opened.rows[name].size for name in kernels], arguments)
    return 0


def _plan(one: archive.Carried, size: int, store: Store) -> Plan:
    reason = "" if one.key_is_ours else "its key is of another version of aot_cache"
    reason = reason or _foreign(one.environment, here()) or _not_newer(one, store)
    return Plan(one, size, reason)


_HERE = "it is here already"
_KINDS = (("graphs", False), ("frames", True))


def _not_newer(one: archive.Carried, store: Store) -> str:
    try:
        mine = store.get(one.name)
        if mine is None:
            return ""
        found = archive.entry(one.name, mine)
        if found.digest == one.digest:
            return _HERE
        return "the one that is here is not older" if found.created >= one.created else ""
    except (EnvelopeError, StoreError):  # what is damaged here is replaced
        return ""


def _foreign(there: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Why an entry made in the environment `there` cannot hit in this one; empty if nothing is known against it."""
    if (level := there.get("cpu.level")) is not None:
        if level not in LEVELS:
            return f"another CPU: {level} is not known here"
        if missing := lacking(level):
            return f"another CPU: for {level}, this one lacks {' '.join(missing)}"
    for what, names in _DIFFERENCES.items():
        for name in names:
            theirs, ours = there.get(name), own.get(name)
            if theirs is not None and ours is not None and theirs != ours:
                return f"{what}: {_apart(theirs, ours)}"
    return ""


_DIFFERENCES = {
    "another torch": ("torch.torch", "torch.git", "torch.cuda", "torch.hip"),
    "another platform": ("machine",),
    "another CPU": ("cpu.vector",),
    "another Python": ("python",),
    "another triton": ("triton",),
    "another numpy": ("numpy",),
    "another sympy": ("sympy",),
}


def _apart(theirs: str, ours: str) -> str:
    """Two values, or of two lists of CPU features only what one has and the other has not."""
    there, own = theirs.split(), ours.split()
    if len(there) + len(own) < 8:
        return f"{theirs} there, {ours} here"
    only = {"there": sorted(set(there) - set(own)), "here": sorted(set(own) - set(there))}
    return ", ".join(f"only {side}: {' '.join(words)}" for side, words in only.items() if words)


def _lacking(plans: Sequence[Plan], store: Store) -> list[str]:
    """The libraries that the store lacks, or has damaged, of graphs that come or are here already."""
    needed = {kernel for one in plans if one.reason in ("", _HERE) for kernel in one.entry.kernels}
    return sorted(kernel for kernel in needed if not _has(store, kernel))


def _has(store: Store, kernel: str) -> bool:
    try:
        archive.check_kernel(kernel, store.get(kernel) or b"")
    except (EnvelopeError, StoreError):
        return False
    return True


def _publish(opened: archive.Archive, names: Sequence[str], settings: Settings) -> None:
    found = open_store(settings)
    if isinstance(found.store, ReadonlyStore):
        raise StoreError(f"nothing can be imported: {found.reason}")
    with report.progress("importing entry") as step:
        for number, name in enumerate(names, 1):
            found.store.put(name, opened.read(name))
            step(number)


@contextlib.contextmanager
def _opened(path: str, limit: int) -> Iterator[BinaryIO]:
    """The file, or a copy of it if it cannot seek. Raises SettingError if it cannot be opened."""
    with contextlib.ExitStack() as stack:
        file = sys.stdin.buffer if path == "-" else stack.enter_context(_open(path))
        if path != "-" and file.seekable():
            yield file
            return
        copy = stack.enter_context(tempfile.TemporaryFile())
        while piece := file.read(2**20):
            if copy.tell() + len(piece) > limit + _OVERHEAD:
                raise EnvelopeError(f"the archive is larger than the {limit} bytes that fit (AOT_CACHE_SIZE_LIMIT)")
            copy.write(piece)
        yield copy


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise SettingError("FILE", path, f"an archive that can be read ({error.strerror or error})") from None


def _report(plans: Sequence[Plan], kernels: Sequence[int], arguments: argparse.Namespace) -> None:
    rows = [one.to_json(arguments.dry_run) for one in plans]
    if arguments.json:
        totals = {"count": len(kernels), "bytes": sum(kernels)}
        kinds = {what: [row for row, one in zip(rows, plans) if one.is_frame is frames] for what, frames in _KINDS}
        report.as_json({**kinds, "kernels": totals, "dry_run": arguments.dry_run})
    elif rows:
        report.table(_COLUMNS, [[row[title] for title, _ in _COLUMNS] for row in rows])
    taken = [[one.size for one in plans if not one.reason and one.is_frame is frames] for _, frames in _KINDS]
    did = "would import" if arguments.dry_run else "imported"
    skipped = len(plans) - sum(map(len, taken))
    with_frames = f", frames: {report.entries(taken[1])}" if any(one.is_frame for one in plans) else ""
    note = f"{did} graphs: {report.entries(taken[0])}, with kernels: {report.entries(kernels)}{with_frames}"
    report.note(f"{note}; skipped: {skipped}")
