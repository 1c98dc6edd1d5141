"""Custom operators: everything that can be registered for them, and for torch's own."""

from __future__ import annotations

from table import Change, bypassed, other

ROW, SCHEMA, LIBRARY = "custom op: implementation", "custom op: schema", "custom ops from a loaded library"

# A helper, so that the body of something that is only called counts too.
OPERATOR = """
def helper(x):
    return x * 2

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return helper(x)

@scale.register_fake
def _(x):
    return torch.empty_like(x)

def setup_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])

def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return torch.mm(grad, x)

scale.register_autograd(backward, setup_context=setup_context)

def batched(info, in_dims, x):
    return scale(x), in_dims[0]

scale.register_vmap(batched)

def f(x):
    return torch.mm(scale(x), x)

def run():
    x = torch.randn(3, 3, requires_grad=True)
    out = torch.compile(f)(x)
    out.sum().backward()
    yield out
    yield x.grad
    yield torch.compile(lambda x: torch.vmap(scale)(x))(torch.ones(2, 3))
"""

AUTOCAST = """
@torch.library.custom_op("NS::same", mutates_args=())
def same(x: Tensor) -> Tensor:
    return x.clone()

@same.register_fake
def _(x):
    return torch.empty_like(x)

same.register_autocast("cpu", torch.bfloat16)

def f(x):
    return same(x)

def run():
    with torch.no_grad(), torch.autocast("cpu"):
        yield torch.compile(f)(torch.randn(3, 3))
"""

# By hand: a library, with kernels of all kinds.
LIBRARY_OPERATOR = """
lib = torch.library.Library("NS", "FRAGMENT")
lib.define("twice(Tensor x) -> Tensor")
lib.define("mix(Tensor x) -> Tensor")

def twice(x):
    return torch.mm(x, x)

lib.impl("twice", twice, "CompositeImplicitAutograd")

def mix(x):
    return x + 1

lib.impl("mix", mix, "CPU")

@torch.library.register_fake("NS::mix", lib=lib)
def _(x):
    return torch.empty_like(x)

def backward(ctx, grad):
    return torch.mm(grad, grad)

torch.library.register_autograd("NS::mix", backward, lib=lib)

def f(x):
    return torch.ops.NS.mix(torch.ops.NS.twice(x))

def run():
    x = torch.randn(3, 3, requires_grad=True)
    out = torch.compile(f)(x)
    out.square().sum().backward()
    yield out
    yield x.grad
"""

MUTATING = """
@torch.library.custom_op("NS::fill", mutates_args=("x",))
def fill(x: Tensor, y: Tensor) -> None:
    x.copy_(y)

@fill.register_fake
def _(x, y):
    return None

def f(x, y):
    fill(x, y)
    return torch.mm(x, y)

def run():
    x, y = torch.zeros(3, 3), torch.randn(3, 3)
    yield torch.compile(f)(x, y)
    yield x
    yield y
"""

# A kernel for an operator of torch that counts while AOTAutograd traces.
OVERRIDE = """
def mine(x, w, bias=None):
    return torch.mm(x, w)

def f(x, w):
    return torch.nn.functional.linear(x, w)

def run():
    with torch.library._scoped_library("aten", "IMPL") as lib, torch.no_grad():
        lib.impl("linear", mine, "CompositeImplicitAutograd")
        yield torch.compile(f)(torch.randn(3, 3), torch.randn(3, 3))
"""

DECOMPOSED = """
from torch._ops import DispatchKey

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return x * 2

@scale.register_fake
def _(x):
    return torch.empty_like(x)

@torch.library.register_torch_dispatch("NS::scale", torch._subclasses.functional_tensor.FunctionalTensorMode)
def _(mode, func, types, args, kwargs):
    with mode:
        return torch.mm(*args, *args)

def run():
    yield torch.compile(lambda x: scale(x))(torch.randn(3, 3))
"""

UNSEEN = """
lib = torch.library.Library("NS", "FRAGMENT")
lib.define("twice(Tensor x) -> Tensor")
# Past torch.library, as nothing could see it.
lib.m.impl("twice", "CompositeImplicitAutograd", lambda x: torch.mm(x, x), False)
torch.library._impls.add("NS/twice/CompositeImplicitAutograd")

def run():
    yield torch.compile(lambda x: torch.ops.NS.twice(x))(torch.randn(3, 3))
"""

UNIDENTIFIED = """
import ctypes

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    ctypes.CDLL(None)
    return x * 2

@scale.register_fake
def _(x):
    return torch.empty_like(x)

def run():
    yield torch.compile(lambda x: scale(x))(torch.randn(3, 3))
"""

