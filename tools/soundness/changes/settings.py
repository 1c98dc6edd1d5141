"""Configuration, and code that the user gave to the compiler."""

from __future__ import annotations

import dataclasses

from table import other

CONFIG, PASSES, TABLES = "Inductor and functorch configuration", "Inductor custom passes", "decomposition tables"
META = "functorch `joint_custom_pass`, node meta"

CALL = """
import torch._functorch.config as functorch
import torch._inductor.config as inductor

def run():
    with inductor.patch({"max_autotune": False}), functorch.patch({"aggressive_recomputation": False}):
        yield torch.compile(lambda x: torch.mm(x, x))(torch.ones(4, 4))
"""

# A class with a uuid that says nothing, as torch asks for one.
PASS = """
import torch._functorch.config as functorch
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass

FACTOR = 2

class Pass(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default

    def uuid(self):
        return "constant"

def run():
    x = torch.ones(3, requires_grad=True)
    with inductor.patch({"post_grad_custom_post_pass": Pass()}):
        out = torch.compile(lambda x: x.sin())(x)
        out.sum().backward()
    yield out
"""

JOINT = """
import torch._functorch.config as functorch

def joint(graph, inputs):
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.sin.default:
            node.target = torch.ops.aten.cos.default
    graph.recompile()
    return graph

def run():
    x = torch.ones(3, requires_grad=True)
    with functorch.patch(joint_custom_pass=joint):
        out = torch.compile(lambda x: x.sin())(x)
        out.sum().backward()
    yield out
"""

PARTITIONER = """
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

class Partition(CustomPartitionerFn):
    def __call__(self, graph, inputs, **kwargs):
        kwargs.pop("compiler", None)
        return default_partition(graph, inputs, **kwargs)

    def uuid(self):
        return "constant"

def run():
    x = torch.ones(3, requires_grad=True)
    with inductor.patch({"custom_partitioner_fn": Partition()}):
        out = torch.compile(lambda x: x.sin().cos())(x)
        out.sum().backward()
    yield x.grad
"""

SOLVER = """
import torch._functorch.config as functorch
from torch._functorch.partitioners import CustomKnapsackSolver

class Solver(CustomKnapsackSolver):
    def __call__(self, memory, runtimes, max_memory):
        return 0.0, list(range(len(memory))), []

    def uuid(self):
        return "constant"

def run():
    x = torch.ones(3, requires_grad=True)
    with functorch.patch(activation_memory_budget=0.5, activation_memory_budget_solver=Solver()):
        out = torch.compile(lambda x: x.sin().cos().exp())(x)
        out.sum().backward()
    yield x.grad
"""

LOWERING = """
import torch._inductor.config as inductor
from torch._inductor.lowering import fallback_handler, lowerings

aten = torch.ops.aten
other = fallback_handler(aten.cos.default, add_to_fallback_set=False)

def lowered(x):
    return other(x)

def run():
    before = lowerings[aten.sin.default]
    lowerings[aten.sin.default] = lowered
    try:
        with torch.no_grad(), inductor.patch(fallback_by_default=False):
            yield torch.compile(lambda x: x.sin())(torch.ones(3))
    finally:
        lowerings[aten.sin.default] = before
"""

# Rules that are torch's own, in other places than torch puts them.
RULES = """
import torch._inductor.lowering as lowering

aten = torch.ops.aten
realized, rules = lowering.needs_realized_inputs, lowering.lowerings
op, other = aten.sin.default, aten.cos.default

def change():
    pass

def run():
    before, kept = rules[op], list(realized)
    change()
    try:
        with torch.no_grad():
            yield torch.compile(lambda x: (x + 1).sin())(torch.ones(3))
    finally:
        rules[op] = before
        realized.clear()
        realized.update(kept)
"""
FALLBACK = "rules[op] = lowering.fallback_handler(op, add_to_fallback_set=False)"

