"""Verify mode with frames: a right one is a hit, one that Dynamo would make otherwise raises, goes, and is explained."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

from aot_cache.artifact.envelope import Envelope, pack
from aot_cache.artifact.frame import Frame
from aot_cache.hook.frames_verify import compare
from aot_cache.key.fingerprint import Fingerprints
from aot_cache.key.parts import digest
from aot_cache.store import runs
from aot_cache.store.disk import DiskStore
from aot_cache.torch_compat.frames_guards import Plain as Guards
from aot_cache.torch_compat.frames_install import Plain as Result

ON = {"AOT_CACHE_FRAMES": "1"}
ALWAYS = {**ON, "AOT_CACHE_VERIFY": "1"}
PROGRAM = """
import json, os
import torch, aot_cache
aot_cache.enable()
torch.set_num_threads(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.n_layer = int(os.environ.get("LAYERS", "2"))
        self.weight = torch.nn.Parameter(torch.eye(3))
    def block(self, x): return torch.mm(x, self.weight)
    def forward(self, x):
        for _ in range(self.n_layer): x = self.block(x) if self.n_layer < 9 else x
        print(end="")
        return torch.mm(x, x)
net, raised = Net(), ""
try:
    out = torch.compile(net)(torch.ones(3, 3))
    out.sum().backward()
except Exception as error:
    raised = f"{type(error).__name__}: {error}"
why = [[type(e).__name__, e.kind, getattr(e, "detail", "")] for e in aot_cache.events()]
hits = [e.verified for e in aot_cache.events() if type(e).__name__ == "Hit"]
print(json.dumps({**aot_cache.stats(), "raised": raised, "why": why, "verified": hits,
                  "traced": len(torch._dynamo.utils.compilation_time_metrics.get("bytecode_tracing", ()))}))
"""


def store(process: FreshProcess) -> DiskStore:
    return DiskStore(process.home / "aot_cache", 10**9)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    process = FreshProcess(tmp_path_factory.mktemp("frames"))
    assert process(PROGRAM, env=ON)["frame_miss"] > 0
    return process


@pytest.fixture
def warm(compiled: FreshProcess, fresh_process: FreshProcess) -> FreshProcess:
    shutil.copytree(compiled.home / "aot_cache", fresh_process.home / "aot_cache", copy_function=shutil.copy2)
    return fresh_process


def test_a_right_frame_is_a_hit_that_was_traced(warm: FreshProcess) -> None:
    names = {entry.name for entry in store(warm).entries()}
    plain, verified = warm(PROGRAM, env=ON), warm(PROGRAM, env=ALWAYS)
    assert (plain["frame_hit"] > 0, plain["traced"]) == (True, 0)
    assert (verified["frame_hit"], verified["frame_miss"], verified["error"]) == (plain["frame_hit"], 0, 0)
    assert verified["traced"] >= verified["frame_hit"] and verified["graph_hit"] > 0 and not verified["raised"]
    assert not any(plain["verified"]) and all(verified["verified"])
    assert {entry.name for entry in store(warm).entries()} == names


def spoil(process: FreshProcess) -> str:
    """Have the stored frame guard the type of `n_layer` only, every digest right; gives the entry's name."""
    cache, found = store(process), ""
    number = Fingerprints({}, listing=False).of("TYPE_MATCH", {}, 2, None)
    for entry in list(cache.entries("f-")):
        opened = Envelope(cache.get(entry.name) or b"")
        sections = {name: bytes(opened.section(name)) for name in opened.names}
        body = json.loads(sections["frame"])
        rows = body["guards"]["sources"]
        guards = body["guards"]["guards"]
        weak = [n for n, guard in enumerate(guards) if rows[guard[0]][1].get("member") == "n_layer"]
        for n in weak:
            guards[n][1:], body["prints"][n] = ["TYPE_MATCH", {}], number
        if weak:
            sections["frame"] = json.dumps(body).encode()
            found = f"{entry.name.partition('.')[0]}.{digest(b''.join(sections.values()))[:16]}"
            cache.delete(entry.name)
            cache.put(found, pack(opened.manifest, sections))
    assert found
    return found


def test_a_frame_with_too_weak_a_guard_raises_goes_into_quarantine_and_is_explained(warm: FreshProcess) -> None:
    name = spoil(warm)
    wrong = warm(PROGRAM, env={**ON, "LAYERS": "3"})
    assert wrong["frame_miss"] == 0, wrong["why"]  # what verify mode is there to find
    failed = warm(PROGRAM, env=ALWAYS)
    assert "VerificationFailed" in failed["raised"] and name in failed["raised"] and failed["error"] == 1
    assert "n_layer" in failed["raised"] and "only fresh" in failed["raised"]
    kept = warm.home / "aot_cache" / "quarantine" / name
    assert kept.exists() and "guards" in json.loads(Path(f"{kept}.json").read_text())["differences"]
    assert name not in {entry.name for entry in store(warm).entries()}
    explained = json.loads(
        subprocess.check_output(
            [sys.executable, "-c", "import sys; from aot_cache.cli import main; sys.exit(main(['explain', '--json']))"],
            env=warm.environment(),
        )
    )
    assert any("n_layer" in event["detail"] for event in explained["events"] if event["outcome"] == "failed")
    again = warm(PROGRAM, env=ALWAYS)
    assert not again["raised"] and again["frame_miss"] > 0


def test_an_asserted_hit_is_about_compiling_and_a_frames_miss_is_on_record(warm: FreshProcess) -> None:
    asserting = {**ON, "AOT_CACHE_ASSERT_HIT": "1"}
    for entry in list(store(warm).entries("f-")):
        store(warm).delete(entry.name)
    traced = warm(PROGRAM, env=asserting)
    assert (traced["raised"], traced["graph_miss"]) == ("", 0) and traced["frame_miss"] > 0
    changed = warm(PROGRAM, env={**asserting, "LAYERS": "4"})
    assert "MissAsserted" in changed["raised"]
    (why,) = (detail for kind, what, detail in changed["why"] if (kind, what) == ("Miss", "frame"))
    assert "n_layer`: 2 -> 4" in why
    noted = [event for run in runs.runs(warm.home / "aot_cache") for event in run.events if event["kind"] == "frame"]
    assert [event["name"] for event in noted if event["detail"] == why and event["parts"]] == ["Net.forward"]


# -- what is compared --------------------------------------------------------------------------------------------------


def graph(x: Any) -> Any:
    return __compiled_fn_1(x)[0]  # type: ignore[name-defined]  # noqa: F821


def frame(number: int = 1, code: Callable[..., Any] = graph, **more: Any) -> Frame:
    """A frame as Dynamo names it when it has compiled so many."""
    name = f"__compiled_fn_{number}"
    made = code.__code__
    made = made.replace(co_names=tuple(name if n == "__compiled_fn_1" else n for n in made.co_names))
    local = ["LocalSource", {"local_name": "x", "is_input": True, "dynamism": None, "is_derived_from_nested": False}]
    known = {field.name for field in dataclasses.fields(_local())}
    sources = [[local[0], {k: v for k, v in local[1].items() if k in known}]]  # type: ignore[union-attr]
    fields: dict[str, Any] = {
        "guards": Guards(sources=sources, guards=[[0, "TENSOR_MATCH", {}]], shapes=["x > 1"], sizes=[[0, {"size": [3]}]]),
        "result": Result(made, graphs=[name]), "prints": ["t"], "same": [0], "storage": [], "unguarded": [],
        "listing": False, "absent": ["len"], "places": [["code", "m", "f", "1"]], "called": [], "sizes": {},
        "graphs": {name: "g-1.2"},
    }  # fmt: skip
    return Frame(**(fields | more))


def _local() -> type:
    from torch._dynamo.source import LocalSource

    return LocalSource


def test_names_that_dynamo_numbers_anew_are_no_difference() -> None:
    assert compare(frame(), frame(7, graphs={"__compiled_fn_7": "g-1"})) == {}


def other(x: Any) -> Any:
    return __compiled_fn_1(x)[1]  # type: ignore[name-defined]  # noqa: F821


LOCAL = frame().guards
DIFFERENT: dict[str, dict[str, Any]] = {
    "bytecode": {"code": other},
    "graphs": {"graphs": {"__compiled_fn_1": "g-2"}},
    "guards": {"guards": dataclasses.replace(LOCAL, guards=[[0, "TYPE_MATCH", {}]])},
    "shape guards": {"guards": dataclasses.replace(LOCAL, shapes=[])},
    "fixed sizes": {"guards": dataclasses.replace(LOCAL, sizes=[[0, {"size": [None]}]])},
    "aliases": {"guards": dataclasses.replace(LOCAL, aliases=[["duplicate", 0, 0]])},
    "ordered keys": {"guards": dataclasses.replace(LOCAL, key_order=[0])},
    "reads without a guard": {"unguarded": [[0, "int 1"]]},
    "inlined code": {"places": []},
    "absent globals": {"absent": []},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_is_named_by_what_differs(what: str) -> None:
    assert list(compare(frame(), frame(**DIFFERENT[what]))) == [what]


def test_a_frame_that_would_not_be_stored_now_is_a_difference() -> None:
    assert "Dynamo does not" in compare(frame(), "Dynamo does not compile the frame")["the frame"]
