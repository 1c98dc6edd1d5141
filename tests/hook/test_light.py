"""A process whose graphs all hit does without Inductor's compiler, and finds every part of it once it asks."""

from __future__ import annotations

import pytest
from support import FreshProcess

HEAVY = [f"torch._inductor.{name}" for name in ("compile_fx", "decomposition", "lowering", "scheduler", "debug", "ir")]
# No kernel has to be built for these two graphs, which keep a C++ compiler out of the test.
PROGRAM = """
import json, sys, torch, aot_cache
aot_cache.enable()
a, b = torch.full((3, 4), 0.5), torch.full((4, 2), 3.0)
with torch.no_grad():
    values = [torch.compile(lambda a, b: a @ b)(a, b).sum().item()]
    values.append(torch.compile(lambda a, b: b.t() @ a.t())(a, b).sum().item())
imported = [name for name in sys.modules if name.startswith("torch._inductor.")]
more = {}
"""
END = "\nprint(json.dumps({'values': values, 'imported': imported, **more, **aot_cache.stats()}))"
RECORDING = """
import torch._inductor as inductor
from torch._inductor import debug
more["same"] = inductor.debug is debug is sys.modules["torch._inductor.debug"]
compiled = torch.compile(lambda a, b: a @ b)
with torch.no_grad(), debug.record_and_log_graph_execution_order():
    compiled(a, b)
    more["recorded"] = len(debug.GRAPH_EXECUTION_ORDER)
"""
SWITCHED_OFF = """
compiled = torch.compile(lambda a, b: a @ b)
with torch.no_grad():
    compiled(a, b)
    aot_cache.disable()
    more["after"] = compiled(a, b).sum().item()
"""
DECOMPOSITIONS = """
from aot_cache.torch_compat import light
stand_in = light.by_name("torch._inductor.decomposition", "select_decomp_table")
table = stand_in()
from torch._inductor import decomposition
more["same"] = table == decomposition.select_decomp_table() and len(table) > 100
more["afterwards"] = light.by_name("torch._inductor.decomposition", "select_decomp_table") is None
"""


OTHER_PYTHON = """
from aot_cache.torch_compat import generated
generated._FORMAT = b"of another Python"
"""
# torch writes wrappers into its own directory, and a hit has them under a name that is no file's.
COMPILED = """
import sys
compiled = []
def note(event, args):
    if event == "compile" and str(args[1]).startswith("<aot_cache>"):
        compiled.append(args[1])
sys.addaudithook(note)
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> FreshProcess:
    process = FreshProcess(tmp_path_factory.mktemp("light"))
    cold = process(PROGRAM + END)
    assert cold["graph_miss"] == 2 and set(HEAVY) <= set(cold["imported"])
    return process


def test_two_graphs_that_hit_import_nothing_that_only_a_compile_needs(warm: FreshProcess) -> None:
    done = warm(PROGRAM + END)
    assert done["graph_hit"] == 2 and done["graph_bypass"] == done["error"] == 0 and done["values"] == [36.0, 36.0]
    assert not set(HEAVY) & set(done["imported"])


def test_graphs_that_hit_bring_the_bytecode_of_their_wrappers(warm: FreshProcess) -> None:
    end = "\nmore['compiled'] = len(compiled)" + END
    done = warm(COMPILED + PROGRAM + end)
    assert done["graph_hit"] == 2 and done["compiled"] == 0
    # Of use to no other Python, for which the source is there.
    done = warm(COMPILED + OTHER_PYTHON + PROGRAM + end)
    assert done["graph_hit"] == 2 and done["values"] == [36.0, 36.0] and done["compiled"] == 2


def test_the_debugging_aids_are_torchs_own_once_somebody_asks_for_them(warm: FreshProcess) -> None:
    done = warm(PROGRAM + RECORDING + END)
    assert done["graph_hit"] == 3 and done["same"] and done["recorded"] == 1


def test_the_table_of_decompositions_is_torchs_own_once_somebody_reads_it(warm: FreshProcess) -> None:
    done = warm(PROGRAM + DECOMPOSITIONS + END)
    assert done["graph_hit"] == 2 and done["same"] and done["afterwards"]


def test_a_graph_that_was_loaded_runs_on_when_the_cache_is_switched_off(warm: FreshProcess) -> None:
    done = warm(PROGRAM + SWITCHED_OFF + END)
    assert done["graph_hit"] == 3 and done["after"] == 36.0
