"""Frames: a second process runs what Dynamo made of them in the first, and only where nothing that matters has changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hook.frames_changes import ALONE, BYPASS, CHANGES, HIT, MISS
from support import FreshProcess

HERE = Path(__file__).parent
Results = dict[str, dict[str, Any]]


class Table:
    """All changes, run in five processes: stored by the first, run again, changed, and both without a cache."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.first = self._run("first", "before")
        # The change must meet what the first process stored, not what the second adds.
        shutil.copytree(home / "first" / "aot_cache", home / "copy")
        self.again = self._run("first", "before")
        self.changed = self._run("second", "after", AOT_CACHE_DIR=str(home / "copy"))
        self.truth = {which: self._run(f"uncached-{which}", which, AOT_CACHE="0") for which in ("before", "after")}

    def _run(self, home: str, which: str, **env: str) -> Results:
        process = FreshProcess(self._home / home)
        return process(HERE / "frames_runner.py", which, str(process.home / "modules"), env=env, timeout=1200)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(tmp_path_factory.mktemp("frames"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_program_computes_what_it_computes_without_a_cache(table: Table, name: str) -> None:
    assert table.changed[name]["values"] == table.truth["after"][name]["values"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.expected in (MISS, BYPASS, ALONE)])
def test_a_change_that_matters_is_no_hit(table: Table, name: str) -> None:
    assert table.changed[name]["frame_hit"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.expected == HIT])
def test_a_change_that_does_not_matter_is_a_hit(table: Table, name: str) -> None:
    found = table.changed[name]
    assert (found["frame_hit"] > 0, found["frame_miss"], found["traced"]) == (True, 0, 0), found["why"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.expected not in (BYPASS, ALONE)])
def test_the_same_program_again_traces_nothing(table: Table, name: str) -> None:
    found = table.again[name]
    assert found["values"] == table.truth["before"][name]["values"]
    assert (found["frame_hit"] > 0, found["traced"], found["graph_miss"]) == (True, 0, 0), found["why"]


@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.expected == ALONE])
def test_the_same_program_alone_traces_nothing(fresh_process: FreshProcess, name: str) -> None:
    modules = str(fresh_process.home / "modules")
    first, again = (fresh_process(HERE / "frames_runner.py", "before", modules, name)[name] for _ in range(2))
    assert again["values"] == first["values"]
    assert (again["frame_hit"] > 0, again["traced"], again["graph_miss"]) == (True, 0, 0), again["why"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.expected == BYPASS])
def test_what_cannot_be_compared_is_never_stored_and_says_why(table: Table, name: str) -> None:
    found = table.again[name]
    assert found["values"] == table.truth["before"][name]["values"]
    assert found["frame_hit"] == 0 or found["frame_bypass"] > 0
    assert any(why.startswith("Bypass") for why in found["why"])


@pytest.mark.slow
def test_a_miss_names_what_changed(table: Table) -> None:
    why = "\n".join(why for name in ("global int", "inlined function") for why in table.changed[name]["why"])
    assert "guard `G['K']`: 2 -> 3" in why
    assert "code of `case_inlined_function.g` changed" in why


PROGRAM = """
import json, os, sys
import torch, aot_cache
aot_cache.enable()
def f(x, w): return torch.mm(x, w)
x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
out = torch.compile(f)(x, w)
if sys.argv[1:] != ["forward"]:
    out.sum().backward()
print(json.dumps({**aot_cache.stats(), "grad": w.grad is not None and w.grad.tolist()}))
"""


def test_frames_are_on_unless_switched_off(fresh_process: FreshProcess) -> None:
    by_default = "import os; del os.environ['AOT_CACHE_FRAMES']" + PROGRAM
    fresh_process(by_default)
    again = fresh_process(by_default)
    assert (again["graph_hit"], again["frame_hit"], again["frame_miss"], again["frame_bypass"]) == (1, 1, 0, 0)
    off = fresh_process(PROGRAM, env={"AOT_CACHE_FRAMES": "0"})
    assert (off["graph_hit"], off["frame_hit"], off["frame_miss"], off["frame_bypass"]) == (1, 0, 0, 0)


