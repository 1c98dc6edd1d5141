"""One frame: recorded after Dynamo compiled it, compared with a live frame, put in place of a compile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..artifact.envelope import Manifest
from ..artifact.frame import Frame
from ..errors import AotCacheError, ForeignEntry, MissAsserted, told
from ..key import fingerprint, fingerprint_calls, fingerprint_found, fingerprint_keys, fingerprint_places
from ..key import fingerprint_process, fingerprint_sharing, fingerprint_text, parts
from ..key.callables import once
from ..key.encode import CannotKey
from ..outcome import Reason
from ..torch_compat import frames, frames_dynamic, frames_guards, frames_install, frames_sources

# So many differences say what happened; what follows from them would only be noise.
_MOST_CHANGES = 3


class Changed(AotCacheError):
    """The live frame is not as the stored one was; says what is different."""


class Unusable(AotCacheError):
    """A stored frame needs something that cannot be read."""


@dataclass
class Picked(BaseException):
    """A stored frame that agrees with the live one and is to be verified; no `except Exception` on its way keeps it."""

    name: str
    data: bytes
    manifest: Manifest
    frame: Frame


@dataclass
class Live:
    """The live frame, found to agree with a stored one."""

    sources: list[Any]
    installed: frames_install.Installed


def check_belongs(manifest: Manifest, key: parts.CacheKey) -> None:
    """Before anything is rebuilt: the entry is of exactly this key, torch build and machine included."""
    mine, theirs = ([(p.name, p.digest) for p in found] for found in (key.parts, manifest.parts))
    if manifest.key != key.digest or mine != theirs:
        raise ForeignEntry(f"the entry says it is of key {manifest.key}, not {key.digest}")


def gave_up(error: BaseException | None) -> str:
    """Why Dynamo does not compile a frame of which it raises `error`; '' if a hit was asserted, and so it only stopped."""
    said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:200]
    while error is not None:
        if isinstance(error, MissAsserted):
            return ""
        error = error.__cause__ or error.__context__
    return said


@once()
def record(call: frames.Call, trace: frames.Trace, result: Any, added: frozenset[str]) -> Frame:
    """What a later process needs instead of Dynamo.

    Raises:
        CannotKey: part of it cannot be written down, or not be compared.
    """
    if trace.doubts:
        raise CannotKey(Reason.FRAME_GUARD, "; ".join(dict.fromkeys(trace.doubts)))
    if trace.seen is None:
        raise CannotKey(Reason.FRAME_GUARD, "its guards were not seen")
    try:
        plain = frames_install.take(call, trace, result, added)
        guards = frames_guards.write(trace.seen, trace.shapes)
        table = frames_sources.Table.of(guards.sources)
        rows = _unguarded(trace, table, guards)
    except frames_install.UnknownGlobal as error:
        raise CannotKey(Reason.FRAME_GLOBAL, str(error)) from None
    except (frames_guards.UnknownGuard, frames_sources.UnknownSource) as error:
        raise CannotKey(Reason.FRAME_GUARD, str(error)) from None
    _check_shapes(guards, plain)
    listing = any(map(fingerprint_places.lists_attributes, {call.code, *(part.code for part in trace.inlined)}))
    seen = _Look(guards, frames_sources.rebuild(guards.sources, {}), call, listing)
    prints = [seen.guard(row) for row in guards.guards]
    read = seen.rows()
    unguarded = [[row, told] for row, see in rows if (told := see(seen, row))]
    same, storage = seen.sharing(read.union(row for row, _ in unguarded))
    return Frame(
        guards=guards,
        result=plain,
        prints=prints,
        unguarded=unguarded,
        same=same,
        storage=storage,
        listing=listing,
        absent=fingerprint_places.absent(call.code, call.globals),
        places=[*fingerprint_places.places(call, trace.inlined, seen.prints.codes), *_asked(call, trace)],
        called=fingerprint_calls.called(trace.called),
        sizes=frames_dynamic.remembered(call.code, call.closure, seen.place),
    )


def _unguarded(
    trace: frames.Trace, table: frames_sources.Table, guards: frames_guards.Plain
) -> list[tuple[int, Callable[[_Look, int], str]]]:
    """What Dynamo read without a guard: rows of `table`, each with how it is described, '' if it need not be."""
    simple = ((_Look.unguarded, trace.unguarded), (_Look.keys, trace.looped), (_Look.met, trace.met))
    ways = [(source, see) for see, sources in simple for source in dict.fromkeys(sources)]
    ways += [(source, partial(_Look.lacks, what=what)) for source, what in dict.fromkeys(trace.lacking)]
    ways += [(source, partial(_Look.checked, cls=cls)) for source, cls in dict.fromkeys(trace.checked)]
    own = {(row, arguments["attr"]) for row, kind, arguments in guards.guards if kind == _NOT_OWN}
    looked = [(source, name) for source, name in dict.fromkeys(trace.found) if (table.add(source), name) not in own]
    ways += [(source, partial(_Look.found, name=name)) for source, name in looked]
    return [(table.add(source), see) for source, see in ways]


def _asked(call: frames.Call, trace: frames.Trace) -> Iterator[list[Any]]:
    """What was looked for without a guard, as data for `fingerprint_places.moved`."""
    yield from fingerprint_places.attributes(trace.asked)
    codes = [(call.code, call.globals), *((part.code, part.globals) for part in trace.inlined)]
    yield from fingerprint_process.environment(codes)
    yield from fingerprint_process.built_in(codes)
    yield from fingerprint_places.loaded(codes)
    yield from fingerprint_process.installed(trace.sought)


def _check_shapes(guards: frames_guards.Plain, plain: frames_install.Plain) -> None:
    # Names that are new in every process would have to be replaced inside these expressions.
    for name in (*plain.modules, *plain.resumes, *plain.graphs, plain.builtins or "\0"):
        if any(name in text for text in guards.shapes):
            raise CannotKey(Reason.FRAME_GUARD, f"a guard on shapes that reads {name}")


_MET, _NOT_OWN = "met ", "NOT_PRESENT_IN_GENERIC_DICT"


class _Look:
    """One pass over the values that a frame's guards look at."""

    def __init__(self, guards: frames_guards.Plain, sources: Sequence[Any], call: frames.Call, listing: bool) -> None:
        self._sources, self._scope, self._closure = sources, call.scope(), call.closure
        self._cache: dict[Any, Any] = {}
        self._values: dict[int, Any] = {}
        self.prints = fingerprint.Fingerprints({sources[row]: sizes for row, sizes in guards.sizes}, listing)

    def guard(self, guard: Sequence[Any]) -> str:
        """The fingerprint of what one guard sees; raises CannotKey, or whatever reading the source raises."""
        row, kind, plain = guard
        source, arguments = self._sources[row], frames_guards.live_arguments(plain, self._sources)
        return self._named(source, lambda: self.prints.of(kind, arguments, self._read(row), source))

    def unguarded(self, row: int) -> str:
        return self._named(self._sources[row], lambda: self.prints.unguarded(self._read(row)))

    def keys(self, row: int) -> str:
        return self._named(self._sources[row], lambda: self.prints.keys(self._read(row)))

    def lacking(self, row: int, what: str) -> str:
        return self._named(self._sources[row], lambda: fingerprint_keys.lacking(self._read(row), what))

    def lacks(self, row: int, what: str) -> str:
        """As `lacking`; raises CannotKey if it is there, after Dynamo did not find it."""
        if not (told := self.lacking(row, what)).startswith(fingerprint_keys.LACKS):
            raise fingerprint.unknown(f"it {told}, which Dynamo did not find")
        return told

    def found(self, row: int, name: str) -> str:
        return fingerprint_found.found(self._read(row), name)

    def checked(self, row: int, cls: type) -> str:
        return self._named(self._sources[row], lambda: fingerprint_found.checked(self._read(row), cls))

    def met(self, row: int) -> str:
        """Read, so that `same` counts it."""
        return f"{_MET}{type(self._read(row)).__name__}"

    def unguarded_as(self, row: int, before: str) -> str:
        """What `before` says of the value, as it is now."""
        if before.startswith(fingerprint_keys.LACKS):
            return self.lacking(row, before.removeprefix(fingerprint_keys.LACKS))
        if before.startswith(fingerprint_found.FOUND):
            return fingerprint_found.found_as(self._read(row), before)
        if before.startswith(fingerprint_found.CHECKED):
            return fingerprint_found.checked_as(self._read(row), before)
        if before.startswith(fingerprint_keys.MARK):
            return self.keys(row)
        return self.met(row) if before.startswith(_MET) else self.unguarded(row)

    def place(self, name: str) -> int | None:
        """The row of the source with this name, if a guard looked at it."""
        return next((row for row in self._values if frames_sources.describe(self._sources[row]) == name), None)

    def value(self, row: int | None) -> Any:
        """What the guards saw there."""
        return None if row is None else self._values.get(row)

    def _read(self, row: int) -> Any:
        source = self._sources[row]
        if not source.name:  # a guard on state, not on a value
            return None
        if row not in self._values:
            self._values[row] = frames_sources.read(source, self._scope, self._cache)
        return self._values[row]

    def _named(self, source: Any, make: Callable[[], str]) -> str:
        try:
            return make()
        except CannotKey as error:
            where = frames_sources.describe(source)
            raise CannotKey(error.reason, f"{where}: {error.detail}", error.remedy) from None

    def rows(self) -> set[int]:
        return set(self._values)

    def sharing(self, rows: set[int]) -> tuple[list[int], list[list[str]]]:
        values = [self._values[row] for row in sorted(rows)]
        return fingerprint_sharing.same(values, self._closure), fingerprint_sharing.shared_storage(values)


