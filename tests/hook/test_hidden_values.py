"""A value that a compile bakes in, and that is no input of the graph, must not come back for another value."""

from __future__ import annotations

from support import FreshProcess

# A NumPy scalar reaches the graph as data, and its value as a number that no guard of the entry could speak of.
STEP = """
import json, sys, numpy, torch, aot_cache
k = numpy.float64(float(sys.argv[1]))
x = torch.ones(2, 2)
with torch.no_grad():
    value = torch.compile(lambda x: torch.addmm(x, x, x, alpha=float(k)))(x).sum().item()
print(json.dumps([value, aot_cache.stats()["graph_hit"], [e.reason.name for e in aot_cache.events() if hasattr(e, "reason")]]))
"""


def test_a_baked_in_value_is_not_stored(fresh_process: FreshProcess) -> None:
    value, hits, reasons = fresh_process(STEP, "2")
    assert value == 20.0 and not hits and "NOT_SERIALIZABLE" in reasons
    value, hits, _ = fresh_process(STEP, "3")
    assert value == 28.0 and not hits
