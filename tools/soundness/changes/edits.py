"""Edits of a model, as they are made between two runs."""

from __future__ import annotations

from table import other

ROW = "graph code"
NESTED = "opaque callables in a nested body"
CONFIG = "Inductor and functorch configuration"
ALIAS = "inputs: which share storage"
GRAD = "grad mode"
SWITCH = "SDPA back-end switches"

CHOICES = """
def f(x):
    return torch.einsum("ij,kj->ik", x, x), x[[0, 2]]

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.arange(16.0).reshape(4, 4))
"""

SDPA = """
import torch.nn.functional as F

def f(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=False, scale=0.5)

def run():
    q, k, v = torch.linspace(-1, 1, 3 * 2 * 4 * 8 * 16).reshape(3, 2, 4, 8, 16).unbind()
    with torch.no_grad():
        yield torch.compile(f)(q, k, v)
"""

PRIORITY = """
from torch.nn.attention import SDPBackend, sdpa_kernel

def f(q, k, v):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

def run():
    q, k, v = torch.linspace(-1, 1, 3 * 2 * 4 * 8 * 16).reshape(3, 2, 4, 8, 16).unbind()
    with torch.no_grad():
        yield torch.compile(f)(q, k, v)
"""

COND = """
def make(n):
    def f(x):
        return torch.cond(x.sum() > n, lambda t: t * n, lambda t: t - n, (x,))
    return f

def run():
    with torch.no_grad():
        yield torch.compile(make(2))(torch.ones(3))
"""

FUNCTIONAL = """
def run():
    torch.manual_seed(1)
    net = torch.nn.Linear(3, 3)
    with torch.no_grad():
        call = torch.compile(lambda w, x: torch.func.functional_call(net, {"weight": w * 2}, (x,)))
        yield call(torch.ones(3, 3), torch.ones(2, 3))
"""

TIED = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(3, 3))
        self.b = torch.nn.Parameter(torch.ones(3, 3))
        pass

    def forward(self, x):
        return torch.mm(torch.mm(x, self.a), self.b)

def run():
    net = Net()
    torch.compile(net)(torch.ones(3, 3)).sum().backward()
    yield [p.grad for p in net.parameters()]
"""

MODULE_STATE = """
class Net(torch.nn.Module):
    layers = 2
    rates = {"a": 0.5}

    def forward(self, x):
        for _ in range(self.layers):
            x = torch.mm(x, x) * self.rates["a"]
        return x.to(getattr(torch, "float64"))

def run():
    yield torch.compile(Net())(torch.arange(4.0).reshape(2, 2))
"""

CHECKED = """
import torch.utils.checkpoint as C

def f(x):
    body = lambda t: torch.dropout(torch.mm(t, t), 0.5, True).sin()
    return C.checkpoint(body, x, use_reentrant=False, preserve_rng_state=True)

def run():
    x = torch.ones(3, 3, requires_grad=True)
    torch.manual_seed(3)
    with torch._inductor.config.patch(fallback_random=True):
        torch.compile(f)(x).sum().backward()
    yield x.grad
"""

MODULE_HOOK = """
def hook(module, args, output):
    return output * FACTOR

FACTOR = 2

def run():
    torch.manual_seed(1)
    net = torch.nn.Linear(3, 3)
    net.register_forward_hook(hook)
    with torch.no_grad():
        yield torch.compile(net)(torch.ones(2, 3))
"""

HOOK = """
def hook(grad):
    return grad * 2

def f(x):
    y = x.sin()
    y.register_hook(hook)
    return y * 3

