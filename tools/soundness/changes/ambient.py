"""Switches of torch that are on while a graph is compiled."""

from __future__ import annotations

from table import Change, bypassed, other

MODE, AUTOCAST, SWITCH = "grad mode", "autocast dtype and cache flag", "SDPA back-end switches"

CALL = """
def f(x, w):
    return torch.mm(x, w).sin()

def run():
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    if True:
        out = torch.compile(f)(x, w)
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
OPAQUE_AUTOCAST = IN_GRAPH.replace("def f(", "@torch._dynamo.allow_in_graph\ndef f(").replace("(f)", "(lambda x, w: f(x, w))")

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
import functools

def run():
    before = GET
    try:
        pass
        yield torch.compile(lambda x, w: torch.mm(x, w))(torch.ones(4, 4), torch.ones(4, 4))
    finally:
        SET(before)
"""

IN_MODE = """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

def run():
    compiled = torch.compile(lambda x: x.sin())
    with MODE():
        yield compiled(torch.ones(3))
"""


def _setting(name: str, row: str, get: str, put: str, value: str) -> Change:
    """`put(value)` is called in the second process only; `get` reads what is there before."""
    text = SETTING.replace("GET", get).replace("SET", put)
    return other(name, row, text, ("pass", f"{put}({value})"), equal=True)


CHANGES = [
    other("no_grad", MODE, CALL, ("if True", "with torch.no_grad()")),
    other("inference_mode", MODE, CALL, ("if True", "with torch.inference_mode()")),
    other("autocast", AUTOCAST, CALL, ("if True", 'with torch.autocast("cpu")')),
    other("autocast_dtype", AUTOCAST, CALL.replace("if True", 'with torch.autocast("cpu", dtype=torch.bfloat16)'), ("bfloat16", "float16")),
    other("autocast_dtype_in_graph", AUTOCAST, IN_GRAPH, ("torch.bfloat16", "torch.float16")),
    other("autocast_dtype_in_opaque_code", AUTOCAST, OPAQUE_AUTOCAST, ("torch.bfloat16", "torch.float16")),
    other("autocast_cache", AUTOCAST, CALL.replace("if True", 'with torch.autocast("cpu")'), ('autocast("cpu")', 'autocast("cpu", cache_enabled=False)'), equal=True),
    _setting("default_dtype", MODE, "torch.get_default_dtype()", "torch.set_default_dtype", "torch.float64"),
    _setting("deterministic", MODE, "torch.are_deterministic_algorithms_enabled()", "torch.use_deterministic_algorithms", "True"),
    _setting("matmul_precision", SWITCH, "torch.get_float32_matmul_precision()", "torch.set_float32_matmul_precision", "'medium'"),
    _setting("onednn", SWITCH, "torch.backends.mkldnn.enabled", "torch.backends.mkldnn.set_flags", "False"),
    _setting("onednn_precision", SWITCH, "torch.backends.mkldnn.matmul.fp32_precision", "functools.partial(setattr, torch.backends.mkldnn.matmul, 'fp32_precision')", "'bf16'"),
    _setting("anomaly", SWITCH, "torch.is_anomaly_enabled()", "torch._C._set_anomaly_enabled", "True"),
    _setting("threads", "CPU features", "torch.get_num_threads()", "torch.set_num_threads", "2"),
    other("attention_backend", SWITCH, ATTENTION, ("SDPBackend.MATH", "SDPBackend.FLASH_ATTENTION"), equal=True),
    other("default_device", SWITCH, FACTORY, ("if True", 'with torch.device("cpu")'), equal=True),
    bypassed("dispatch_mode", SWITCH, IN_MODE.replace("MODE()", "Mode()"), "Mode is active"),
    bypassed("function_mode", SWITCH, IN_MODE.replace("MODE()", "Functions()"), "Functions is active"),
]
