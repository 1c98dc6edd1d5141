"""What people change every day, and what must not matter."""

from __future__ import annotations

from table import fed, same

ITEM = """
def run():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield torch.compile(lambda x, s: torch.mm(x, x) * s.item(), fullgraph=True)(torch.ones(2, 2), torch.tensor(2.0))
"""

FULL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.layer(x)) + 1

def build():
    return Net()

def run():
    torch.manual_seed(0)
    net, x = build(), torch.randn(4, 4)
    out = torch.compile(net)(x)
    out.sum().backward()
    yield out.shape, out.dtype
"""

TWO_GRAPHS = """
def f(x):
    return torch.mm(x, x).sin()

def g(x):
    return torch.mm(x, x.t()).cos() * 2

def run():
    x = torch.ones(3, 3)
    results = {h.__name__: torch.compile(h)(x) for h in (f, g)}
    yield [results[name] for name in sorted(results)]
"""

SIZES = """
def run():
    compiled = torch.compile(lambda x: torch.mm(x, x.t()) * x.shape[0])
    yield [compiled(torch.ones(rows, 2)) for rows in (3, 4, 5)]
"""

VALUES = """
def run():
    torch.manual_seed(1)
    x, w = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
    out = torch.compile(lambda x, w, lr: torch.mm(x, w) * lr)(x, w, torch.tensor(0.1))
    out.sum().backward()
    yield out
    yield w.grad
"""


CHANGES = [
    fed("item_of_another_value", ITEM, ("tensor(2.0)", "tensor(3.0)")),
    fed("another_seed", FULL.replace("yield out.shape, out.dtype", "yield out"), ("manual_seed(0)", "manual_seed(1)")),
    same("whole_graph", FULL, ("torch.compile(net)", "torch.compile(net, fullgraph=True)")),
    same("made_elsewhere", FULL, ("return Net()", "'''A text.'''\n    return torch.nn.Sequential(Net())[0]")),
    same("warnings_always", FULL, ("torch.manual_seed(0)", "torch.set_warn_always(True)")),
    same(
        "decorated",
        FULL,
        ("    def forward", "    @(lambda g: __import__('functools').wraps(g)(lambda *a: g(*a)))\n    def forward"),
    ),
    same("buffer_added", FULL, ("(4, 4)\n\n", "(4, 4)\n        self.register_buffer('unused', torch.ones(3))\n\n")),
    same("graphs_in_other_order", TWO_GRAPHS, ("(f, g)}", "(g, f)}")),
    fed("another_dynamic_size", SIZES, ("(3, 4, 5)", "(3, 6, 9)")),
    fed("other_values", VALUES, ("manual_seed(1)", "manual_seed(2)"), ("0.1", "0.2")),
    same(
        "saving_patched",
        FULL,
        ("    torch.manual_seed(0)", "    torch.save = lambda *args: None\n    torch.manual_seed(0)"),
    ),
    same("print_options", FULL, ("torch.manual_seed(0)", "torch.set_printoptions(precision=2)")),
]
