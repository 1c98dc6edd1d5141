from __future__ import annotations

from pathlib import Path

from support import FreshProcess

CODE = """
import json, sys, tempfile
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
import stack
import aot_cache
from aot_cache.offloading import operators
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.offloading.transfer import Transfer

aot_cache.enable()
transfer = Transfer(DiskTier(Path(tempfile.gettempdir()), 1 << 20), 1 << 20)
operators.use("cpu", transfer)

def train():
    torch._dynamo.reset()
    x = torch.ones(8, 8, requires_grad=True)
    torch.compile(lambda x: (x @ x).exp().matmul(x).sum())(x).backward()
    return x.grad

with stack.Scheduler().on():
    one = train()
moved, events = transfer.moved_out, [type(event).__name__ for event in aot_cache.events()]
two = train()
later = [type(event).__name__ for event in aot_cache.events()][len(events):]
print(json.dumps([moved, events, transfer.moved_out - moved, later, torch.equal(one, two)]))
"""


def test_a_graph_with_a_schedule_is_a_bypass_and_never_an_entry(fresh_process: FreshProcess) -> None:
    moved, events, moved_later, later, same = fresh_process(CODE, str(Path(__file__).parent), timeout=600)
    assert moved > 0
    assert "Hit" not in events
    assert "Bypass" in events
    assert (moved_later, later) == (0, ["Miss"])
    assert same