def test_a_frame_whose_backward_was_never_compiled_is_not_stored(fresh_process: FreshProcess) -> None:
    on = {"AOT_CACHE_FRAMES": "1"}
    fresh_process(PROGRAM, "forward", env=on)
    assert fresh_process(PROGRAM, env=on)["frame_miss"] == 1
    again = fresh_process(PROGRAM, env=on)
    assert (again["frame_hit"], again["graph_hit"], again["grad"]) == (1, 1, [[2.0, 2.0], [2.0, 2.0]])


def test_a_frame_whose_graph_is_gone_is_a_miss(fresh_process: FreshProcess) -> None:
    from aot_cache.store.disk import DiskStore

    on = {"AOT_CACHE_FRAMES": "1"}
    fresh_process(PROGRAM, env=on)
    store = DiskStore(fresh_process.home / "aot_cache", 10**9)
    for entry in list(store.entries("g-")):
        store.delete(entry.name)
    found = fresh_process(PROGRAM, env=on)
    assert (found["frame_hit"], found["frame_miss"], found["error"]) == (0, 1, 0)


def test_a_damaged_frame_is_a_miss_and_is_replaced(fresh_process: FreshProcess) -> None:
    from aot_cache.store.disk import DiskStore

    on = {"AOT_CACHE_FRAMES": "1"}
    fresh_process(PROGRAM, env=on)
    store = DiskStore(fresh_process.home / "aot_cache", 10**9)
    for entry in list(store.entries("f-")):
        data = bytearray(store.get(entry.name) or b"")
        data[-5] ^= 1
        store.put(entry.name, bytes(data))
    found = fresh_process(PROGRAM, env=on)
    assert (found["frame_hit"], found["graph_hit"], found["error"]) == (0, 1, 1)
    assert fresh_process(PROGRAM, env=on)["frame_hit"] == 1


def test_switching_off_puts_every_name_of_torch_back(fresh_process: FreshProcess) -> None:
    found = fresh_process("""
import json
import torch, torch._dynamo, aot_cache
import torch._dynamo.convert_frame as frame, torch._dynamo.guards as guards, torch._dynamo.source as source
import torch._dynamo.symbolic_convert as convert, torch._dynamo.variables.functions as functions
import torch._dynamo.variables.nn_module as modules
from torch.fx.experimental.symbolic_shapes import ShapeEnv
places = [(frame, "_compile"), (guards.CheckFunctionManager, "__init__"), (source.SkipGuardSource, "__init__"),
          (convert.InliningInstructionTranslator, "__init__"), (functions, "invoke_and_store_as_constant"),
          (modules, "invoke_and_store_as_constant"), (ShapeEnv, "produce_guards_verbose"),
          (torch._guards.GuardsContext, "skip_guard_install")]
before = [getattr(*place) for place in places]
aot_cache.enable(frames=True)
patched = [getattr(*place) is not old for place, old in zip(places, before)]
aot_cache.disable()
print(json.dumps([patched, [getattr(*place) is old for place, old in zip(places, before)]]))
""")
    assert found == [[True] * 8, [True] * 8]


SHAPES = """
import json, sys
import torch, aot_cache
aot_cache.enable(frames=True)
f = torch.compile(lambda x: torch.mm(x, x.t()))
sizes = [list(f(torch.ones(int(n), 4)).shape) for n in sys.argv[1:]]
print(json.dumps({**aot_cache.stats(), "sizes": sizes, "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"]}))
"""


def test_every_shape_finds_its_own_entry(fresh_process: FreshProcess) -> None:
    first = fresh_process(SHAPES, "3", "4", "5")
    again = fresh_process(SHAPES, "3", "4", "5", "6")
    assert first["graphs"] == 2  # one for 3, then one for all
    assert (again["frame_hit"], again["frame_miss"], again["graphs"]) == (2, 0, 0)
    assert again["sizes"] == [[n, n] for n in (3, 4, 5, 6)]


