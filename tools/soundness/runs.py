"""Runs the table: sides with equal surroundings share one process, and what each must have seen is judged."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import child
import native
from table import Change, Expect

SIDE = Path(__file__).with_name("side.py")
ROOT = SIDE.parent.parent.parent
LIBRARIES = "SOUNDNESS_LIBRARIES"
Seen = dict[str, Any]
"""What side.py tells of one program."""


@dataclass
class Verdict:
    change: Change
    problems: list[str] = field(default_factory=list)
    spurious: bool = False
    silent: bool = False
    unsound: bool = False
    seen: dict[str, Seen] = field(default_factory=dict)


def run(
    changes: list[Change], home: Path, jobs: int = 2, frames: bool = False, took: dict[str, float] | None = None
) -> list[Verdict]:
    """Each change's `before` in one process, again in a second, `after` in a third, and `after` without any cache.

    frames: the cache keeps whole frames as well. took: gets the seconds of each stage's processes, added up.
    """
    if any(LIBRARIES in change.before for change in changes):
        child.say("building two libraries of operators")
        native.build(home / "libraries")
    first, second = [_Batch("before", {}, changes, frames)], [_Batch("again", {}, changes, frames)]
    for env, mine in _surroundings(changes):
        if mine:
            second.append(_Batch("after", env, mine, frames))
        # Surroundings that do not matter need no reference of their own.
        material = [c for c in mine if c.expect is not Expect.SAME_KEY]
        if not env:
            material += [c for c in changes if c.expect is Expect.SAME_KEY]
        if material:
            first.append(_Batch("reference", env, material))
    seen: dict[str, dict[str, Seen]] = {c.name: {} for c in changes}
    with ThreadPoolExecutor(jobs) as pool:
        for stage in (first, second):
            for batch, results in zip(stage, pool.map(lambda b: b.run(home), stage)):
                for name, result in results.items():
                    seen[name][batch.role] = result
                if took is not None:
                    took[batch.role] = took.get(batch.role, 0.0) + batch.seconds
    return [judge(change, seen[change.name], frames) for change in changes]


def stale(changes: list[Change], home: Path) -> dict[str, bool]:
    """Whether torch's own caches, with this one off, serve the second process what the first one compiled."""
    if any(LIBRARIES in change.before for change in changes):
        native.build(home / "libraries")
    plain = [c for c in changes if not c.env]
    before = _Batch("torch-before", {}, plain).run(home)
    after = _Batch("torch-after", {}, plain).run(home)
    reference = _Batch("reference", {}, plain).run(home)
    return {c.name: after[c.name]["values"] != reference[c.name]["values"] for c in plain if before[c.name]["values"]}


def _surroundings(changes: Iterable[Change]) -> list[tuple[dict[str, str], list[Change]]]:
    """Variables, and the changes that run with them; those that must not matter are set together where they can be."""
    found: list[tuple[dict[str, str], list[Change]]] = [({}, [])]
    for change in changes:
        env = dict(change.env)
        for there, mine in found:
            neutral = bool(env and there) and all(c.expect is Expect.SAME_KEY for c in (*mine, change))
            if there == env or neutral and all(there.get(name, value) == value for name, value in env.items()):
                there.update(env)
                mine.append(change)
                break
        else:
            found.append((env, [change]))
    return found


def _filled(env: Mapping[str, str], home: Path) -> dict[str, str]:
    return {name: value.replace("{home}", str(home)) for name, value in env.items()}


