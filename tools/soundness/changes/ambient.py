"""Switches of torch that are on while a graph is compiled."""

from __future__ import annotations

import dataclasses
from table import Change, other

MODE, AUTOCAST, SWITCH = "grad mode", "autocast dtype and cache flag", "SDPA back-end switches"

CALL = """
def f(x, w):
    return torch.mm(x, w).sin()

def run():
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    if True:
        out = torch.compile(f)(x, w)
        if out.requires_grad:
            out.sum().backward()
    yield out
"""

FACTORY = """
def f(x):
    return x.sum() + torch.zeros(3)

def run():
    if True:
        yield torch.compile(f)(torch.ones(2, dtype=torch.float32))
"""

IN_GRAPH = """
def f(x, w):
    with torch.autocast("cpu"):
        return torch.mm(x, w)

def run():
    dtype = torch.get_autocast_dtype("cpu")
    try:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        yield torch.compile(f)(torch.randn(4, 4), torch.randn(4, 4))
    finally:
        torch.set_autocast_dtype("cpu", dtype)
"""

# The dtype is only read while AOTAutograd traces.
OPAQUE_AUTOCAST = IN_GRAPH.replace("def f(", "@torch._dynamo.allow_in_graph\ndef f(").replace(
    "(f)", "(lambda x, w: f(x, w))"
)

ATTENTION = """
from torch.nn.attention import SDPBackend, sdpa_kernel

def f(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)

def run():
    q, k, v = torch.randn(3, 2, 4, 8, 16).unbind()
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        out = torch.compile(f)(q, k, v)
    yield out.isfinite().all()
"""

SETTING = """
def run():
    try:
        pass
        yield torch.compile(lambda x, w: torch.mm(x, w))(torch.ones(4, 4), torch.ones(4, 4))
    finally:
        ...
"""

NUMPY = """
import numpy
import torch._numpy

def run():
    torch._numpy.set_default_dtype("numpy")
    try:
        yield torch.compile(lambda x: x * torch.from_numpy(numpy.full(3, 2.0)))(torch.ones(3))
    finally:
        torch._numpy.set_default_dtype("numpy")
"""

IN_MODE = """
from torch.overrides import TorchFunctionMode

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.Tensor.sin else out

def run():
    compiled = torch.compile(lambda x: x.sin())
    with Functions():
        yield compiled(torch.ones(3))
"""


def _setting(name: str, row: str, put: str, value: str, usual: str = "") -> Change:
    """`put(value)` is called in the second process only; without `usual`, which puts it back, that has a process alone."""
    edits = [("pass", f"{put}({value})")] + [("...", f"{put}({usual})")] * bool(usual)
    change = other(name, row, SETTING, *edits, equal=value != "torch.float64")
    return change if usual else dataclasses.replace(change, env={"SOUNDNESS_PROCESS": name})


CHANGES = [
    other("no_grad", MODE, CALL, ("if True", "with torch.no_grad()")),
    other("inference_mode", MODE, CALL, ("if True", "with torch.inference_mode()")),
    other("autocast", AUTOCAST, CALL, ("if True", 'with torch.autocast("cpu")')),
    other(
        "autocast_dtype",
        AUTOCAST,
        CALL.replace("if True", 'with torch.autocast("cpu", dtype=torch.bfloat16)'),
        ("bfloat16", "float16"),
    ),
    other("autocast_dtype_in_graph", AUTOCAST, IN_GRAPH, ("torch.bfloat16", "torch.float16")),
    other("autocast_dtype_in_opaque_code", AUTOCAST, OPAQUE_AUTOCAST, ("torch.bfloat16", "torch.float16")),
    other(
        "autocast_cache",
        AUTOCAST,
        CALL.replace("if True", 'with torch.autocast("cpu")'),
        ('autocast("cpu")', 'autocast("cpu", cache_enabled=False)'),
        equal=True,
    ),
    _setting("default_dtype", MODE, "torch.set_default_dtype", "torch.float64", "torch.float32"),
    _setting("deterministic", MODE, "torch.use_deterministic_algorithms", "True", "False"),
    _setting("matmul_precision", SWITCH, "torch.set_float32_matmul_precision", "'medium'"),
    _setting("onednn", SWITCH, "torch.backends.mkldnn.set_flags", "False", "True"),
    _setting("onednn_precision", SWITCH, "torch.backends.mkldnn.matmul.__setattr__", "'fp32_precision', 'bf16'"),
    _setting("anomaly", SWITCH, "torch.autograd.set_detect_anomaly", "True", "False"),
    _setting("threads", "CPU features", "torch.set_num_threads", "2", "1"),
    other("attention_backend", SWITCH, ATTENTION, ("SDPBackend.MATH", "SDPBackend.FLASH_ATTENTION"), equal=True),
    other("default_device", SWITCH, FACTORY, ("if True", 'with torch.device("cpu")'), equal=True),
    other("numpy_default_dtype", MODE, NUMPY, ('("numpy")\n    try', '("pytorch")\n    try')),
    other("function_mode", SWITCH, IN_MODE, ("out * 2", "out * 3")),
]
