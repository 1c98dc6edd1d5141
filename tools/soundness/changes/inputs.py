"""What goes in: metadata of tensors, how they share storage, plain values."""

from __future__ import annotations

from table import other

META, ALIAS, PLACE = "inputs: dtype", "inputs: which share storage", "inputs: storage offset"

CALL = """
def f(x, y):
    return (x + y).contiguous() * 2

def run():
    x, y = torch.ones(4, 4), torch.arange(16.0).reshape(4, 4)
    out = torch.compile(f)(x, y)
    if out.requires_grad:
        out.sum().backward()
    yield out, out.stride(), out.dtype
"""

VIEWS = """
def f(a, b):
    a.mul_(3)
    return b + 1

def run():
    base = torch.arange(8.0)
    yield torch.compile(f)(base[:3], base[5:8])
    yield base
"""

TWICE = """
def f(a, b):
    a.add_(1)
    return a * b

def run():
    x, y = torch.ones(3), torch.ones(3)
    yield torch.compile(f)(x, y)
    yield x
"""

LEAF = """
def f(a):
    return a.sin() * 2

def run():
    x = torch.ones(3, requires_grad=True)
    out = torch.compile(f)(x)
    out.sum().backward()
    yield x.grad
"""

MUTATED_VIEW = """
def f(a):
    a.mul_(2)
    return a + 1

def run():
    base = torch.ones(6)
    yield torch.compile(f)(base[0:4])
    yield base
"""

SCALARS = """
def f(x, flag, text, n):
    x = x * n if flag else x - n
    return x.sum() if text == "sum" else x

def run():
    yield torch.compile(f)(torch.ones(3), True, "sum", 3)
"""

CHANGES = [
    other("dtype", META, CALL, ("torch.ones(4, 4), ", "torch.ones(4, 4, dtype=torch.float64), ")),
    other("shape", META, CALL, ("torch.ones(4, 4), ", "torch.ones(1, 4), "), equal=True),
    other("stride", META, CALL, ("(f)(x, y)", "(f)(x, y.t())")),
    other("requires_grad", META, CALL, ("(f)(x, y)", "(f)(x.requires_grad_(), y)")),
    other(
        "conjugate", META, CALL.replace("torch.ones(4, 4)", "torch.full((4, 4), 1j)"), ("(f)(x, y)", "(f)(x.conj(), y)")
    ),
    other("negative_bit", META, CALL, ("(f)(x, y)", "(f)(torch.full((4, 4), 1j).conj().imag, y)")),
    other("parameter", META, CALL, ("(f)(x, y)", "(f)(torch.nn.Parameter(x, False), y)"), equal=True),
    other("overlapping_views", ALIAS, VIEWS, ("base[5:8]", "base[2:5]")),
    other("views_of_one_storage", ALIAS, VIEWS, ("base[5:8]", "base[5:8].clone()"), equal=True),
    other("one_tensor_twice", ALIAS, TWICE, ("(f)(x, y)", "(f)(x, x)")),
    other("same_place_in_two_tensors", ALIAS, TWICE, ("(f)(x, y)", "(f)(x, x[:])")),
    other("leaf_or_not", PLACE, LEAF, ("(f)(x)", "(f)(x * 1)"), equal=True),
    other("alignment", PLACE, MUTATED_VIEW, ("base[0:4]", "base[1:5]")),
    other("integer", META, SCALARS, ('"sum", 3', '"sum", 4')),
    other("string", META, SCALARS, ('"sum", 3', '"mean", 3')),
    other("truth", META, SCALARS, ("True,", "False,")),
]
