"""What is computed: the graph, graphs nested in it, constants, shapes, and what is noted on nodes."""

from __future__ import annotations

from table import guarded, other

ROW, META, SHAPES = "graph code", "functorch `joint_custom_pass`, node meta", "dynamic shapes"

PLAIN = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return self.second(hidden) * 2

def run():
    net, x = Net(), torch.randn(4, 4)
    out = torch.compile(net)(x)
    out.sum().backward()
    yield out
    yield [p.grad for p in net.parameters()]
"""

CONDITION = """
def f(x):
    return torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos() - 1, (x,))

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3))
"""

LOOP = """
def f(x):
    return torch.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x))

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3))
"""

NUMPY = """
import numpy as np

def f(x):
    return np.sin(x) + np.linalg.norm(x)

def run():
    yield torch.from_numpy(torch.compile(f)(np.ones((3, 3), dtype=np.float32)))
"""

LITERALS = """
def f(x):  # a tensor of one dimension would become part of generated code
    return x * torch.tensor([[1.0, 2.0, 3.0]]) + torch.full((3,), 0.5)

def run():
    yield torch.compile(f)(torch.ones(3))
"""

CHECKPOINT = """
from torch.utils.checkpoint import checkpoint

def body(x):
    return torch.mm(x, x).sin()

def f(x):
    return checkpoint(body, x, use_reentrant=False)

def run():
    x = torch.ones(3, 3, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad
"""

# A plan on the nodes, which the pass carries out.
ANNOTATED = """
import torch._functorch.config as functorch
from torch.fx.traceback import annotate, preserve_node_meta

class Pass:
    def __call__(self, graph, inputs):
        for node in graph.graph.nodes if hasattr(graph, "graph") else graph.nodes:
            if node.meta.get("custom", {}).get("double") and node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default
        return graph

    def uuid(self):
        return "constant"

def f(x):
    with annotate({"double": False}):
        return x.sin()

def run():
    x = torch.ones(3, requires_grad=True)
    with preserve_node_meta(), functorch.patch(joint_custom_pass=Pass()):
        out = torch.compile(f)(x)
        out.sum().backward()
    yield out
"""

DYNAMIC = """
def f(x):
    if x.shape[0] > 10:
        return x * 2
    return x + x.shape[0]

def run():
    compiled = torch.compile(f, dynamic=True)
    yield compiled(torch.ones(5, 3))
"""

MARKED = """
def run():
    x = torch.ones(6, 3)
    torch._dynamo.mark_dynamic(x, 0, min=4, max=64)
    yield torch.compile(lambda t: t * t.shape[0])(x)
"""

# The second size only becomes dynamic when it changes, in a new graph.
AUTOMATIC = """
def f(x):
    return x * x.shape[0]

def run():
    compiled = torch.compile(f)
    for rows in (3, 4, 5):
        yield compiled(torch.ones(rows, 2))
"""

SPECIALIZED = """
def f(x, y):
    return torch.mm(x, y) if x.shape[0] == y.shape[0] else torch.mm(x, y) * 2

def run():
    compiled = torch.compile(f, dynamic=True)
    yield compiled(torch.ones(3, 3), torch.ones(3, 3))
"""

CHANGES = [
    other("operation", ROW, PLAIN, ("torch.relu", "torch.tanh")),
    other("operands_swapped", ROW, PLAIN, ("self.second(hidden) * 2", "self.first(hidden) * 2")),
    other("scalar", ROW, PLAIN, ("* 2", "* 3")),
    other("integer_or_float", ROW, NUMPY, ("(3, 3), dtype=np.float32", "(3, 3), dtype=np.float64")),
    other(
        "training_or_evaluation",
        ROW,
        PLAIN.replace("self.second(hidden)", "torch.dropout(hidden, 0.5, self.training)"),
        ("Net(), torch", "Net().eval(), torch"),
    ),
    other("branch", ROW, CONDITION, ("t.sin() * 2", "t.sin() * 3")),
    other("other_branch", ROW, CONDITION, ("t.cos() - 1", "t.cos() - 2"), ("torch.ones(3)", "-torch.ones(3)")),
    other("loop_body", ROW, LOOP, ("t * 2", "t * 3")),
    other("loop_condition", ROW, LOOP, ("i < 3", "i < 4")),
    other("numpy_function", ROW, NUMPY, ("np.sin", "np.cos")),
    other(
        "numpy_function_of_same_name",
        ROW,
        NUMPY.replace("np.linalg.norm(x)", "np.linalg.det(x) + np.dot(x, x)"),
        ("np.dot", "np.matmul"),
        equal=True,
    ),
    other("literal_tensor", ROW, LITERALS, ("[1.0, 2.0, 3.0]", "[1.0, 2.0, 4.0]")),
    other("literal_scalar", ROW, LITERALS, ("0.5", "0.25")),
    other(
        "negative_zero",
        ROW,
        LITERALS.replace("x * torch.tensor([[1.0, 2.0, 3.0]]) + torch.full((3,), 0.5)", "1 / torch.full((3,), 0.0)"),
        ("0.0", "-0.0"),
    ),
    other("checkpoint_body", ROW, CHECKPOINT, ("sin()", "cos()")),
    other("annotation", META, ANNOTATED, ('{"double": False}', '{"double": True}')),
    guarded("shape_beyond_a_branch", SHAPES, DYNAMIC, ("torch.ones(5, 3)", "torch.ones(12, 3)")),
    guarded(
        "size_after_sizes", SHAPES, DYNAMIC, ("(torch.ones(5, 3))", "(torch.ones(5, 3)), compiled(torch.ones(12, 3))")
    ),
    other("dynamic_or_static", SHAPES, DYNAMIC, ("dynamic=True", "dynamic=False"), equal=True),
    other("range_of_a_size", SHAPES, MARKED, ("max=64", "max=32"), equal=True),
    guarded(
        "equal_sizes_or_not",
        SHAPES,
        SPECIALIZED,
        ("torch.ones(3, 3), torch.ones(3, 3)", "torch.ones(4, 3), torch.ones(3, 3)"),
    ),
    other(
        "sizes_that_change",
        SHAPES,
        AUTOMATIC.replace("(3, 4, 5)", "(3,)"),
        ("torch.ones(rows, 2)", "torch.ones(rows, 4)"),
    ),
]
