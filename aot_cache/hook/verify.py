"""Verify mode: a share of the hits is compiled afresh; both functions are run on copies of the first call's inputs."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from ..artifact.envelope import Manifest
from ..errors import StoreError, VerificationFailed, told
from ..key.parts import digest
from ..outcome import Failed, Reason
from ..settings import Settings
from ..store import quarantine
from ..store.base import Store
from ..torch_compat.trial import Trial, same_bits
from ..torch_compat.verify import Function, Settle, is_tuned
from .graph_entries import Pending

log = logging.getLogger("aot_cache")

# A fresh result that was the same twice, but is not the cached one, gets so many more chances to be another.
MORE_RUNS = 3
# One draw a process: a graph that is looked up twice is judged once.
_DRAW = os.urandom(16).hex()


class End(Protocol):
    def __call__(
        self, kind: type[Any], key: str | None, started: float, reason: Reason, *text: str, of: Pending | None = None
    ) -> None: ...


class Wrong(Protocol):
    """An entry, a graph's or a frame's, that was found to be wrong; `data` are its bytes."""

    @property
    def name(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def manifest(self) -> Manifest: ...


@dataclass(frozen=True)
class Suspect:
    """An entry that was hit and is to be verified."""

    name: str
    data: bytes
    manifest: Manifest
    pending: Pending


class NotComparable(Exception):
    """Not even two runs of the fresh compile agree."""


class Verifier:
    """Picks hits and settles them; `end` notes an outcome."""

    def __init__(self, settings: Settings, end: End) -> None:
        self._rate, self._directory, self._end = settings.verify, settings.directory, end
        self._warned = False

    def picks(self, key: str) -> bool:
        """Whether hits of this key are verified in this process."""
        if int(digest(f"{_DRAW} {key}".encode()), 16) >= self._rate * 2**128:
            return False
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            # A collective that only some ranks run once more would never end.
            if not self._warned:
                log.warning("aot_cache: hits are not verified in a job of several ranks")
            self._warned = True
            return False
        return True

    def settle(self, entry: tuple[str, bytes, Manifest, Pending], cached: Function, store: Store | None) -> Settle:
        """What verifies the entry on the first call of its function.

        entry: its name, its bytes, what it says of itself, and the look-up. store: None if nothing may be written.
        """
        suspect = Suspect(*entry)

        def settle(compile_afresh: Callable[[], Function]) -> Function:
            try:
                fresh, tuned = compile_afresh(), is_tuned()
            except Exception as error:
                self._could_not(suspect, f"the fresh compile fails: {told(error)}")
                return cached
            return _Undecided(cached, fresh, functools.partial(self._judge, suspect, store, tuned))

        return settle

    def _judge(
        self, suspect: Suspect, store: Store | None, tuned: bool, cached: Function, fresh: Function, inputs: list[Any]
    ) -> None:
        """Raises VerificationFailed if the cached function computes something else."""
        started = time.perf_counter()
        try:
            differences = compare(Trial(inputs), fresh, cached, tuned)
        except Exception as error:
            self._could_not(suspect, str(error) if isinstance(error, NotComparable) else told(error))
            return
        if differences:
            self._fail(suspect, store, differences, started)

    def _could_not(self, suspect: Suspect, why: str) -> None:
        log.warning("aot_cache: the hit of %s is used without verification: %s", suspect.pending.name, why)
        self._end(Failed, suspect.name, time.perf_counter(), Reason.UNVERIFIED, why, of=suspect.pending)

    def _fail(self, suspect: Suspect, store: Store | None, differences: Mapping[str, str], started: float) -> None:
        texts = [f"{what}: {how}" for what, how in differences.items()]
        done, report = put_away(self._directory, suspect, store, differences)
        error = VerificationFailed(suspect.name, suspect.pending.name, texts, done, report)
        self._end(Failed, suspect.name, started, Reason.VERIFY, "; ".join(texts), done, of=suspect.pending)
        log.error("aot_cache: %s", error)
        raise error


def put_away(
    directory: Path, suspect: Wrong, store: Store | None, differences: Mapping[str, str]
) -> tuple[str, Path | None]:
    """Move a wrong entry into quarantine; says what was done, and where the report is. No store: only reading."""
    if store is None:
        return "The entry stays where it is: the cache is open for reading only", None
    said: list[str] = []
    report: Path | None = None
    try:
        report = quarantine.put(directory, suspect.name, suspect.data, _report(suspect, differences))
        said.append(f"The entry was copied to {report.with_suffix('')}")
    except StoreError as error:
        said.append(f"The entry could not be kept: {error}")
    try:
        store.delete(suspect.name)
        said.append("it was removed from the cache, and the next process compiles")
    except StoreError as error:
        said.append(f"it could not be removed from the cache: {error}")
    return "; ".join(said), report


Judge = Callable[[Function, Function, list[Any]], None]


class _Undecided:
    """Stands for both functions until the first call has judged them; after that, calls go straight to the one."""

    def __init__(self, cached: Function, fresh: Function, judge: Judge) -> None:
        self._cached, self._fresh, self._judge = cached, fresh, judge
        self._mutex = threading.RLock()
        self._chosen: Function | None = None

    def __call__(self, inputs: list[Any]) -> Any:
        if self._chosen is None:
            with self._mutex:
                if self._chosen is None:
                    self._decide(inputs)
        assert self._chosen is not None
        return self._chosen(inputs)

    def _decide(self, inputs: list[Any]) -> None:
        try:
            self._judge(self._cached, self._fresh, inputs)
        except VerificationFailed:
            # Whoever goes on all the same goes on with what is right.
            self._chosen = self._fresh
            raise
        else:
            self._chosen = self._cached
        finally:
            if self._chosen is not None:
                del self._cached, self._fresh, self._judge


def compare(trial: Trial, fresh: Function, cached: Function, tuned: bool) -> dict[str, str]:
    """By name, how each value of the cached function is not what the fresh one gives; empty if all agree.

    Bit by bit, unless the fresh one differs from itself or is `tuned` for speed: then within torch.testing's own
    tolerances for the dtype.

    Raises:
        NotComparable: the fresh one differs from itself by more than that. Also what `fresh` raises.
    """
    expected = trial.run(fresh)
    exact = _agrees_with_itself(expected, trial.run(fresh)) and not tuned
    try:
        found = trial.run(cached)
    except Exception as error:
        return {"the cached function": f"raises {told(error)}, the fresh one does not"}
    differing = _differing(expected, found)
    for _ in range(MORE_RUNS if differing and exact else 0):
        exact = exact and _agrees_with_itself(expected, trial.run(fresh))
    return {
        name: _how(expected.get(name, "nothing"), found.get(name, "nothing"))
        for name in differing
        if exact or not _is_close(expected.get(name), found.get(name))
    }


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    names = dict.fromkeys([*one, *other])
    return [name for name in names if not (name in one and name in other and same_bits(one[name], other[name]))]


def _agrees_with_itself(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    differing = _differing(one, other)
    for name in differing:
        if not _is_close(one.get(name), other.get(name)):
            raise NotComparable(f"{name} of a fresh compile is not the same twice")
    return not differing


def _is_close(expected: Any, found: Any) -> bool:
    if not (isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor)):
        return False
    try:
        torch.testing.assert_close(found, expected, equal_nan=True)
    except AssertionError:
        return False
    return True


def _how(expected: Any, found: Any) -> str:
    """How large the difference is."""
    if not (isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor)):
        said = ["a tensor" if isinstance(value, torch.Tensor) else str(value) for value in (found, expected)]
        return f"{said[0]} instead of {said[1]}"
    if expected.shape != found.shape or expected.dtype != found.dtype or expected.device != found.device:
        return "a tensor of another kind"
    wide = torch.complex128 if expected.is_complex() else torch.float64
    apart = (found.cpu().to(wide) - expected.cpu().to(wide)).abs()
    finite = apart[apart.isfinite()]
    largest = f"{finite.max().item():.6g}" if finite.numel() else "not a number"
    count = int((found != expected).sum())
    return f"{count} of {expected.numel()} elements differ, by up to {largest}"


def _report(suspect: Wrong, differences: Mapping[str, str]) -> dict[str, Any]:
    manifest = suspect.manifest
    return {
        "time": time.time(),
        "entry": suspect.name,
        "name": manifest.name,
        "differences": dict(differences),
        "created": manifest.created,
        "facts": dict(manifest.facts),
        "parts": [part.to_json() for part in manifest.parts],
    }
