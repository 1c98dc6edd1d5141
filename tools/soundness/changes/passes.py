"""What passes and policies of the user read, and what torch itself reads while it traces."""

from __future__ import annotations

from table import other

SWITCH = "SDPA back-end switches"
PASSES = "Inductor custom passes"
NOTES = "functorch `joint_custom_pass`, node meta"
POLICY = "selective checkpointing policies"

NAMED_META = """
import torch._functorch.config as functorch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.Sequential(torch.nn.ReLU())

    def forward(self, x):
        return self.attention(x.sin())

def joint(graph, inputs):
    for node in graph.graph.nodes:
        if "attention" in str(node.meta.get("nn_module_stack")) and node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.cos.default
    graph.recompile()
    return graph

def run():
    with functorch.patch(joint_custom_pass=joint):
        x = torch.ones(3, requires_grad=True)
        out = torch.compile(Net())(x)
        out.sum().backward()
        yield out
"""

ENUM_META = """
import enum
import torch._functorch.config as functorch
from torch.fx.traceback import annotate, preserve_node_meta

class Plan(enum.Enum):
    FIRST = "keep"

def joint(graph, inputs):
    for node in graph.graph.nodes:
        plan = node.meta.get("custom", {}).get("plan")
        if plan is not None and plan.value == "keep" and node.target is torch.ops.aten.sin.default:
            node.target = torch.ops.aten.cos.default
    graph.recompile()
    return graph

def f(x):
    with annotate({"plan": Plan.FIRST}):
        return x.sin()

def run():
    x = torch.ones(3, requires_grad=True)
    with preserve_node_meta(), functorch.patch(joint_custom_pass=joint):
        out = torch.compile(f)(x)
        out.sum().backward()
    yield out
"""

PASS_STATE = """
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass

class Pass(CustomGraphPass):
    def __init__(self, targets):
        self.targets = targets

    def __call__(self, graph):
        for node in graph.nodes:
            if node.target in self.targets:
                node.target = self.targets[node.target]

    def uuid(self):
        return "constant"

aten = torch.ops.aten

def run():
    with torch.no_grad():
        options = {"post_grad_custom_post_pass": Pass({aten.sin.default: aten.cos.default})}
        yield torch.compile(lambda x: x.sin(), options=options)(torch.ones(3))
"""

POLICY_STATE = """
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from functools import partial

class Budget:
    limit = 1

def policy(budget, ctx, op, *args, **kwargs):
    save = op is torch.ops.aten.mm.default and budget.limit > 0
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

def f(x):
    contexts = partial(create_selective_checkpoint_contexts, partial(policy, Budget))
    return checkpoint(lambda t: torch.mm(t.sin(), t).cos(), x, use_reentrant=False, context_fn=contexts)

def run():
    x = torch.ones(3, 3, requires_grad=True)
    torch.compile(f)(x).sum().backward()
    yield x.grad
"""

DENORMAL = """
def run():
    torch.set_flush_denormal(False)
    try:
        with torch.no_grad():
            out = torch.compile(lambda x: (torch.full((3,), 1e-40) * torch.full((3,), 1e20)) * x)(torch.ones(3))
    finally:
        torch.set_flush_denormal(False)
    yield out
"""

EINSUM = """
import types
from torch.backends import opt_einsum

class Package(types.SimpleNamespace):
    def contract_path(self, equation, *operands, optimize=None):
        return (self.path,)

def run():
    module = opt_einsum.get_opt_einsum.__globals__
    saved = module["_opt_einsum"], module["enabled"], module["is_available"]
    module["_opt_einsum"], module["is_available"] = Package(path=[(0, 1), (0, 1)], __version__="1"), lambda: True
    module["enabled"] = True
    try:
        torch.manual_seed(1)
        a, b, c = torch.randn(3, 33, 33).unbind()
        with torch.no_grad():
            yield torch.compile(lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c))(a, b, c)
    finally:
        module["_opt_einsum"], module["enabled"], module["is_available"] = saved
"""

CHANGES = [
    other("pass_that_reads_names", NOTES, NAMED_META, ("self.attention", "self.other")),
    other("enum_in_an_annotation", NOTES, ENUM_META, ('FIRST = "keep"', 'FIRST = "drop"')),
    other("state_of_a_pass", PASSES, PASS_STATE, ("sin.default: aten.cos", "sin.default: aten.exp")),
    other("policy_reads_a_class", POLICY, POLICY_STATE, ("limit = 1", "limit = 0"), equal=True),
    other(
        "flushed_denormals",
        SWITCH,
        DENORMAL,
        ("    torch.set_flush_denormal(False)\n    try", "    torch.set_flush_denormal(True)\n    try"),
    ),
    other("contraction_order", SWITCH, EINSUM, ("[(0, 1), (0, 1)]", "[(1, 2), (0, 1)]"), ('"1"', '"2"')),
]