@dataclass
class _Batch:
    role: str
    env: Mapping[str, str]
    changes: list[Change]
    frames: bool = False
    seconds: float = 0.0

    def run(self, home: Path) -> dict[str, Seen]:
        tag = f"{self.role}-{abs(hash(tuple(sorted(self.env.items()))))}"
        listing = home / f"{tag}.json"
        listing.write_text(json.dumps([[c.name, str(self._write(c, home))] for c in self.changes]))
        folder = {"reference": tag, "torch-before": "torch", "torch-after": "torch"}.get(self.role, "shared")
        own = home / folder
        env = child.environment(own, PYTHONPATH=str(ROOT), **{"PYTHONHASHSEED": "0", **_filled(self.env, home)})
        env[LIBRARIES] = str(home / "libraries")
        env["AOT_CACHE_FRAMES"] = "1" if self.frames else "0"
        if folder != "shared":
            env["AOT_CACHE"] = "0"
        if self.role == "reference":
            env["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        label = f"{self.role} {' '.join(f'{k}={v}' for k, v in self.env.items())}".strip()
        started = time.monotonic()
        result: dict[str, Seen] = child.run_json([sys.executable, str(SIDE), str(listing)], label, env)
        self.seconds = time.monotonic() - started
        return result

    def _write(self, change: Change, home: Path) -> Path:
        after = self.role in ("after", "reference", "torch-after")
        folder = home / "programs" / (change.place or "here") if after else home / "programs" / "here"
        folder = folder / ("after" if after else "before") if not change.place else folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{change.name}.py"
        path.write_text(change.after if after else change.before)
        return path


def judge(change: Change, seen: dict[str, Seen], frames: bool = False) -> Verdict:
    verdict = Verdict(change, seen=seen)
    for role, result in seen.items():
        if result["error"]:
            verdict.problems.append(f"{role}: {result['error']}")
    if verdict.problems:
        verdict.unsound = True
        return verdict
    _judge_values(verdict)
    if frames:
        _judge_frames(verdict)
    _judge_events(verdict)
    return verdict


def _judge_values(verdict: Verdict) -> None:
    change, seen = verdict.change, verdict.seen
    after, reference = seen["after"], seen["reference"]
    if after["values"] != reference["values"]:
        verdict.unsound = True
        verdict.problems.append(f"wrong values: {after['shown']}, without a cache {reference['shown']}")
    if seen["again"]["values"] != seen["before"]["values"]:
        verdict.unsound = True
        verdict.problems.append(
            f"wrong values when unchanged: {seen['again']['shown']}, at first {seen['before']['shown']}"
        )
    if (seen["before"]["values"] == reference["values"]) != change.equal:
        verdict.unsound = True
        verdict.problems.append("the change does not matter" if not change.equal else "the change matters after all")


def _judge_frames(verdict: Verdict) -> None:
    """What became of the frames. Graphs of a frame that was found are not looked up: they count as found."""
    for role in ("before", "again", "after"):
        found = verdict.seen[role]
        kinds = {kind for kind, _, _ in found["frames"]}
        if not kinds or "Failed" in kinds:
            verdict.silent = verdict.silent or not kinds
            verdict.problems.append(f"{role}: {_told(found, 'frames')}")
        if "Hit" in kinds:
            found["events"] = found["events"] or [row for row in found["frames"] if row[0] == "Hit"]


def _judge_events(verdict: Verdict) -> None:
    change = verdict.change
    kinds = {role: [kind for kind, _, _ in result["events"]] for role, result in verdict.seen.items()}
    if change.expect is Expect.BYPASS:
        for role in ("before", "again", "after"):
            if "Bypass" not in kinds[role]:
                verdict.problems.append(f"{role}: no bypass, but {_told(verdict.seen[role])}")
            elif change.why not in _told(verdict.seen[role]):
                verdict.silent = True
                verdict.problems.append(f"{role}: the reason does not say {change.why!r}: {_told(verdict.seen[role])}")
        return
    for role in ("before", "again", "after"):
        if not kinds[role] or {"Bypass", "Refused", "Failed"} & set(kinds[role]):
            verdict.silent = not kinds[role] or "Bypass" in kinds[role]
            verdict.problems.append(f"{role}: {_told(verdict.seen[role])}")
    if verdict.problems:
        return
    if "Hit" in kinds["before"]:
        verdict.problems.append(f"before: a hit in an empty cache: {_told(verdict.seen['before'])}")
    if set(kinds["again"]) - {"Hit"}:
        verdict.spurious = True
        verdict.problems.append(f"again, unchanged: {_told(verdict.seen['again'])}")
    if change.expect is Expect.SAME_KEY and set(kinds["after"]) - {"Hit"}:
        verdict.spurious = True
        verdict.problems.append(f"after: {_told(verdict.seen['after'])}")
    if change.expect is Expect.OTHER_KEY and set(kinds["after"]) - {"Miss"}:
        verdict.problems.append(f"after: {_told(verdict.seen['after'])}")
    if change.expect is Expect.GUARD and not ("Miss" in kinds["after"]):
        verdict.problems.append(f"after: no guard kept the entry away: {_told(verdict.seen['after'])}")


def _told(seen: Seen, what: str = "events") -> str:
    return "; ".join(f"{kind} {text}" for kind, _, text in seen[what]) or "nothing was looked up"
