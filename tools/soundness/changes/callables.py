"""Python code that is not traced into the graph, or that takes part in the compile."""

from __future__ import annotations

from table import bypassed, other

NESTED, FUNCTION, CLASS = "opaque callables in a nested body", "custom `autograd.Function`", "tensor subclass"
HOOKS, POLICY, PASSES = "saved-tensor hooks", "selective checkpointing policies", "Inductor custom passes"
TABLES = "decomposition tables"

OPAQUE = """
FACTOR = 2

def helper(x):
    return x * FACTOR

@torch._dynamo.allow_in_graph
def opaque(x):
    return helper(x)

def run():
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: opaque(x))(x).sum().backward()
    yield x.grad
"""

OPAQUE_IN_CHECKPOINT = """
from torch.utils.checkpoint import checkpoint

@torch._dynamo.allow_in_graph
def opaque(x):
    return x.sin() * 2

def f(x):
    return checkpoint(lambda t: opaque(t), x, use_reentrant=False)

def run():
    x = torch.ones(3, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad
"""

AUTOGRAD_FUNCTION = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor, None

def run():
    x = torch.ones(3, requires_grad=True)
    out = torch.compile(lambda x: Scale.apply(x, 2.0))(x)
    out.sum().backward()
    yield out
    yield x.grad
"""

OPAQUE_AUTOGRAD_FUNCTION = AUTOGRAD_FUNCTION.replace("class Scale", "@torch._dynamo.allow_in_graph\nclass Scale")

SELECTIVE = """
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

def policy(ctx, op, *args, **kwargs):
    save = op in (torch.ops.aten.mm.default,)
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

def contexts():
    return create_selective_checkpoint_contexts(policy)

contexts.cache_hash = "constant"

def f(x):
    return checkpoint(lambda t: torch.mm(t.sin(), t).cos(), x, use_reentrant=False, context_fn=contexts)

def run():
    x = torch.ones(3, 3, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad
"""

SAVED_TENSORS = """
import torch._functorch.config as functorch

def pack(x):
    return x * 2

def unpack(x):
    return x / 2

def f(x):
    return (x.sin() * x).exp()

def run():
    pack_graph, unpack_graph = torch.fx.symbolic_trace(pack), torch.fx.symbolic_trace(unpack)
    x = torch.ones(3, requires_grad=True)
    with functorch.patch(saved_tensors_hooks_filtering_mode="all"):
        with torch.autograd.graph.saved_tensors_hooks(pack_graph, unpack_graph):
            out = torch.compile(f)(x)
        out.sum().backward()
    yield x.grad
"""

SUBCLASS = """
from torch.utils import _pytree as pytree

class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, factor, names=frozenset()):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)

    def __init__(self, inner, factor, names=frozenset()):
        self.inner, self.factor, self.names = inner, factor, names

    def __tensor_flatten__(self):
        return ["inner"], (self.factor, self.names)

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Scaled(inner["inner"], *meta)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        factor = next(a.factor for a in pytree.tree_leaves(args) if isinstance(a, Scaled))
        names = next(a.names for a in pytree.tree_leaves(args) if isinstance(a, Scaled))
        args, kwargs = pytree.tree_map_only(Scaled, lambda s: s.inner, (args, kwargs or {}))
        out = func(*args, **kwargs)
        if func is torch.ops.aten.sin.default:
            out = out * factor
        return pytree.tree_map_only(torch.Tensor, lambda t: Scaled(t, factor, names), out)

def run():
    x = Scaled(torch.ones(3), 2.0, frozenset({"one", "two", "three", "four"}))
    yield torch.compile(lambda t: t.sin())(x).inner
"""

BACKEND = """
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.output_code import CompiledFxGraph

def decompose(x):
    return torch.ops.aten.cos(x)

def compiler(graph, inputs):
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.tan.default:
            node.target = torch.ops.aten.exp.default
    graph.recompile()
    return compile_fx_inner(graph, inputs)

serializable = SerializableAOTDispatchCompiler(CompiledFxGraph, compiler)
backend = aot_autograd(fw_compiler=serializable, decompositions={torch.ops.aten.sin.default: decompose})

def run():
    with torch.no_grad():
        yield torch.compile(lambda x: x.sin() + x.tan(), backend=backend)(torch.ones(3))
"""

DATALESS = """
class Box:
    def __init__(self):
        self.handle = __import__("socket").socket()

box = Box()

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * (2 if box else 3)

def run():
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
    box.handle.close()
"""

CHANGES = [
    other("opaque_function", NESTED, OPAQUE, ("return helper(x)", "return helper(x) * 5")),
    other("opaque_helper", NESTED, OPAQUE, ("return x * FACTOR", "return x * FACTOR * 5")),
    other("opaque_global", NESTED, OPAQUE, ("FACTOR = 2", "FACTOR = 3")),
    other("opaque_in_checkpoint", NESTED, OPAQUE_IN_CHECKPOINT, ("x.sin() * 2", "x.sin() * 3")),
    bypassed("opaque_without_identity", NESTED, DATALESS, "socket"),
    other("autograd_function_forward", FUNCTION, AUTOGRAD_FUNCTION, ("return x * factor", "return x * factor + 1")),
    other("autograd_function_backward", FUNCTION, AUTOGRAD_FUNCTION, ("grad * ctx.factor", "grad * ctx.factor * 3")),
    other("autograd_function_constant", FUNCTION, AUTOGRAD_FUNCTION, ("(x, 2.0)", "(x, 3.0)")),
    other(
        "opaque_autograd_function", FUNCTION, OPAQUE_AUTOGRAD_FUNCTION, ("grad * ctx.factor", "grad * ctx.factor * 3")
    ),
    other("policy", POLICY, SELECTIVE, ("torch.ops.aten.mm.default,", "torch.ops.aten.sin.default,"), equal=True),
    other("policy_hash", POLICY, SELECTIVE, ('"constant"', '"other"'), equal=True),
    other("hook_pack", HOOKS, SAVED_TENSORS, ("return x * 2", "return x * 4")),
    other("hook_unpack", HOOKS, SAVED_TENSORS, ("return x / 2", "return x / 4")),
    other("subclass_dispatch", CLASS, SUBCLASS, ("out * factor", "out + factor")),
    other("subclass_metadata", CLASS, SUBCLASS, ("2.0, frozen", "3.0, frozen")),
    other("subclass_unordered_metadata", CLASS, SUBCLASS, ('"four"', '"five"'), equal=True),
    other("compiler", PASSES, BACKEND, ("torch.ops.aten.exp.default", "torch.ops.aten.cos.default")),
    other("decomposition", TABLES, BACKEND, ("return torch.ops.aten.cos(x)", "return torch.ops.aten.exp(x)")),
]
