"""Backwards are compiled when they are first called, in any order: each result is stored as what it is."""

from __future__ import annotations

import re

from support import FreshProcess

TWO_AT_ONCE = """
import json, torch, aot_cache
from pathlib import Path
from aot_cache.artifact import codec
from aot_cache.artifact.envelope import Envelope
from aot_cache.store.readonly import ReadonlyStore
import os, sys

def first(x, w): return x @ x.t(), w @ w
def second(other, w): return other @ other.t(), w @ w

def forward(function, *shape):
    x, w = torch.ones(shape), torch.full((2, 2), 3.0, requires_grad=True)
    for dimension in (0, 1): torch._dynamo.mark_dynamic(x, dimension)
    return torch.compile(function)(x, w)[1], w

import torch._dynamo
pending = [forward(first, 3, 5), forward(second, 4, 6)]
if sys.argv[1] == "last first": pending.reverse()
for output, _ in pending: output.backward(torch.ones(2, 2))
store = ReadonlyStore(os.environ["AOT_CACHE_DIR"])
opened = [Envelope(store.get(entry.name)) for entry in store.entries("g-")]
strides = [str(codec.load(entry.section("result")).compiled_fw.result.output_strides) for entry in opened]
print(json.dumps({"gradients": [w.grad.tolist() for _, w in pending], "strides": strides, **aot_cache.stats(),
                  "symbols": [entry.manifest.extra["symbols"] for entry in opened]}))
"""


def test_two_graphs_with_one_key_are_each_stored_with_their_own_symbols(fresh_process: FreshProcess) -> None:
    for order in ("first first", "last first"):
        done = fresh_process(TWO_AT_ONCE, order, env={"AOT_CACHE_DIR": str(fresh_process.home / order.replace(" ", "-"))})
        assert done["gradients"] == [[[12.0, 12.0], [12.0, 12.0]]] * 2
        assert done["graph_miss"] == 2 and done["error"] == 0 and len(done["symbols"]) == 1
        mentioned = set(re.findall(r"\bs\d+", done["strides"][0]))
        assert mentioned and mentioned <= done["symbols"][0].keys()