def run():
    x = torch.ones(3, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad
"""

BUFFER = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps += 1
        return x * self.steps

def run():
    net = Net()
    compiled = torch.compile(net)
    yield compiled(torch.ones(3)), compiled(torch.ones(3)), net.steps.clone()
"""

RESIZED = """
def f(x):
    y = x[::2]
    y.mul_(3)
    return y.view(-1), x

def run():
    x = torch.arange(8.0)
    yield torch.compile(f)(x)
    yield x
"""

DTYPES = """
def f(x):
    return (x.to(torch.float64) / 3).to(torch.float32)

def run():
    yield torch.compile(f)(torch.arange(5, dtype=torch.int32))
"""

REGION = """
@torch.compiler.nested_compile_region
def block(x):
    return torch.mm(x, x).sin()

def f(x):
    return block(block(x))

def run():
    x = torch.ones(3, 3, requires_grad=True)
    out = torch.compile(f)(x)
    out.sum().backward()
    yield out
    yield x.grad
"""

VMAP = """
def f(x, y):
    return torch.func.vmap(lambda a, b: torch.dot(a, b), in_dims=(0, 0))(x, y)

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.arange(9.0).reshape(3, 3), torch.arange(9.0).reshape(3, 3) + 1)
"""

FUNC_GRAD = """
def f(x, y):
    return torch.func.grad(lambda a, b: (a.sin() * b * b).sum(), argnums=0)(x, y)

def run():
    yield torch.compile(f)(torch.ones(3), torch.full((3,), 2.0))
"""

INNER_GRAD = """
def f(x, w):
    with torch.set_grad_enabled(True):
        return torch.mm(x, w)

def run():
    w = torch.ones(3, 3, requires_grad=True)
    out = torch.compile(f)(torch.ones(3, 3), w)
    if out.requires_grad:
        out.sum().backward()
    yield out
"""

MODE = """
def run():
    yield torch.compile(lambda x: torch.mm(x, x), mode="default")(torch.ones(3, 3))
"""

CHANGES = [
    other("equation", ROW, CHOICES, ("ij,kj->ik", "ij,jk->ik")),
    other("list_index", ROW, CHOICES, ("[[0, 2]]", "[[0, 3]]")),
    other("causal", ROW, SDPA, ("is_causal=False", "is_causal=True")),
    other("attention_scale", ROW, SDPA, ("scale=0.5", "scale=0.25")),
    other(
        "attention_priority",
        SWITCH,
        PRIORITY,
        ("SDPBackend.MATH, SDPBackend.FLASH_ATTENTION", "SDPBackend.FLASH_ATTENTION, SDPBackend.MATH"),
        equal=True,
    ),
    other("closed_over_number", ROW, COND, ("make(2)", "make(4)")),
    other("functional_call", ROW, FUNCTIONAL, ("w * 2", "w * 3")),
    other("tied_weights", ALIAS, TIED, ("pass", "self.b = self.a")),
    other("class_attribute", ROW, MODULE_STATE, ("layers = 2", "layers = 3")),
    other("class_table", ROW, MODULE_STATE, ('"a": 0.5', '"a": 0.25')),
    other("dtype_by_name", ROW, MODULE_STATE, ('"float64"', '"float16"')),
    other("preserved_rng", ROW, CHECKED, ("preserve_rng_state=True", "preserve_rng_state=False"), equal=True),
    other("dropout_rate", ROW, CHECKED, ("0.5", "0.25")),
    other("module_hook", NESTED, MODULE_HOOK, ("FACTOR = 2", "FACTOR = 3")),
    other("tensor_hook", NESTED, HOOK, ("grad * 2", "grad * 5")),
    other("mutated_buffer", ROW, BUFFER, ("+= 1", "+= 2")),
    other("view_step", ROW, RESIZED, ("[::2]", "[1::2]")),
    other("dtype_on_the_way", ROW, DTYPES, ("float64", "bfloat16")),
    other("region_body", ROW, REGION, ("sin()", "cos()")),
    other("vmap_axis", ROW, VMAP, ("in_dims=(0, 0)", "in_dims=(0, 1)")),
    other("gradient_argument", ROW, FUNC_GRAD, ("argnums=0", "argnums=1")),
    other("grad_mode_in_the_graph", GRAD, INNER_GRAD, ("set_grad_enabled(True)", "set_grad_enabled(False)")),
    other("mode", CONFIG, MODE, ('"default"', '"max-autotune-no-cudagraphs"'), equal=True),
]
