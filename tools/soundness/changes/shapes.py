"""Shapes that are not fixed, numbers that become inputs, and kinds of input tensors."""

from __future__ import annotations

from table import guarded, other

META = "inputs: dtype"
SHAPES = "dynamic shapes"
CLASS = "tensor subclass"

AXIOM = """
def f(x):
    if x.shape[0] % 2 == 0:
        pass
    return x.reshape(-1, 2).sum(0) if x.numel() % 2 == 0 else x[1:].reshape(-1, 2).sum(0)

def run():
    x = torch.arange(6.0)
    torch._dynamo.mark_dynamic(x, 0)
    yield torch.compile(f)(x)
"""

UNBACKED = """
def f(x):
    n = x.item()
    torch._check(n >= 2)
    torch._check(n <= 8)
    return torch.ones(n) * 2

def run():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield torch.compile(f, fullgraph=True)(torch.tensor(4))
"""

MARK = """
def run():
    x = torch.ones(6, 3)
    torch._dynamo.mark_dynamic(x, 0)
    yield torch.compile(lambda t: torch.mm(t, t.t()) * t.shape[0])(x)
"""

HINT = """
def run():
    x = torch.ones(6, 3)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    yield torch.compile(lambda t: torch.mm(t, t.t()))(x)
"""

FLOATS = """
def run():
    compiled = torch.compile(lambda x, s: torch.mm(x, x) * s)
    yield [compiled(torch.ones(2, 2), s) for s in (1.0, 2.0, 3.0)]
"""

FLOAT_ARG = """
def run():
    compiled = torch.compile(lambda x, s: torch.mm(x, x) * s)
    yield compiled(torch.ones(2, 2), 2.0)
"""

JAGGED = """
def run():
    parts = [torch.ones(2, 4), torch.ones(3, 4)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    yield torch.compile(lambda x: x.sin() * 2)(x).values()
"""

ZERO_DIM = """
def f(x, s):
    return x * s + torch.arange(3, dtype=torch.int64)

def run():
    yield torch.compile(f)(torch.ones(3, dtype=torch.float16), torch.tensor(2.0))
"""

SUBSET = """
def f(a, b):
    return torch.mm(a, b).sin()

def run():
    a, b = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
    torch.compile(f)(a, b).sum().backward()
    yield a.grad, b.grad
"""

TWO = """
from torch.testing._internal.two_tensor import TwoTensor

def run():
    a, b = torch.ones(3), torch.full((3,), 2.0)
    out = torch.compile(lambda x: x.sin() * 2)(TwoTensor(a, b))
    yield out.a, out.b
"""

EXPANDED = """
def run():
    x = torch.arange(3.0)
    yield torch.compile(lambda x: torch.mm(x, x) + x)(x.expand(3, 3))
"""

CHANGES = [
    guarded("axiom_of_a_branch", SHAPES, AXIOM, ("arange(6.0)", "arange(7.0)")),
    other("checked_range", SHAPES, UNBACKED, ("n <= 8", "n <= 6"), equal=True),
    other("marked_dynamic_or_not", SHAPES, MARK, ("    torch._dynamo.mark_dynamic(x, 0)\n", ""), equal=True),
    other("unbacked_or_not", SHAPES, HINT, ("    torch._dynamo.decorators.mark_unbacked(x, 0)\n", ""), equal=True),
    other("floats_that_change", META, FLOATS, ("* s)", "/ s)")),
    other("float_argument", META, FLOAT_ARG, ("2.0)", "3.0)")),
    other("jagged_or_not", META, JAGGED, ("* 2", "* 3")),
    other(
        "scalar_tensor_dtype",
        META,
        ZERO_DIM,
        ("torch.tensor(2.0)", "torch.tensor(2.0, dtype=torch.float64)"),
        equal=True,
    ),
    other("scalar_tensor_rank", META, ZERO_DIM, ("torch.tensor(2.0)", "torch.tensor([2.0])")),
    other(
        "frozen_weight",
        META,
        SUBSET,
        (
            "b = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)",
            "b = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3)",
        ),
    ),
    other(
        "inner_dtype",
        CLASS,
        TWO,
        (
            "torch.ones(3), torch.full((3,), 2.0)",
            "torch.ones(3, dtype=torch.float64), torch.full((3,), 2.0, dtype=torch.float64)",
        ),
    ),
    other("expanded_or_not", META, EXPANDED, ("x.expand(3, 3)", "x.expand(3, 3).contiguous()"), equal=True),
]
