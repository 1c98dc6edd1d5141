"""Where torch hands the result of AOTAutograd's cache to its caller, the hook keeps out; the next compile is ours again."""

from __future__ import annotations

import pytest
from support import FreshProcess

STANDALONE = """
import json, sys, torch, aot_cache
from torch._inductor import CompiledArtifact, standalone_compile

aot = sys.argv[1] == "ahead of time"

def backend(graph, inputs):
    artifact = standalone_compile(graph, inputs, dynamic_shapes="from_graph", aot=aot)
    artifact.save(path="artifact", format="binary")
    loaded = CompiledArtifact.load(path="artifact", format="binary")
    return lambda *args: loaded(*args)

a, b = torch.full((3, 4), 0.5), torch.full((4, 2), 3.0)
with torch.no_grad():
    values = [torch.compile(lambda a, b: a @ b, backend=backend)(a, b).sum().item()]
    values.append(torch.compile(lambda a, b: b.t() @ a.t())(a, b).sum().item())
print(json.dumps({"values": values, **aot_cache.stats()}))
"""


@pytest.mark.parametrize("mode", ["cached", "ahead of time"])
def test_a_standalone_artifact_is_saved_and_loaded_and_the_next_compile_is_cached(
    fresh_process: FreshProcess, mode: str
) -> None:
    for expected in ("graph_miss", "graph_hit"):
        done = fresh_process(STANDALONE, mode)
        assert done["values"] == [36.0, 36.0]
        assert done[expected] == 1 and done["graph_bypass"] == 1 and done["error"] == 0


def test_a_setting_of_the_user_is_a_bypass_that_names_it(fresh_process: FreshProcess) -> None:
    done = fresh_process(
        "import json, torch, aot_cache, torch._functorch.config as config\n"
        "config.bundled_autograd_cache = False\n"
        "with torch.no_grad(): torch.compile(lambda a: a @ a)(torch.ones(2, 2))\n"
        "print(json.dumps([str(e) for e in aot_cache.events()]))\n"
    )
    assert len(done) == 1 and done[0].startswith("bypass of a graph: ") and "bundled_autograd_cache" in done[0]