def test_a_hit_teaches_dynamo_which_sizes_were_seen(fresh_process: FreshProcess) -> None:
    fresh_process(SHAPES, "3", env={"TORCHINDUCTOR_CACHE_DIR": str(fresh_process.home / "a")})
    again = fresh_process(SHAPES, "3", "4", "5", env={"TORCHINDUCTOR_CACHE_DIR": str(fresh_process.home / "b")})
    assert (again["frame_hit"], again["frame_miss"], again["graphs"]) == (1, 1, 1)


def test_guards_of_a_hit_hold_afterwards(fresh_process: FreshProcess) -> None:
    code = """
import json
import torch, aot_cache
aot_cache.enable(frames=True)
K, x = [2], torch.ones(2, 2)
f = torch.compile(lambda x: torch.addmm(x, x, x, alpha=K[0]))
out = [f(x).tolist()]
K[0] = 3
out.append(f(x).tolist())
print(json.dumps({**aot_cache.stats(), "out": out}))
"""
    first, again = fresh_process(code), fresh_process(code)
    assert first["out"] == again["out"] == [[[5.0, 5.0], [5.0, 5.0]], [[7.0, 7.0], [7.0, 7.0]]]
    assert (again["frame_hit"], again["frame_miss"]) == (2, 0)


def test_a_hit_imports_nothing_of_inductors_compiler(fresh_process: FreshProcess) -> None:
    code = PROGRAM.replace("import json, os, sys", "import json, os, sys; MODULES = sys.modules").replace(
        '"grad":', '"compiler": [n for n in COMPILER if f"torch._inductor.{n}" in MODULES], "grad":'
    )
    code = 'COMPILER = "compile_fx debug decomposition graph ir lowering scheduler select_algorithm".split()\n' + code
    on = {"AOT_CACHE_FRAMES": "1"}
    assert "lowering" in fresh_process(code, env=on)["compiler"]
    again = fresh_process(code, env=on)
    assert (again["frame_hit"], again["compiler"], again["grad"]) == (1, [], [[2.0, 2.0], [2.0, 2.0]])


@pytest.mark.parametrize("function", ["torch.trace", "math.gcd"])
def test_telling_dynamo_to_disallow_a_function_is_a_miss(fresh_process: FreshProcess, function: str) -> None:
    code = """
import json, math, sys
import torch, aot_cache
aot_cache.enable(frames=True)
if sys.argv[1:]:
    torch._dynamo.disallow_in_graph(FUNCTION)
f = torch.compile(lambda x: torch.mm(x, x) * 0 + torch.trace(torch.mm(x, x)) * math.gcd(4, 6) if False else CALL)
f(torch.ones(2, 2))
print(json.dumps(aot_cache.stats()))
"""
    call = "torch.mm(x, x) if math.gcd(4, 6) == 2 else x" if "math" in function else "torch.trace(torch.mm(x, x))"
    code = code.replace("FUNCTION", function).replace("CALL", call)
    fresh_process(code)
    assert fresh_process(code)["frame_hit"] == 1
    assert fresh_process(code, "disallow")["frame_hit"] == 0


def test_a_function_that_dynamo_traces_in_place_of_another_is_part_of_the_key(fresh_process: FreshProcess) -> None:
    code = """
import _bisect, json, sys
import torch, aot_cache
aot_cache.enable(frames=True)
ANSWER = int(sys.argv[1])
@torch.compiler.substitute_in_graph(_bisect.bisect_right, skip_signature_check=True)
def bisect_right(a, x, lo=0, hi=None):
    return ANSWER if ANSWER < 9 else 9
f = torch.compile(lambda x: torch.addmm(x, x, x, alpha=_bisect.bisect_right([1, 2], 1)))
print(json.dumps({**aot_cache.stats(), "out": f(torch.ones(1, 1)).item(), **aot_cache.stats()}))
"""
    assert fresh_process(code, "2")["out"] == 3
    again, other = fresh_process(code, "2"), fresh_process(code, "3")
    assert (again["frame_hit"], again["out"]) == (1, 3)
    assert (other["frame_hit"], other["out"]) == (0, 4)
