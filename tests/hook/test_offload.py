"""Plans and the cache: a changed plan is another key, the same plan is a hit that carries out the same plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import FreshProcess

HERE = Path(__file__).parent
CHANGES = HERE / "offload_changes.py"
PATHS = {"PYTHONPATH": ":".join(map(str, (HERE.parent.parent, HERE)))}
MOVED = {
    "policy first": ["mm"],
    "policy second": ["mm_1"],
    "policy global": ["mm"],
    "marked first": ["mm"],
    "marked second": ["mm_1"],
    "preferred first": ["mm"],
    "plan of first": ["mm"],
    "plan of second": ["mm_1"],
}
# A far tier elsewhere, by another name, is no other plan.
ALIKE = {"far disk": "base"}


def run(fresh: FreshProcess, *names: str, **env: str) -> dict[str, Any]:
    return fresh(CHANGES, *names, env={**PATHS, **env}, timeout=600)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    return FreshProcess(tmp_path_factory.mktemp("offload"))


@pytest.fixture(scope="module")
def cold(fresh: FreshProcess) -> dict[str, Any]:
    return run(fresh)


@pytest.fixture(scope="module")
def warm(fresh: FreshProcess, cold: dict[str, Any]) -> dict[str, Any]:
    """Another process, in another order of the same changes, and with another hash seed."""
    names = list(reversed(cold["changes"]))
    return fresh(CHANGES, *names, hashseed=5, env=PATHS, timeout=600)


def test_every_change_is_another_key(cold: dict[str, Any]) -> None:
    changes = cold["changes"]
    assert len(changes) >= 20
    assert cold["keys"] == len(changes) - len(ALIKE)
    for name, found in changes.items():
        assert (found["graph_miss"], found["graph_hit"]) == ((0, 1) if name in ALIKE else (1, 0)), name
        assert (found["generated"] == 0) is (name in ALIKE)


def test_every_change_is_a_hit_in_the_next_process_without_code_generation(warm: dict[str, Any]) -> None:
    for name, found in warm["changes"].items():
        assert (found["graph_hit"], found["graph_miss"], found["generated"]) == (1, 0, 0), name


def test_what_moves_is_what_was_asked_for_cold_and_warm(cold: dict[str, Any], warm: dict[str, Any]) -> None:
    for found in (cold, warm):
        rows = {name: change["rows"] for name, change in found["changes"].items() if change["rows"]}
        assert rows.pop("tight")
        assert rows == MOVED


def test_outputs_and_gradients_are_bit_equal_to_those_without_offload(
    cold: dict[str, Any], warm: dict[str, Any]
) -> None:
    values = {change["values"] for found in (cold, warm) for change in found["changes"].values()}
    assert len(values) == 1


def test_only_dry_runs_are_not_cached_and_they_say_so(cold: dict[str, Any]) -> None:
    assert cold["said"]
    assert all("a dry run of aot_cache.offload" in said for said in cold["said"])


def test_a_hit_with_a_plan_imports_no_compiler(fresh: FreshProcess, cold: dict[str, Any]) -> None:
    found = run(fresh, "policy first", "base", "none")
    assert found["light"] is True
    assert all(change["graph_hit"] == 1 for change in found["changes"].values())
    assert cold["light"] is False


FRAMES = {"AOT_CACHE_FRAMES": "1"}


def test_frames_are_never_shared_between_a_block_and_outside(tmp_path: Path) -> None:
    fresh = FreshProcess(tmp_path)
    both = ("policy first", "none")
    first = run(fresh, *both, **FRAMES)["changes"]
    again = run(fresh, *both, **FRAMES)["changes"]
    for name in both:
        assert (first[name]["frame_miss"], first[name]["frame_hit"]) == (1, 0)
        assert (again[name]["frame_miss"], again[name]["frame_hit"]) == (0, 1)
    for found in (first, again):
        assert found["policy first"]["frame_bypass"] == 0
        assert (found["policy first"]["rows"], found["none"]["rows"]) == (["mm"], [])
    assert again["policy first"]["graph_hit"] == 1


def test_with_frames_another_plan_is_another_frame_and_a_dry_run_is_none(tmp_path: Path) -> None:
    fresh = FreshProcess(tmp_path)
    names = ("base", "budget", "policy first", "plan of first")
    first, again = run(fresh, *names, **FRAMES), run(fresh, *reversed(names), **FRAMES)
    for name in names:
        assert (first["changes"][name]["frame_miss"], first["changes"][name]["frame_hit"]) == (1, 0)
        assert (again["changes"][name]["frame_hit"], again["changes"][name]["graph_hit"]) == (1, 1)
        assert again["changes"][name]["rows"] == first["changes"][name]["rows"] == MOVED.get(name, [])
    assert len({found["values"] for runs in (first, again) for found in runs["changes"].values()}) == 1
    for said in (first["said"], again["said"]):
        assert any("frame" in text and "a dry run of aot_cache.offload" in text for text in said), said


SLOW = """
import sys
import offload_changes
from aot_cache.offloading import far
from aot_cache.offloading.schedule import Link

measured = far.link
def link(options, device):
    found = measured(options, device)
    return Link(found.d2h / 1e6, found.h2d / 1e6, source="probe") if sys.argv[1] == "slow" else found
