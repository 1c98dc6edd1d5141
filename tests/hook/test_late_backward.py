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


CHANGED_BETWEEN = """
import _thread, contextlib, json, threading, torch, aot_cache
aot_cache.enable()
import torch._inductor.config as inductor, torch._functorch.config as functorch
from torch._inductor.lowering import fallback_handler, lowerings

inductor.fallback_by_default = True
aten, nothing, results = torch.ops.aten, contextlib.nullcontext, {}
factor = torch.ones(3, 3)
lower = fallback_handler(aten.cos.default, add_to_fallback_set=False)

def case(name, forward=nothing, backward=nothing, run=lambda call: call(), **compile):
    torch._dynamo.reset()
    torch.compiler.config.cache_key_tag = name
    before = len(aot_cache.events())
    x = torch.ones(3, 3, requires_grad=True)
    with forward():
        y = torch.compile(lambda x: torch.mm(x, factor), **compile)(x)
    with backward():
        run(lambda: y.backward(factor))
    results[name] = [type(e).__name__ + " " + getattr(e, "detail", "") for e in aot_cache.events()[before:]]

def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

def in_a_thread_of_autograd(call):  # which Python did not start, and which sees no setting of this one
    done = threading.Event()
    _thread.start_new_thread(lambda: (call(), done.set()), ())
    assert done.wait(60)

@contextlib.contextmanager
def lowering():
    kept = lowerings[aten.sin.default]
    lowerings[aten.sin.default] = lower
    yield
    lowerings[aten.sin.default] = kept

@contextlib.contextmanager
def precision():
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")

class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

random, autocast = lambda: inductor.patch(fallback_random=True), lambda: torch.autocast("cpu", torch.bfloat16)
recompute = lambda: functorch.patch(aggressive_recomputation=True)
case("nothing")
case("options", options={"fallback_random": True, "fallback_by_default": True})
case("dynamic", dynamic=True)
case("both", random, random)
case("autocast around the forward", autocast)
case("no grad around the backward", backward=torch.no_grad)
case("setting around the forward", random)
case("setting around the backward", backward=random)
case("another room around the backward", backward=recompute)
case("setting that a thread does not see", random, random, in_a_thread)
case("thread of autograd", random, random, in_a_thread_of_autograd)
case("lowering before the backward", backward=lowering)
case("switch before the backward", backward=precision)
case("autocast around the backward", backward=autocast)
case("mode around the backward", backward=Mode)
print(json.dumps(results))
"""
STORED = ["nothing", "options", "dynamic", "both", "autocast around the forward", "no grad around the backward"]
STORED += ["thread of autograd"]
NOT_STORED = {
    "setting around the forward": "config.inductor.fallback_random",
    "setting around the backward": "config.inductor.fallback_random",
    "another room around the backward": "config.functorch.aggressive_recomputation",
    "setting that a thread does not see": "config.inductor.fallback_",
    "lowering before the backward": "lowerings aten.sin.default",
    "switch before the backward": "ambient.matmul_precision",
    "autocast around the backward": "ambient.autocast.cpu",
    "mode around the backward": "ambient.mode Mode",
}


def test_a_backward_compiled_under_something_else_than_its_forward_is_not_stored(fresh_process: FreshProcess) -> None:
    cold, warm = fresh_process(CHANGED_BETWEEN), fresh_process(CHANGED_BETWEEN)
    assert {name: (cold[name], warm[name]) for name in STORED} == dict.fromkeys(STORED, (["Miss "], ["Hit "]))
    for name, what in NOT_STORED.items():
        for missed, failed in (cold[name], warm[name]):
            assert missed == "Miss " and failed.startswith("Failed ") and what in failed


FORGOTTEN = """
import json, sys, torch, aot_cache
from aot_cache.hook import graph_entries

def cannot(identify):
    raise RuntimeError("no identity today")

if sys.argv[1] == "unknown":
    graph_entries.process_code = cannot
w = torch.full((2, 2), 3.0, requires_grad=True)
torch.compile(lambda x: x @ w)(torch.ones(2, 2)).backward(torch.ones(2, 2))
said = [str(event) for event in aot_cache.events() if type(event).__name__ == "Failed"]
print(json.dumps({"gradient": w.grad.tolist(), "said": said, **aot_cache.stats()}))
"""


def test_what_cannot_be_remembered_of_a_miss_is_not_compared_with_nothing(fresh_process: FreshProcess) -> None:
    unknown = fresh_process(FORGOTTEN, "unknown")
    assert unknown["gradient"] == [[2.0, 2.0], [2.0, 2.0]] and unknown["graph_miss"] == 1
    assert ["no identity today" in said for said in unknown["said"]] == [True, False]
    assert "when the forward was compiled" in unknown["said"][1]
    assert fresh_process(FORGOTTEN, "known")["graph_miss"] == 1
    known = fresh_process(FORGOTTEN, "known")
    assert known["graph_hit"] == 1 and known["said"] == []
