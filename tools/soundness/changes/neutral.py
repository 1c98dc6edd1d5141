"""What must not matter."""

from __future__ import annotations

from table import Change, same

NET = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return hidden * self.scale

def run():
    net, x = Net(), torch.randn(4, 4)
    out = torch.compile(net)(x)
    out.sum().backward()
    yield out
    yield [p.grad for p in net.parameters()]
"""

# Code by identity: an operator with a backward, and a function that is not traced.
IDENTIFIED = """
UNUSED = 1

def helper(x):
    return x * 2

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return helper(x)

@scale.register_fake
def _(x):
    return torch.empty_like(x)

def backward(ctx, grad):
    return scale(grad)

scale.register_autograd(backward)

@torch._dynamo.allow_in_graph
def opaque(x):
    return helper(x)

def run():
    x = torch.ones(3, requires_grad=True)
    out = torch.compile(lambda x: opaque(scale(x)))(x)
    out.sum().backward()
    yield x.grad
"""

# Sets of strings come in another order under another hash seed.
UNORDERED = """
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

SAVED = {torch.ops.aten.mm.default, torch.ops.aten.sin.default, torch.ops.aten.cos.default}
NAMES = frozenset({"one", "two", "three", "four", "five"})

def policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in SAVED and NAMES else CheckpointPolicy.PREFER_RECOMPUTE

def contexts():
    return create_selective_checkpoint_contexts(policy)

def f(x):
    return checkpoint(lambda t: torch.mm(t.sin(), t).cos(), x, use_reentrant=False, context_fn=contexts)

def run():
    x = torch.ones(3, 3, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad
"""

SYMBOLS = """
def run():
    compiled = torch.compile(lambda x, y: torch.mm(x, y).sin(), dynamic=True)
    yield compiled(torch.ones(3, 4), torch.ones(4, 5))
"""

_CHANGES = [
    same("argument_renamed", NET, ("forward(self, x)", "forward(self, other)"), ("self.first(x)", "self.first(other)")),
    same("attribute_renamed", NET, ("self.first", "self.last"), ('"scale"', '"factor"'), ("self.scale", "self.factor")),
    same("intermediate_renamed", NET, ("hidden", "something")),
    same("class_renamed", NET, ("Net", "Network")),
    same(
        "function_renamed",
        NET,
        ("def forward(self, x):", "def forward(self, x):\n        return self.work(x)\n\n    def work(self, x):"),
    ),
    same(
        "lines_shifted",
        NET,
        ("class Net", "# A comment.\n\n\nclass Net"),
        ("        hidden", "        # Another.\n\n        hidden"),
    ),
    same("statement_split", NET, ("torch.relu(self.first(x))", "self.first(x)\n        hidden = torch.relu(hidden)")),
    same("file_moved", NET, place="elsewhere"),
    same("identified_code_moved", IDENTIFIED, place="elsewhere"),
    same(
        "identified_lines_shifted", IDENTIFIED, ("def helper(x):", "# A comment.\n\n\ndef helper(x):\n    # Another.")
    ),
    same("unused_global", IDENTIFIED, ("UNUSED = 1", "UNUSED = 2")),
    same(
        "unrelated_operator",
        IDENTIFIED,
        ("UNUSED = 1", "torch.library.custom_op('NS::more', lambda: None, mutates_args=(), schema='() -> ()')"),
    ),
    same("annotations", IDENTIFIED, ("def helper(x):", "def helper(x: 'Tensor') -> 'Tensor':")),
    same("unordered_code", UNORDERED, env={"PYTHONHASHSEED": "17"}),
    same("symbols", SYMBOLS, ("x, y: torch.mm(x, y)", "a, b: torch.mm(a, b)")),
    same("other_user", IDENTIFIED, env={"HOME": "/nonexistent", "USER": "somebody", "LOGNAME": "somebody"}),
    same("log_settings", NET, env={"TORCH_LOGS": "-inductor", "TORCHINDUCTOR_VERBOSE_PROGRESS": "0"}),
    same("compiler_spelled_otherwise", NET, env={"CXX": "/usr/bin/g++"}),
    same("hash_seed", IDENTIFIED, env={"PYTHONHASHSEED": "4711"}),
    same("directory_of_kernels", NET, env={"TORCHINDUCTOR_CACHE_DIR": "{home}/inductor-elsewhere"}),
    same("directory_of_temporary_files", NET, env={"TMPDIR": "{home}"}),
    same("language_and_time_zone", NET, env={"LANG": "C", "LC_ALL": "C", "TZ": "UTC"}),
    same("compile_threads", NET, env={"TORCHINDUCTOR_COMPILE_THREADS": "1"}),
    same("search_path", IDENTIFIED, env={"PATH": "/usr/local/bin:/usr/bin:/bin:/nonexistent"}),
    same(
        "settings_of_caches", NET, env={"TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0"}
    ),
    same(
        "python_switches",
        NET,
        env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"},
    ),
]


def _named(change: Change) -> Change:
    space = f"snd_{change.name}"
    fields = {
        "before": change.before.replace("NS::", f"{space}::"),
        "after": change.after.replace("NS::", f"{space}::"),
    }
    return Change(**{**vars(change), **fields})


CHANGES = [_named(change) for change in _CHANGES]
