"""Values that are baked into a graph or into code that is known by its identity: constants, closures, files."""

from __future__ import annotations

from table import bypassed, other

ROW = "graph code"
NESTED = "opaque callables in a nested body"
OPS = "custom op: implementation"
FUNCTION = "custom `autograd.Function`"

ENUM = """
import enum

class Level(enum.IntEnum):
    LOW = 2
    HIGH = 5

class Rate(float, enum.Enum):
    SLOW = 0.5

class Kind(enum.Enum):
    ONE = 1

def f(x, level, rate, kind):
    return x * level + torch.full((3,), Level.HIGH) * rate + kind.value

def run():
    yield torch.compile(f)(torch.ones(3), Level.LOW, Rate.SLOW, Kind.ONE)
"""

NP_SCALAR = """
import numpy as np

SCALE = np.float32(0.1)

def run():
    yield torch.compile(lambda x: x * SCALE)(torch.ones(3, dtype=torch.float64))
"""

ASSUMED_INT = """
@torch._dynamo.assume_constant_result
def constant():
    return 3

def run():
    with torch.no_grad():
        yield torch.compile(lambda x: x * constant())(torch.ones(3))
"""

CELL = """
def make(factor):
    class Config:
        scale = factor
    table = {"a": [factor, (factor, 2)]}

    @torch.library.custom_op("snd_cell::scale", mutates_args=())
    def scale(x: Tensor) -> Tensor:
        return x * Config.scale

    @scale.register_fake
    def _(x):
        return x.new_empty([len(table["a"][1]) * s // 2 for s in x.shape])

    return scale

scale = make(2)

def run():
    yield torch.compile(lambda x: scale(x))(torch.ones(4))
"""

ENV = """
import os

def read():
    return float(os.environ["SND_READER_SCALE"])

def run():
    os.environ["SND_READER_SCALE"] = "2.0"
    opaque = torch._dynamo.allow_in_graph(lambda x: x * read())
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

FILE = """
import json, os, tempfile

PATH = os.path.join(tempfile.gettempdir(), "snd_reader.json")

def scale():
    with open(PATH) as file:
        return json.load(file)["scale"]

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * scale()

def run():
    with open(PATH, "w") as file:
        file.write('{"scale": 2.0}')
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

NONSTRICT = """
@torch._dynamo.nonstrict_trace
def opaque(x):
    return x.sin() * 2

def run():
    with torch.no_grad():
        yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

CONTEXT = """
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, options):
        ctx.options = options
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.options["scale"] * len(ctx.options["name"]), None

def run():
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: Step.apply(x, {"scale": 2.0, "name": "ab"}))(x).sum().backward()
    yield x.grad
"""

NONDIFF = """
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        a, b = x.sin(), x.cos()
        ctx.mark_non_differentiable(b)
        ctx.set_materialize_grads(True)
        ctx.save_for_backward(x)
        return a, b

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * x

def run():
    x = torch.ones(3, requires_grad=True)
    a, b = torch.compile(lambda x: Step.apply(x))(x)
    yield a.requires_grad, b.requires_grad
    (a + b).sum().backward()
    yield x.grad
"""

ORDER = """
def one(x):
    return torch.cos(x)

def two(x):
    return torch.exp(x)

lib = torch.library.Library("snd_order", "DEF")
lib.define("act(Tensor x) -> Tensor")

def run():
    with torch.no_grad():
        for kernel in (one, two):
            torch.library.impl("snd_order::act", "CompositeImplicitAutograd", lib=lib)(kernel)
        yield torch.compile(lambda x: torch.ops.snd_order.act(x))(torch.ones(3))
"""

REG_FAKE = """
lib = torch.library.Library("aten", "IMPL")

def fake(x):
    return torch.empty_strided(x.shape, (4, 1))

def run():
    with torch.library._scoped_library("snd_regfake", "FRAGMENT") as lib, torch.no_grad():
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.clone(), "CPU")
        torch.library.register_fake("snd_regfake::f", fake, lib=lib)
        yield torch.compile(lambda x: torch.ops.snd_regfake.f(x).sin().stride())(torch.ones(3, 4))
"""

CHANGES = [
    other("int_enum", ROW, ENUM, ("LOW = 2", "LOW = 3")),
    other("int_enum_in_the_graph", ROW, ENUM, ("HIGH = 5", "HIGH = 6")),
    other("float_enum", ROW, ENUM, ("SLOW = 0.5", "SLOW = 0.25")),
    other("enum_value", ROW, ENUM, ("ONE = 1", "ONE = 3")),
    other("numpy_constant", ROW, NP_SCALAR, ("np.float32(0.1)", "np.float64(0.1)")),
    other("assumed_number", ROW, ASSUMED_INT, ("return 3", "return 4")),
    other("constant_in_a_closure", OPS, CELL, ("make(2)", "make(3)")),
    other("helper_reads_a_variable", NESTED, ENV, ('] = "2.0"', '] = "3.0"')),
    bypassed("helper_reads_a_file", NESTED, FILE, "`open` reads a file", ('"scale": 2.0', '"scale": 3.0')),
    bypassed("nonstrict_function", NESTED, NONSTRICT, "nonstrict", ("* 2", "* 3")),
    other("context_of_a_function", FUNCTION, CONTEXT, ('"scale": 2.0', '"scale": 4.0')),
    other("text_in_a_context", FUNCTION, CONTEXT, ('"ab"', '"abc"')),
    other("not_differentiable", FUNCTION, NONDIFF, ("ctx.mark_non_differentiable(b)", "pass")),
    other("kernels_in_other_order", OPS, ORDER, ("(one, two)", "(two, one)")),
    other("fake_stride", OPS, REG_FAKE, ("(4, 1)", "(1, 3)")),
]
