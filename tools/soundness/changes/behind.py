"""What stands behind code that is known by its identity: classes, tables, caches, files; and modules as attributes."""

from __future__ import annotations

from table import bypassed, fed, other

ROW, NESTED, OPS = "graph code", "opaque callables in a nested body", "custom op: implementation"
CLASS, FUNCTION = "tensor subclass", "custom `autograd.Function`"

SCRIPTED = """
@torch.jit.script
def scripted(x):
    return x.sin() * 2

def run():
    with torch.no_grad():
        yield torch.compile(lambda x: scripted(x) + 1)(torch.ones(3))
"""

ATTRS = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3, 3))
        self.register_buffer("b", torch.ones(3, 3))

    def forward(self, x):
        self.b.add_(1)
        return torch.mm(x, self.w) + self.b

def run():
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        net = Net()
        out = torch.compile(net)(torch.ones(3, 3))
        out.sum().backward()
        yield out
        yield net.w.grad
        yield net.b.clone()
"""

CALLS = """
@torch.library.custom_op("snd_calls::inner", mutates_args=())
def inner(x: Tensor) -> Tensor:
    return x * 2

@inner.register_fake
def _(x):
    return torch.empty_like(x)

@torch.library.custom_op("snd_calls::outer", mutates_args=())
def outer(x: Tensor) -> Tensor:
    return x + 1

@outer.register_fake
def _(x):
    return torch.empty_like(x)

outer.register_autograd(lambda ctx, g: torch.ops.snd_calls.inner(g))

def run():
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: torch.ops.snd_calls.outer(x))(x).sum().backward()
    yield x.grad
"""

RANDOMNESS = """
def run():
    torch.manual_seed(1)
    with torch.no_grad(), torch._inductor.config.patch(fallback_random=True):
        f = torch.func.vmap(lambda a: torch.dropout(a, 0.5, True), randomness="same")
        yield torch.compile(lambda x: f(x))(torch.ones(3, 16))
"""

SUB_INSIDE = """
from torch.testing._internal.two_tensor import TwoTensor

def f(x, y):
    return TwoTensor(x, y * 2).sin().a + 1

def run():
    yield torch.compile(f)(torch.ones(3), torch.ones(3))
"""

PROPERTY = """
class Config:
    @property
    def scale(self):
        return self._scale * BASE

    def __init__(self):
        self._scale = 2

BASE = 1
CFG = Config()

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * CFG.scale

def run():
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

BOUND = """
class Model:
    def __init__(self, n):
        self.n = n

    def apply(self, x):
        return self.inner(x)

    def inner(self, x):
        return x * self.n

model = Model(2)
opaque = torch._dynamo.allow_in_graph(model.apply)

def run():
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

CACHED = """
import functools

TABLE = {"a": 2}

@functools.lru_cache
def scale(name):
    return TABLE[name]

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * scale("a")

def run():
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

GENERIC = """
import functools

@functools.singledispatch
def scale(x):
    return 1

@scale.register
def _(x: torch.Tensor):
    return 2

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * scale(x)

def run():
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

COMPUTED = """
class A:
    def scale(self):
        return 2

class B(A):
    pass

def pick(name):
    return {"a": A, "b": B}[name]()

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * pick("b").scale()

def run():
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

PATHLIB = """
import pathlib, tempfile

PATH = pathlib.Path(tempfile.gettempdir()) / "snd_pathlib.txt"

@torch._dynamo.allow_in_graph
def opaque(x):
    return x * float(PATH.read_text())

def run():
    PATH.write_text("2.0")
    yield torch.compile(lambda x: opaque(x))(torch.ones(3))
"""

NESTED_COMPILE = """
inner = torch.compile(lambda x: torch.mm(x, x) * 2)

def run():
    with torch.no_grad():
        yield torch.compile(lambda x: inner(x) + 1)(torch.ones(3, 3))
"""

AUTOCAST_FN = """
class Step(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x):
        return torch.mm(x, x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g * 2

def run():
    x = torch.full((3, 3), 0.1, requires_grad=True)
    with torch.autocast("cpu"):
        out = torch.compile(lambda x: Step.apply(x))(x)
    out.sum().backward()
    yield out
    yield x.grad
"""


CHANGES = [
    other("scripted_function", ROW, SCRIPTED, ("* 2", "* 3")),
    fed("weights_as_attributes", ATTRS, ("Parameter(torch.ones(3, 3))", "Parameter(torch.full((3, 3), 2.0))")),
    fed("buffers_as_attributes", ATTRS, ('"b", torch.ones(3, 3)', '"b", torch.zeros(3, 3)')),
    other("op_that_an_op_calls", OPS, CALLS, ("return x * 2", "return x * 3")),
    other("vmap_randomness", ROW, RANDOMNESS, ('"same"', '"different"')),
    other("subclass_made_inside", CLASS, SUB_INSIDE, ("y * 2)", "y * 2).mul(3)")),
    other("property_of_a_setting", NESTED, PROPERTY, ("BASE = 1", "BASE = 3")),
    other("state_behind_a_method", NESTED, BOUND, ("Model(2)", "Model(3)")),
    other("method_behind_a_method", NESTED, BOUND, ("x * self.n", "x + self.n")),
    other("table_behind_a_cache", NESTED, CACHED, ('"a": 2', '"a": 3')),
    other("registered_by_type", NESTED, GENERIC, ("return 2", "return 3")),
    other("method_of_a_class_in_a_table", NESTED, COMPUTED, ("return 2", "return 3")),
    other("compiled_inside", ROW, NESTED_COMPILE, ("* 2", "* 3")),
    other("casts_of_a_function", FUNCTION, AUTOCAST_FN, ("torch.float32", "torch.float16")),
    bypassed("file_read_by_a_path", NESTED, PATHLIB, "its code reads `read_text`", ('"2.0"', '"3.0"')),
]
