"""What user code put in the place of torch's own functions and methods, or changed in torch's tables."""

from __future__ import annotations

from table import other

ROW, TABLES = "monkey patches", "decomposition tables"

# The node says `method sin`, whatever stands there when AOTAutograd runs the graph.
METHOD = """
def changed(self):
    return torch.cos(self)

def run():
    original = torch.Tensor.__dict__.get("sin")
    torch.Tensor.sin = changed
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: x.sin())(torch.ones(3))
    finally:
        del torch.Tensor.sin
"""

OPERATOR = """
def changed(self, other):
    return torch.sub(self, other)

def run():
    torch.Tensor.__add__ = changed
    try:
        with torch.no_grad():
            yield torch.compile(lambda x, y: x + y)(torch.ones(3), torch.full((3,), 5.0))
    finally:
        del torch.Tensor.__add__
"""

# lp_pool2d stays in the graph as it is, and calls its neighbour when AOTAutograd traces.
NEIGHBOUR = """
import torch.nn.functional as F

original = F.avg_pool2d

def changed(*args, **kwargs):
    return original(*args, **kwargs) * 2

def run():
    F.avg_pool2d = changed
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: F.lp_pool2d(x, 2.0, 2))(torch.ones(1, 1, 4, 4))
    finally:
        F.avg_pool2d = original
"""

EINSUM = """
import torch.functional

original = torch.functional._VF
einsum = original.einsum

class Changed:
    def einsum(self, equation, operands, **kwargs):
        return einsum(equation, operands, **kwargs) * 2

def run():
    torch.functional._VF = Changed()
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: torch.einsum("ij,jk->ik", x, x))(torch.ones(3, 3))
    finally:
        torch.functional._VF = original
"""

HELPER = """
import torch._inductor.compile_fx as compile_fx

original = compile_fx._recursive_post_grad_passes
TARGET = torch.ops.aten.cos.default

def helper(node):
    node.target = torch.ops.aten.cos.default

def changed(graph, *args, **kwargs):
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.sin.default:
            helper(node)
    return original(graph, *args, **kwargs)

def run():
    compile_fx._recursive_post_grad_passes = changed
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: x.sin())(torch.ones(3))
    finally:
        compile_fx._recursive_post_grad_passes = original
"""

BY_CLASS = """
import torch._inductor.compile_fx as compile_fx

original = compile_fx.GraphLowering

class Lowering(original):
    def run_node(self, node):
        if node.target is torch.ops.aten.sin.default:
            node.target = torch.ops.aten.cos.default
        return super().run_node(node)

def run():
    compile_fx.GraphLowering = Lowering
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: x.sin())(torch.ones(3))
    finally:
        compile_fx.GraphLowering = original
"""

REMOVED = """
import torch._inductor.config as inductor
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten

def run():
    saved = dict(decompositions)
    try:
        pass
        with torch.no_grad(), inductor.patch(fallback_random=True):  # else Inductor keeps a copy
            yield torch.compile(lambda x: torch.nn.functional.silu(x))(torch.linspace(-3, 3, 64))
    finally:
        decompositions.clear()
        decompositions.update(saved)
"""

SWAPPED = """
import torch._inductor.config as inductor
from torch._inductor.lowering import fallback_handler, lowerings

aten = torch.ops.aten

def run():
    saved = dict(lowerings)
    lowerings[aten.sin.default] = fallback_handler(aten.cos.default, add_to_fallback_set=False)
    try:
        with torch.no_grad(), inductor.patch(fallback_by_default=False):
            yield torch.compile(lambda x: x.sin())(torch.ones(3))
    finally:
        lowerings.clear()
        lowerings.update(saved)
"""

FAKE_IMPL = """
from torch._subclasses import fake_impls

def fake(mode, func, x):
    with mode:
        return torch.empty_like(x)

def run():
    fake_impls.register_op_impl(torch.ops.aten.sin.default)(fake)
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: x.sin().relu())(torch.ones(3, 4))
    finally:
        fake_impls._deregister_op_impl(torch.ops.aten.sin.default)
"""

CHANGES = [
    other("patched_method", ROW, METHOD, ("torch.cos(self)", "torch.exp(self)")),
    other("patched_operator", ROW, OPERATOR, ("torch.sub(self, other)", "torch.mul(self, other)")),
    other("patched_neighbour", ROW, NEIGHBOUR, ("* 2", "* 3")),
    other("patched_by_an_object", ROW, EINSUM, ("* 2", "* 3")),
    other("helper_that_a_patch_calls", ROW, HELPER, ("node.target = torch.ops.aten.cos", "node.target = torch.ops.aten.exp")),
    other("patched_class_of_the_compiler", ROW, BY_CLASS, ("aten.cos.default", "aten.exp.default")),
    other(
        "decomposition_taken_out",
        TABLES,
        REMOVED,
        ("        pass", "        del decompositions[aten.silu.default]"),
    ),
    other("fallback_to_another_operator", TABLES, SWAPPED, ("handler(aten.cos", "handler(aten.exp")),
    other("fake_in_a_table_of_torch", TABLES, FAKE_IMPL, ("torch.empty_like(x)", "x.new_empty(x.shape)"), equal=True),
]