@contextmanager
def compare(frame: Frame, call: frames.Call) -> Iterator[Live]:
    """The live frame with the stored one's globals in place, if all that the stored one read is as it was.

    The globals go away again if anything is raised.

    Raises:
        Changed: something is not as it was, or cannot be read any more.
    """
    places, called = map(fingerprint_places.moved, frame.places), map(fingerprint_calls.changed, frame.called)
    changes = itertools.chain([fingerprint_places.shadowed(frame.absent, call.globals)], places, called)
    if change := next(filter(None, changes), ""):
        raise Changed(change)
    installed = frames_install.Installed(call, frame.result)
    try:
        installed.globals()
        sources = frames_sources.rebuild(frame.guards.sources, installed.names)
        look = _Look(frame.guards, sources, call, frame.listing)
        _compare_values(frame, look, sources)
        if name := frames_dynamic.differs(call.code, call.closure, frame.sizes, look.value):
            raise Changed(f"what Dynamo has seen of `{name}`: it would take other sizes for dynamic")
        yield Live(sources, installed)
    except BaseException as error:
        installed.undo()
        if isinstance(error, frames_install.UnknownGlobal):
            raise Changed(str(error)) from None
        raise


@once()
def _compare_values(frame: Frame, look: _Look, sources: Sequence[Any]) -> None:
    changes: dict[tuple[str, str], str] = {}
    for guard, before in zip(frame.guards.guards, frame.prints):
        _agree(changes, sources[guard[0]], before, lambda: look.guard(guard))
    for row, before in frame.unguarded:
        _agree(changes, sources[row], before, lambda: look.unguarded_as(row, before))
    if changes:
        raise Changed("; ".join(changes.values()))
    same, storage = look.sharing(look.rows())
    if same != frame.same:
        raise Changed("other values are the same object, or other functions share a variable")
    if storage != frame.storage:
        raise Changed("other tensors share memory")


def _agree(changes: dict[tuple[str, str], str], source: Any, before: str, see: Callable[[], str]) -> None:
    """Add to `changes`, unless it is known or there are enough, what a guard sees that is not as `before`."""
    try:
        now = see()
    except Exception as error:  # the value is gone, or has no fingerprint here
        now = told(error)
    if now != before:
        changes.setdefault((before, now), fingerprint_text.change(frames_sources.describe(source), before, now))
        if len(changes) == _MOST_CHANGES:
            raise Changed("; ".join(changes.values()))


def install(frame: Frame, live: Live, call: frames.Call, graphs: dict[str, Callable[..., Any]]) -> Any:
    """Dynamo's result for the live frame.

    Raises:
        Changed: torch's own guards, built from the live values, do not hold.
    """
    for name, function in graphs.items():
        live.installed.graph(name, function)
    builtins = live.installed.names.get(frame.result.builtins, "")
    manager = frames_guards.build(call.code, frame.guards, live.sources, call.scope(), builtins, call.cache_entries)
    if not manager.check(dict(call.locals)):
        raise Changed("torch's own guards do not hold")
    frames_dynamic.remind(call.code, call.closure, frame.sizes)
    return live.installed.finish(manager)
