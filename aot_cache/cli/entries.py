"""What the verbs know of a store: which directory, which entries are graphs or frames, and what these say."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..artifact import frame_view
from ..artifact.envelope import Envelope, Manifest
from ..errors import EnvelopeError, SettingError, StoreError
from ..key.parts import digest
from ..settings import Settings
from ..store.base import Entry
from ..store.disk import DiskStore
from ..store.opening import check_directory
from ..store.readonly import ReadonlyStore
from .report import printable, progress

GRAPH, FRAME, KERNEL, JOINT = "g-", "f-", "k-", "j-"
"""What names start with; a joint graph is what graphs that differ in their offload plan are cut from."""
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_NAME = re.compile(r"[gfj]-([0-9a-f]{32})\.([0-9a-f]{16})")


@dataclass(frozen=True)
class Stored:
    """A graph or a frame: what the store says of it, and its manifest, or the problem that leaves it without one."""

    entry: Entry
    manifest: Manifest | None
    problem: str | None = None

    @property
    def is_frame(self) -> bool:
        return self.entry.name.startswith(FRAME)

    @property
    def key(self) -> str:
        return key_of(self.entry.name)

    @property
    def variant(self) -> str:
        """The digest of a graph's guards, or of a frame: what tells apart the entries of one key."""
        return self.entry.name.partition(".")[2]

    @property
    def saved(self) -> float:
        """Seconds that its hits saved: of compiling a graph, of tracing a frame."""
        return sum(self.manifest.seconds.values()) * self.entry.hits if self.manifest else 0.0

    def to_json(self) -> dict[str, Any]:
        made = self.manifest
        frame = {}
        if self.is_frame:
            frame = {"guards": made and made.extra.get("guards"), "graphs": made and _graphs(made)}
        return {
            "key": self.key,
            "variant": self.variant,
            "made": made and made.created,
            "name": made and made.name,
            "kind": made and made.kind,
            "hits": self.entry.hits,
            "size": self.entry.size,
            "saved": self.saved,
            "used": self.entry.used,
            "problem": self.problem,
            **frame,
        }


def _graphs(made: Manifest) -> list[str]:
    try:
        return list(frame_view.graphs(made))
    except EnvelopeError:
        return []


def key_of(name: str) -> str:
    """The key in an entry's name, as it is written everywhere: only a graph's is without its prefix."""
    return name.removeprefix(GRAPH).partition(".")[0]


def prefixes_of(wanted: str) -> list[str]:
    """What the names of entries start with whose key, in any spelling, starts with `wanted`."""
    wanted = wanted.lower()
    return [wanted] if wanted.startswith((GRAPH, FRAME, JOINT)) else [GRAPH + wanted, FRAME + wanted]


def resolve(arguments: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings, with `--dir` over the environment.

    Raises:
        SettingError: a value is not allowed.
    """
    given = arguments.dir
    # An empty path would be the current directory, and is more likely a variable that is not set.
    if given is not None and not given.strip():
        raise SettingError("--dir", given, "the path of a directory")
    try:
        return Settings.resolve({"directory": given}, environ)
    except SettingError as error:
        raise SettingError("--dir", error.value, error.allowed) if error.name == "directory" else error


def parse_age(option: str, text: str) -> float:
    """Seconds from `30d`, `12h`, `45min`. Raises SettingError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    if match is None or match[2] not in _SECONDS:
        raise SettingError(option, text, f"an age such as 30d or 12h (units: {', '.join(_SECONDS)})")
    return float(match[1]) * _SECONDS[match[2]]


def reading(settings: Settings) -> ReadonlyStore:
    """The store to look at: it marks nothing as used, and a directory that is not there yet is empty and stays away.

    Raises:
        UnsafeDirectory: somebody else could write the directory.
    """
    check_directory(settings.directory, readonly=True)
    return ReadonlyStore(settings.directory)


def deleting(settings: Settings, dry_run: bool) -> DiskStore:
    """The store to delete from; where there is no directory yet, it has nothing and makes none.

    Raises:
        SettingError: the mode is readonly and this is no dry run.
        UnsafeDirectory: somebody else could write the directory.
    """
    if settings.mode == "readonly" and not dry_run:
        raise SettingError("AOT_CACHE_MODE", settings.mode, "readwrite or refresh to delete entries")
    check_directory(settings.directory, readonly=dry_run or not settings.directory.exists())
    return DiskStore(settings.directory, settings.size_limit)


def all_of(store: ReadonlyStore, *prefixes: str) -> list[Stored]:
    """Every entry of these kinds, by name; one that another process removes meanwhile is left out."""
    found = []
    with progress("reading entry") as step:
        for number, entry in enumerate((e for prefix in prefixes for e in store.entries(prefix)), 1):
            step(number)
            if loaded := load(store, entry):
                found.append(loaded[0])
    return found


def load(store: ReadonlyStore, entry: Entry) -> tuple[Stored, Envelope | None] | None:
    """The entry, and what is in it unless that is damaged; None if it is gone. Its sections are not checked yet."""
    try:
        data = store.get(entry.name)
        if data is None:
            return None
        opened = envelope(entry.name, data)
        return Stored(entry, opened.manifest), opened
    except (EnvelopeError, StoreError) as error:
        return Stored(entry, None, str(error)), None


def envelope(name: str, data: bytes) -> Envelope:
    """The entry, opened; its sections are not checked yet.

    Raises:
        EnvelopeError: it is damaged, foreign, or not what its name says.
    """
    named = _NAME.fullmatch(name)
    if named is None:
        raise EnvelopeError("the name is not that of a graph, a frame or a joint graph")
    opened = Envelope(data)
    if opened.manifest.key != named[1]:
        raise EnvelopeError(f"the manifest has the key {opened.manifest.key}, not that of its name")
    return opened


def fault(name: str, data: bytes) -> str | None:
    """What is wrong with a value, read completely; None if it is what its name says."""
    if name.startswith(KERNEL):
        return None if digest(data) == name[len(KERNEL) :] else "the kernel library's digest is not its name"
    if not name.startswith((GRAPH, FRAME, JOINT)):
        return None
    try:
        envelope(name, data).check()
    except EnvelopeError as error:
        return str(error)
    return None


def not_one(key: str, keys: Sequence[str]) -> str:
    """What to say of a prefix that starts none or several `keys`."""
    shown = repr(printable(key))
    return (
        "\n  ".join([f"{shown} starts {len(keys)} keys:", *keys]) if keys else f"no graph or frame has the key {shown}"
    )
