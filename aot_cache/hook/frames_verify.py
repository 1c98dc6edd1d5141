"""Verify mode for frames: a share of the hits is traced afresh, and what Dynamo makes of the frame now is compared.

The call goes on with the fresh result. Names that Dynamo numbers anew in every process are told apart by what they
stand for, not by their numbers.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

from ..artifact.frame import Frame
from ..errors import VerificationFailed
from ..key.encode import CannotKey
from ..outcome import Failed, Hit, Ledger, Reason
from ..settings import Settings
from ..store.base import Store
from ..torch_compat import frames, frames_install, frames_sources
from . import frames_record
from .verify import Verifier, put_away

log = logging.getLogger("aot_cache")
_SHOWN = 3
Traced = Callable[[], "tuple[Any, frames.Trace, frozenset[str]]"]
"""Has Dynamo compile the frame: its result, what it did, and the globals that compiles of this process added."""


class FrameVerifier:
    """Picks hits and judges them; `end` notes an outcome, `store` is None if nothing may be written."""

    def __init__(self, settings: Settings, ledger: Ledger, end: Callable[..., None]) -> None:
        self._directory, self._ledger, self._end = settings.directory, ledger, end
        self.picks = Verifier(settings, end).picks

    def settle(
        self, picked: frames_record.Picked, key: str, call: frames.Call, trace_it: Traced, store: Store | None
    ) -> Any:
        """Dynamo's own result, after the stored one was found to be the same: then it counts as a hit.

        Raises:
            VerificationFailed: it is not; the entry is in quarantine.
        """
        started = time.perf_counter()
        result, trace, added = trace_it()
        differences = compare(picked.frame, _fresh(call, result, trace, added))
        if differences:
            self._fail(picked, store, differences, started)
        self._ledger.add(Hit("frame", key, time.perf_counter() - started, entry=picked.name, verified=True))
        return result

    def _fail(
        self, picked: frames_record.Picked, store: Store | None, differences: Mapping[str, str], started: float
    ) -> None:
        texts = [f"{what}: {how}" for what, how in differences.items()]
        done, report = put_away(self._directory, picked, store, differences)
        of = picked.manifest.name, picked.manifest.parts
        self._end(Failed, picked.name, started, Reason.VERIFY, "; ".join(texts), done, of=of)
        error = VerificationFailed(picked.name, picked.manifest.name, texts, done, report)
        log.error("aot_cache: %s", error)
        raise error


def _fresh(call: frames.Call, result: Any, trace: frames.Trace, added: frozenset[str]) -> Frame | str:
    """What would be stored of a fresh trace; or why nothing would be."""
    if frames_install.guarded_code(result) is None:
        return "Dynamo does not compile the frame"
    try:
        frame = frames_record.record(call, trace, result, added)
    except CannotKey as error:
        return f"{error.reason.value}: {error.detail}"
    frame.graphs = {name: graph.key for name, graph in trace.graphs.items()}
    return frame


def compare(stored: Frame, fresh: Frame | str) -> dict[str, str]:
    """By what differs, how; empty if a fresh trace gives what is stored."""
    if isinstance(fresh, str):
        return {"the frame": f"a fresh trace is not stored: {fresh}"}
    sides = _described(stored), _described(fresh)
    return {what: _how(sides[0][what], sides[1][what]) for what in sides[0] if sides[0][what] != sides[1][what]}


def _how(stored: Counter[str], fresh: Counter[str]) -> str:
    only = {"stored": stored - fresh, "fresh": fresh - stored}
    return "; ".join(f"only {side}: {_listed(found.elements())}" for side, found in only.items() if found)


def _listed(texts: Iterable[str]) -> str:
    every = sorted(texts)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(text[:200] for text in every[:_SHOWN]) + more


def _described(frame: Frame) -> dict[str, Counter[str]]:
    """What decides whether and what a frame runs, as texts without names that are new in every process."""
    names, guards = _names(frame), frame.guards
    told = [frames_sources.describe(source) for source in frames_sources.rebuild(guards.sources, names)]

    def plain(value: Any) -> Any:
        return told[value["source"]] if isinstance(value, dict) and "source" in value else value

    def guard(row: int, kind: str, given: Mapping[str, Any]) -> str:
        return f"{told[row]} {kind} {[(name, plain(value)) for name, value in given.items()]}"

    texts = {
        "guards": [guard(*found) for found in guards.guards],
        "shape guards": guards.shapes,
        "aliases": [f"{kind} {_told(one, told)} {_told(other, told)}" for kind, one, other in guards.aliases],
        "fixed sizes": [f"{told[row]} {sorted(sizes.items())}" for row, sizes in guards.sizes],
        "ordered keys": [told[row] for row in guards.key_order],
        "reads without a guard": [told[row] for row, _ in frame.unguarded],
        "inlined code": [repr(row) for row in frame.places],
        "absent globals": frame.absent,
        "bytecode": _codes(frame, names),
        "graphs": [key.partition(".")[0] for key in frame.graphs.values()],
    }
    return {what: Counter(found) for what, found in texts.items()}


def _told(rows: Any, told: list[str]) -> Any:
    return [told[row] for row in rows] if isinstance(rows, list) else told[rows]


def _names(frame: Frame) -> dict[str, str]:
    """For each name that Dynamo made up, one that is the same in every process."""
    result = frame.result
    used = [name for code in (result.code, *result.resumes.values()) for name in _loaded(code)]
    found = {name: f"module {module}" for name, module in result.modules.items()}
    for what, names in (("graph", result.graphs), ("resume", result.resumes)):
        ordered = sorted(names, key=lambda name: (used.index(name) if name in used else len(used), name))
        found |= {name: f"{what} {number}" for number, name in enumerate(ordered)}
    return found | ({result.builtins: "builtins"} if result.builtins else {})


def _loaded(code: CodeType) -> list[str]:
    return [name for part in frames_install.parts(code) for name in part.co_names]


def _codes(frame: Frame, names: Mapping[str, str]) -> list[str]:
    result = frame.result
    codes = {"code": result.code} | {names[name]: code for name, code in result.resumes.items()}
    found = [f"{name}: {part}" for name, code in codes.items() for part in _instructions(code, names)]
    return [*found, *(f"effect {name}" for name in result.effects)]


def _instructions(code: CodeType, names: Mapping[str, str]) -> list[str]:
    """What a code object does; its local variables are numbers in it, and their names say nothing."""
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_flags)
    inner = [text for const in code.co_consts if isinstance(const, CodeType) for text in _instructions(const, names)]
    return [
        f"instructions {code.co_code.hex()} {getattr(code, 'co_exceptiontable', b'').hex()} {shape}",
        f"names {[names.get(name, name) for name in code.co_names]}",
        f"constants {[_constant(const, names) for const in code.co_consts]}",
        *inner,
    ]


def _constant(const: Any, names: Mapping[str, str]) -> str:
    if isinstance(const, CodeType):
        return f"code {const.co_name if const.co_name not in names else names[const.co_name]}"
    if isinstance(const, frozenset):
        return f"frozenset {sorted(_constant(item, names) for item in const)}"
    return f"{type(const).__name__} {names.get(const, const) if isinstance(const, str) else const!r}"
