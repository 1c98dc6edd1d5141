"""What counts of a graph's names where user code takes part in the compile, and that nothing does where none does."""

from __future__ import annotations

import torch
from torch.fx import Graph, GraphModule

from aot_cache.key.graph import graph_part
from aot_cache.key.names import names
from aot_cache.torch_compat import tensors

TRACE = '  File "/home/me/model.py", line {line}, in {function}\n    return self.attention(x)\n'


def module(owner: str = "attention", line: int = 3, function: str = "forward", number: str = "1") -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.sin, (x,))
    node.meta["nn_module_stack"] = {number: (f"L['self'].{owner}", torch.nn.ReLU)}
    node.meta["source_fn_stack"] = [("sin", torch.sin)]
    node.meta["stack_trace"] = TRACE.format(line=line, function=function)
    graph.output((node,))
    return GraphModule(torch.nn.Module(), graph)


def part(module: GraphModule, is_read: bool) -> str:
    return graph_part(module, tensors.Symbols(()), lambda value: "", is_read).digest


def test_names_count_only_where_user_code_may_read_them() -> None:
    assert part(module(), False) == part(module("other", function="other"), False)
    assert part(module(), True) != part(module("other"), True)
    assert part(module(), True) != part(module(function="other"), True)


def test_lines_files_and_numbers_of_this_process_never_count() -> None:
    moved = module(line=7, number="140596817222736")
    for node in moved.graph.nodes:
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = node.meta["stack_trace"].replace("/home/me", "/elsewhere")
    assert part(module(), True) == part(moved, True)


def test_modules_and_functions_are_told_by_name() -> None:
    node = next(node for node in module().graph.nodes if node.op == "call_function")
    assert list(names(node)) == [
        "sin",
        "nn_module_stack [[\"L['self'].attention\", torch.nn.modules.activation.ReLU]]",
        "source_fn_stack [['sin', torch._VariableFunctionsClass.sin]]",
        "forward",
        "    return self.attention(x)",
    ]