TRITON_OPERATOR = """
@torch.library.triton_op("NS::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return torch.mm(x, x)

def run():
    yield torch.compile(lambda x: scale(x))(torch.randn(3, 3))
"""


NATIVE = """
import os

torch.ops.load_library(os.path.join(os.environ["SOUNDNESS_LIBRARIES"], "one.so"))

def run():
    yield torch.compile(lambda x: torch.ops.snd_native.scale(x))(torch.ones(3))
"""


def _named(change: Change) -> Change:
    """Each change has a namespace of operators of its own: all run in one process."""
    space = f"snd_{change.name}"
    fields = {"before": change.before.replace("NS", space), "after": change.after.replace("NS", space)}
    return Change(**{**vars(change), **fields})


_CHANGES = [
    other("op_implementation", ROW, OPERATOR, ("return helper(x)", "return helper(x) + 1")),
    other("op_helper", ROW, OPERATOR, ("return x * 2", "return x * 3")),
    other("op_fake", ROW, OPERATOR, ("return torch.empty_like(x)", "return x.new_empty(x.shape)"), equal=True),
    other("op_backward", ROW, OPERATOR, ("torch.mm(grad, x)", "torch.mm(x, grad)")),
    other("op_backward_context", ROW, OPERATOR, ("for_backward(inputs[0])", "for_backward(output)")),
    other("op_vmap", ROW, OPERATOR, ("return scale(x), in_dims[0]", "return scale(scale(x)), in_dims[0]")),
    other("op_device_kernel", ROW, OPERATOR, ("def f(x)", "scale.register_kernel('cpu')(lambda x: x * 7)\ndef f(x)")),
    other(
        "op_tags",
        SCHEMA,
        OPERATOR,
        ("mutates_args=()", "mutates_args=(), tags=(torch.Tag.flexible_layout,)"),
        equal=True,
    ),
    other(
        "op_effect",
        SCHEMA,
        OPERATOR.replace("x = torch.randn(3, 3, requires_grad=True)", "x = torch.randn(3, 3)").replace(
            "    out.sum().backward()\n", ""
        ),
        ("def f(x)", "scale.register_effect(torch.library.EffectType.ORDERED)\ndef f(x)"),
        equal=True,
    ),
    other("op_autocast", ROW, AUTOCAST, ("torch.bfloat16", "torch.float16")),
    other("op_composite_kernel", ROW, LIBRARY_OPERATOR, ("torch.mm(x, x)", "torch.mm(x, x.t())")),
    other("op_library_kernel", ROW, LIBRARY_OPERATOR, ("return x + 1", "return x + 2")),
    other("op_library_backward", ROW, LIBRARY_OPERATOR, ("torch.mm(grad, grad)", "torch.mm(grad, grad.t())")),
    other("op_library_fake", ROW, LIBRARY_OPERATOR, ("torch.empty_like(x)", "x.new_empty(x.shape)"), equal=True),
    other("op_mutated_argument", SCHEMA, MUTATING, ('("x",)', '("x", "y")'), ("x.copy_(y)", "x.copy_(y); y.zero_()")),
    other(
        "op_schema_default",
        SCHEMA,
        MUTATING,
        ("x: Tensor, y: Tensor)", "x: Tensor, y: Tensor, n: int = 0)"),
        ("_(x, y)", "_(x, y, n=0)"),
        equal=True,
    ),
    other("op_dispatch_rule", ROW, DECOMPOSED, ("torch.mm(*args, *args)", "torch.mm(*args, args[0].t())")),
    other("op_triton", ROW, TRITON_OPERATOR, ("torch.mm(x, x)", "torch.mm(x, x.t())")),
    other("aten_override", ROW, OVERRIDE, ("torch.mm(x, w)", "torch.mm(w, x)")),
    other(
        "aten_override_added", ROW, OVERRIDE, ('        lib.impl("linear", mine, "CompositeImplicitAutograd")\n', "")
    ),
    bypassed(
        "op_kernel_unseen",
        ROW,
        UNSEEN,
        "its CompositeImplicitAutograd kernel was registered before",
        ("torch.mm(x, x)", "torch.mm(x, x.t())"),
    ),
    bypassed("op_unidentified", ROW, UNIDENTIFIED, "finds what it uses at run time"),
]
CHANGES = [_named(change) for change in _CHANGES]
# A library counts for all graphs of a process, so this comes last in the table.
LAST = [other("op_native_library", LIBRARY, NATIVE, ("one.so", "two.so"))]
