"""What the hook notes for `explain`, and that it never gets in the way."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.hook import history
from aot_cache.hook.history import History
from aot_cache.key.parts import KeyPart
from aot_cache.outcome import Bypass, Hit, Miss, Reason
from aot_cache.settings import Settings
from aot_cache.store import runs
from aot_cache.store.disk import DiskStore

MISS = Miss("graph", "g-1", 0.5, Reason.ABSENT)
BYPASS = Bypass("graph", None, 0.0, Reason.BACKEND, "backend 'x'", "another backend")
PARTS = (KeyPart.of("graph", b"g", {"nodes": "3"}),)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def noting(directory: Path, mode: str = "readwrite") -> History:
    return History(Settings.resolve({"directory": directory, "mode": mode}, {}))


def test_of_hits_only_the_first_of_a_process_is_noted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, pid = noting(directory), os.getpid()
    notes.record(Hit("graph", "g-1", 0.1))
    notes.record(Hit("graph", "g-2", 0.1))
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    notes.record(Hit("graph", "g-3", 0.1))
    noted = {run.pid: [(event["outcome"], event["key"]) for event in run.events] for run in runs.runs(directory)}
    assert noted == {pid: [("hit", "g-1")], pid + 1: [("hit", "g-3")]}


def test_a_process_that_hit_and_missed_is_one_run(directory: Path) -> None:
    notes = noting(directory)
    notes.record(Hit("graph", "g-1", 0.1))
    notes.record(MISS)
    (run,) = runs.runs(directory)
    assert sorted(event["outcome"] for event in run.events) == ["hit", "miss"]


@pytest.mark.parametrize("mode", ["readwrite", "refresh"])
def test_a_miss_is_noted_with_its_parts_and_a_bypass_with_its_remedy(directory: Path, mode: str) -> None:
    notes = noting(directory, mode)
    notes.record(MISS, "f", PARTS)
    notes.record(BYPASS)
    (run,) = runs.runs(directory)
    miss, bypass = run.events
    assert run.pid == os.getpid() and run.started <= miss["time"] <= bypass["time"]
    assert (miss["outcome"], miss["key"], miss["reason"], miss["name"]) == ("miss", "g-1", Reason.ABSENT.value, "f")
    assert [KeyPart.from_json(part) for part in miss["parts"]] == list(PARTS)
    assert (bypass["detail"], bypass["remedy"], bypass["parts"]) == ("backend 'x'", "another backend", [])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_arguments_of_the_program_are_not_noted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/home/me/train.py", "--token=secret"])
    noting(directory).record(MISS)
    assert runs.runs(directory)[0].events[0]["program"] == "train.py"
    assert "secret" not in next((directory / "runs").iterdir()).read_text()


def test_one_process_has_one_file_however_often_the_cache_is_turned_on(directory: Path) -> None:
    noting(directory).record(MISS)
    noting(directory).record(BYPASS)
    (run,) = runs.runs(directory)
    assert len(run.events) == 2


def test_a_forked_process_has_its_own_file(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = noting(directory)
    notes.record(MISS)
    monkeypatch.setattr(os, "getpid", lambda: 12345)
    notes.record(BYPASS)
    assert {run.pid: len(run.events) for run in runs.runs(directory)}[12345] == 1


def test_in_readonly_mode_nothing_is_written(directory: Path) -> None:
    noting(directory, "readonly").record(MISS)
    noting(directory, "readonly").record(Hit("graph", "g-1", 0.1))
    assert not directory.exists()


def test_a_directory_that_others_can_write_gets_no_notes(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    noting(directory).record(MISS)
    assert list(directory.iterdir()) == []


def test_trouble_is_not_raised_and_ends_the_notes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fail(*arguments: object) -> None:
        tried.append(arguments)
        raise RuntimeError("anything")

    monkeypatch.setattr(history.runs, "append", fail)
    notes = noting(directory)
    notes.record(MISS)
    notes.record(MISS)
    assert len(tried) == 1


def test_a_compile_that_never_reached_the_cache_is_noted(fresh_process: FreshProcess) -> None:
    code = """
import json, torch, aot_cache
aot_cache.enable()
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
print(json.dumps([event.detail for event in aot_cache.events()]))
"""
    details = fresh_process(code)
    (run,) = runs.runs(fresh_process.home / "aot_cache")
    assert [event["detail"] for event in run.events] == details == ["backend 'eager'"]


def test_warm_graphs_and_frames_are_noted_and_a_frame_has_its_qualified_name(fresh_process: FreshProcess) -> None:
    code = """
import json, torch, aot_cache
aot_cache.enable()
class M(torch.nn.Module):
    def forward(self, x):
        return torch.mm(x, x)
torch.compile(M())(torch.ones(2, 2))
print(json.dumps([[e.kind, getattr(e, "entry", None)] for e in aot_cache.events()]))
"""
    frames = {"AOT_CACHE_FRAMES": "1"}
    fresh_process(code, env=frames)
    fresh_process(code)
    entries = fresh_process(code, env=frames)
    stored = {entry.name for entry in DiskStore(fresh_process.home / "aot_cache", 10**9).entries()}
    assert [kind for kind, _ in entries] == ["graph", "frame"] and {entry for _, entry in entries} <= stored
    warm, graphs, cold = [run.events for run in runs.runs(fresh_process.home / "aot_cache")]
    assert [[event["outcome"] for event in found] for found in (warm, graphs)] == [["hit"], ["hit"]]
    assert {(event["outcome"], event["name"]) for event in cold if event["kind"] == "frame"} == {("miss", "M.forward")}


TRAIN = """
import json, sys, torch, aot_cache
aot_cache.enable()
def f(x):
    return (x * float(sys.argv[1]) + 1).relu()
with torch._inductor.config.patch(max_autotune=len(sys.argv) > 2):
    torch.compile(f)(torch.ones(4))
print(json.dumps([event.key for event in aot_cache.events()]))
"""
EXPLAIN = """
import sys
from aot_cache.cli import main
sys.exit(main(["explain", "--json"]))
"""


@pytest.mark.slow
def test_explain_names_the_setting_and_the_line_of_the_graph_that_made_a_real_compile_miss(
    fresh_process: FreshProcess,
) -> None:
    def explain() -> dict[str, Any]:
        out = subprocess.check_output([sys.executable, "-c", EXPLAIN], env=fresh_process.environment(), text=True)
        (event,) = json.loads(out)["events"]
        return event

    (first,) = fresh_process(TRAIN, "2")
    assert explain()["nearest"] is None
    fresh_process(TRAIN, "2", "tuned")
    event = explain()
    assert event["nearest"]["key"] == first.removeprefix("g-") and event["nearest"]["same"] == "graph"
    changed = {"part": "config", "name": "inductor.max_autotune", "old": "False", "new": "True"}
    assert event["differences"] == [changed]
    fresh_process(TRAIN, "3")
    event = explain()
    assert event["nearest"]["key"] == first.removeprefix("g-") and event["nearest"]["same"] == "name"
    removed, added = event["lines"]
    assert "mul.Tensor" in removed and ", 2.0)" in removed and ", 3.0)" in added