PATTERN = """
from torch._inductor.fx_passes import post_grad
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

aten = torch.ops.aten
entries = post_grad.pass_patterns[1].patterns

def run():
    before = {key: list(found) for key, found in entries.items()}

    @register_graph_pattern(CallFunction(aten.tan.default, KeywordArg("x")), pass_dict=post_grad.pass_patterns[1])
    def replace(match, x):
        match.replace_by_example(lambda x: aten.cos.default(x), [x])

    try:
        with torch.no_grad():
            yield torch.compile(lambda x: x.tan())(torch.ones(3))
    finally:
        entries.clear()
        entries.update(before)
"""

PATCHED = """
import torch._inductor.compile_fx as compile_fx

original = compile_fx._recursive_post_grad_passes

def changed(graph, *args, **kwargs):
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.sin.default:
            node.target = torch.ops.aten.cos.default
    return original(graph, *args, **kwargs)

def run():
    compile_fx._recursive_post_grad_passes = changed
    try:
        x = torch.ones(3, requires_grad=True)
        out = torch.compile(lambda x: x.sin())(x)
        out.sum().backward()
        yield out
    finally:
        compile_fx._recursive_post_grad_passes = original
"""

PATCH_WITH_CONSTANT = PATCHED.replace("torch.ops.aten.cos.default", "made_by").replace(
    "def changed", "made_by = torch.ops.aten.cos.default\n\ndef changed"
)

# Inductor takes the decompositions that it finds when it is imported, so this needs a process of its own.
REGISTERED = """
def decompose(x):
    return torch.ops.aten.cos(x)

def run():
    with torch.no_grad():
        yield torch.compile(lambda x: x.tan())(torch.ones(3))
"""
REGISTRATION = "torch._decomp.decomposition_table[torch.ops.aten.tan.default] = decompose\n\ndef run"

COS_TO_EXP = ("aten.cos.default", "aten.exp.default")
CHANGES = [
    other("inductor_setting", CONFIG, CALL, ('"max_autotune": False', '"max_autotune": True'), equal=True),
    other(
        "functorch_setting",
        CONFIG,
        CALL,
        ('"aggressive_recomputation": False', '"aggressive_recomputation": True'),
        equal=True,
    ),
    other(
        "cache_key_tag",
        CONFIG,
        CALL,
        ("inductor.patch", 'torch.compiler.config.patch(cache_key_tag="mine"), inductor.patch'),
        equal=True,
    ),
    other(
        "options", CONFIG, CALL, ("torch.mm(x, x))", 'torch.mm(x, x), options={"epilogue_fusion": False})'), equal=True
    ),
    other("pass_with_constant_uuid", PASSES, PASS, COS_TO_EXP),
    other("pass_whose_uuid_changed", PASSES, PASS, ('"constant"', '"other"'), equal=True),
    other("joint_pass", META, JOINT, COS_TO_EXP),
    other(
        "partitioner_with_constant_uuid",
        PASSES,
        PARTITIONER,
        ("default_partition(graph", "min_cut_rematerialization_partition(graph"),
        equal=True,
    ),
    other(
        "solver_with_constant_uuid",
        PASSES,
        SOLVER,
        ("list(range(len(memory))), []", "[], list(range(len(memory)))"),
        equal=True,
    ),
    dataclasses.replace(
        other("decomposition_in_a_table_of_torch", TABLES, REGISTERED, ("def run", REGISTRATION), equal=True),
        env={"SOUNDNESS_PROCESS": "decomposition_in_a_table_of_torch"},
    ),
    other("lowering", TABLES, LOWERING, COS_TO_EXP),
    other("lowering_body", TABLES, LOWERING, ("return other(x)", "return other(other(x))")),
    other("lowering_of_another_operator", TABLES, RULES, ("    pass", "    rules[op] = rules[other]"), equal=True),
    other("fallback", TABLES, RULES, ("    pass", f"    {FALLBACK}"), equal=True),
    other("inputs_to_realize", TABLES, RULES, ("    pass", "    lowering.add_needs_realized_inputs(op)"), equal=True),
    other("pattern_replacement", TABLES, PATTERN, COS_TO_EXP),
    other("patched_compiler", "monkey patches", PATCHED, COS_TO_EXP),
    other("constant_of_a_patch", "monkey patches", PATCH_WITH_CONSTANT, ("aten.cos.default", "aten.exp.default")),
]
