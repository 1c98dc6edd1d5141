"""What Dynamo reads or runs while it traces, of which no guard of its own speaks: keys, their order, functions, names."""

from __future__ import annotations

from table import other

ROW = "graph code"

KEYS = """
TABLE = {2: "a"}

def f(x):
    return torch.mm(x, x) * [*TABLE][0]

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3, 3))
"""

KEY_TYPE = """
TABLE = {1: "a"}

def f(x):
    return torch.mm(x, x), torch.full((3,), list(TABLE)[0])

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3, 3))
"""

ORDERED = """
import collections

STEPS = collections.OrderedDict(double=2.0, shift=-1.0)

def f(x):
    for step in STEPS.values():
        x = torch.mm(x, x) + step
    return x

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3, 3))
"""

HOOKS = """
layer = torch.nn.Linear(3, 3)
torch.nn.init.ones_(layer.weight)
layer.register_forward_hook(lambda module, args, out: out * 2)
layer.register_forward_hook(lambda module, args, out: torch.mm(out, out))

def run():
    torch.nn.init.zeros_(layer.bias)
    with torch.no_grad():
        yield torch.compile(lambda x: layer(x))(torch.ones(3, 3))
"""

RANKED = """
WEIGHTS = [1.0]

def rank(n):
    return n * WEIGHTS[0]

def f(x):
    return torch.mm(x, x) * max([2, 3], key=rank)

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3, 3))
"""

NUMBER = """
LIMIT = [2]

class Level(int):
    def __bool__(self):
        return int(self) >= LIMIT[0]

LEVEL = Level(2)

def f(x):
    return torch.mm(x, x) * (2 if LEVEL else 3)

def run():
    with torch.no_grad():
        yield torch.compile(f)(torch.ones(3, 3))
"""

BUILT_IN = """
import builtins

def f(x):
    return torch.mm(x, x) * SND_FACTOR

def run():
    builtins.SND_FACTOR = 2
    try:
        with torch.no_grad():
            yield torch.compile(f)(torch.ones(3, 3))
    finally:
        del builtins.SND_FACTOR
"""

BUFFER = """
def f(x):
    return torch.mm(x, x) * (2 if isinstance(x, torch.nn.Buffer) else 3)

def run():
    x = torch.ones(3, 3)
    with torch.no_grad():
        yield torch.compile(f)(x)
"""

CHANGES = [
    other("keys_unpacked", ROW, KEYS, ('{2: "a"}', '{5: "a"}')),
    other("type_of_a_key", ROW, KEY_TYPE, ('{1: "a"}', '{True: "a"}')),
    other("key_moved_to_the_end", ROW, ORDERED, ("shift=-1.0)", 'shift=-1.0)\nSTEPS.move_to_end("double")')),
    other("hook_before_the_others", ROW, HOOKS, ("torch.mm(out, out))", "torch.mm(out, out), prepend=True)")),
    other("global_of_a_key_function", ROW, RANKED, ("[1.0]", "[-1.0]")),
    other("truth_of_a_number_of_a_class", ROW, NUMBER, ("[2]", "[3]")),
    other("built_in_name", ROW, BUILT_IN, ("SND_FACTOR = 2", "SND_FACTOR = 3")),
    other("buffer_as_input", ROW, BUFFER, ("x = torch.ones(3, 3)", "x = torch.nn.Buffer(torch.ones(3, 3))")),
]