far.link = link
offload_changes.CHANGES["probed"] = lambda: (
    offload_changes.chain, {"budget": "100MB", "policy": offload_changes.move_first}
)
import aot_cache
offload_changes.main(["probed"])
print(__import__("json").dumps([str(event) for event in aot_cache.events()]))
"""


@pytest.mark.parametrize("frames", ["0", "1"])
def test_a_plan_that_does_not_do_on_this_machines_link_is_a_miss_that_says_so(tmp_path: Path, frames: str) -> None:
    fresh, env = FreshProcess(tmp_path), {**PATHS, "AOT_CACHE_FRAMES": frames}
    runs: list[list[str]] = [fresh(SLOW, link, env=env, timeout=600) for link in ("fast", "fast", "slow")]
    assert ["Hit" in said[0] for said in runs] == [False, True, False]
    assert "offload schedule does not do here" in runs[2][0]
    assert [len(said) for said in runs] == [1 + int(frames)] * 3
    assert not any("Hit" in text for text in runs[2])


ERRORS = """
import json, sys
import torch
import aot_cache

def attempt(do):
    try:
        do()
    except Exception as error:
        return [type(error).__name__, isinstance(error, aot_cache.errors.AotCacheError), str(error)]

def train(**how):
    torch._dynamo.reset()
    x = torch.ones(256, 256, requires_grad=True)
    def model(x):
        return (aot_cache.mark(x @ x, "must") @ x) @ x
    with aot_cache.offload(**{"budget": "100MB", "link": (1e9, 1e9), **how}):
        compiled = torch.compile(model)
        return [compiled(x) for _ in range(how.get("budget") is None or 3)]

found = {
    "budget": attempt(lambda: train(budget="a lot")),
    "unmet": attempt(lambda: train(budget="0.6MB")),
    "far": attempt(lambda: train(far="tape")),
    "absent": attempt(lambda: train(far="disk:/nowhere")),
    "unwritable": attempt(lambda: train(far="disk:/proc")),
    "host": attempt(lambda: train(far="host")),
    "full": attempt(lambda: train(far_limit="600KB", budget="99MB")),
}
print(json.dumps(found))
"""


def test_errors_reach_the_caller_as_what_they_are(fresh_process: FreshProcess) -> None:
    found: Mapping[str, Any] = fresh_process(ERRORS, env=PATHS, timeout=600)
    for name, (kind, text) in {
        "budget": ("SettingError", "budget='a lot' is not valid"),
        "unmet": ("BudgetTooSmall", "the smallest that can is"),
        "far": ("SettingError", "disk, disk:DIRECTORY or host"),
        "absent": ("SettingError", "the directory must be there"),
        "unwritable": ("TransferError", "no far tier in /proc"),
        "host": ("TransferError", "there is none: use disk"),
        "full": ("FarTierFull", "has no room for"),
    }.items():
        assert found[name] is not None, name
        assert found[name][:2] == [kind, True], found[name]
        assert text in found[name][2]


UNPLANNED = """
import json, logging, torch, aot_cache

said = []
class Listen(logging.Handler):
    def emit(self, record): said.append(record.getMessage())
logging.getLogger("aot_cache").addHandler(Listen())
x = torch.ones(64, 64, requires_grad=True)
compiled = torch.compile(lambda x: (x @ x) @ x)
compiled(x)
with aot_cache.offload("1GB") as block:
    compiled(x)
print(json.dumps([said, block.report()]))
"""


def test_a_block_in_which_nothing_was_planned_says_so(fresh_process: FreshProcess) -> None:
    said, report = fresh_process(UNPLANNED, env=PATHS, timeout=600)
    assert any("torch.compiler.reset()" in text for text in said)
    assert "nothing was planned" in report


def test_a_stored_entry_carries_the_record_of_its_plan(fresh: FreshProcess, cold: dict[str, Any]) -> None:
    code = (
        "import json\nfrom aot_cache.settings import Settings\nfrom aot_cache.store.opening import open_store\n"
        "from aot_cache.artifact.envelope import Envelope\nstore = open_store(Settings.resolve()).store\n"
        "found = [Envelope(store.get(e.name)).manifest for e in store.entries('g-')]\n"
        "print(json.dumps([[m.extra, {p.name: dict(p.summary) for p in m.parts}] for m in found]))"
    )
    found: list[Any] = fresh(code)
    planned = [(extra, parts) for extra, parts in found if "offload" in parts]
    assert len(planned) == cold["keys"] - 1
    assert all(extra["schedule"].startswith("offload-plan 1\n") for extra, _ in planned)
    assert all(extra["operators"] == ["aot_cache.offloading.operators"] for extra, _ in planned)
    assert not [extra for extra, parts in found if "offload" not in parts and "schedule" in extra]
    assert "/tmp" not in json.dumps([parts["offload"] for _, parts in planned])


BLOCK = """
import json, os, sys
import torch
import aot_cache
torch.set_num_threads(1)
assert "torch._dynamo" not in sys.modules
x, w = torch.ones(256, 256), torch.ones(256, 256, requires_grad=True)
with aot_cache.offload("4MB", far="disk:" + os.environ["TMPDIR"]):
    torch.compile(lambda x, w: torch.mm(torch.mm(x, w), w).sum())(x, w).backward()
print(json.dumps({**aot_cache.stats(), "why": [str(event) for event in aot_cache.events()]}))
"""


def test_a_block_that_is_entered_before_torchs_compiler_is_imported_is_cached(fresh_process: FreshProcess) -> None:
    cold, warm = fresh_process(BLOCK), fresh_process(BLOCK)
    assert (cold["graph_miss"], cold["graph_bypass"]) == (1, 0), cold["why"]
    assert (warm["graph_hit"], warm["graph_miss"]) == (1, 0), warm["why"]
