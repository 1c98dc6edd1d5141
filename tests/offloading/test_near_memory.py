"""Near memory while each step runs, counted on real tensors, is exactly what the planner's model says."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from aot_cache.errors import BudgetTooSmall
from aot_cache.offloading import names, operators, passes, storages
from aot_cache.offloading.planner import plan
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Budget, Link, Schedule
from aot_cache.offloading.simulate import moves, near
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.offloading.transfer import Transfer
from aot_cache.torch_compat import aliases

from . import stack
from .test_storages import cut, leaf


class Count:
    """Live bytes of the storages that were shown to it."""

    def __init__(self) -> None:
        self.live = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def see(self, value: Any) -> None:
        for tensor in pytree.tree_leaves(value):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage()) not in self._known:
                self._known.add(storage)
                self.live += storage.nbytes()
                weakref.finalize(storage, self._gone, storage.nbytes())

    def _gone(self, nbytes: int) -> None:
        self.live -= nbytes


class CountingTier(DiskTier):
    """A file whose copies in are near memory from when they are begun."""

    def __init__(self, directory: Path, count: Count) -> None:
        super().__init__(directory, 1 << 26)
        self.count = count

    def load(self, extent: Any, nbytes: int, near: Tensor) -> Future[None]:
        self.count.see(near)
        return super().load(extent, nbytes, near)


class Counting(fx.Interpreter):
    """Runs a graph and notes the bytes that are near at each step; what was sent out is overwritten once it may go."""

    def __init__(self, module: fx.GraphModule, count: Count, poison: bool) -> None:
        super().__init__(module)
        self.count, self.poison = count, poison
        self.found: dict[str, int] = {}

    def start(self, inputs: list[Any]) -> Any:
        given = self.module.graph.find_nodes(op="placeholder")
        self.count.see([inputs[i] for i, node in enumerate(given) if not node.name.startswith("handle_")])
        try:
            return self.boxed_run(inputs)
        finally:
            self.env = {}

    def run_node(self, node: fx.Node) -> Any:
        result = super().run_node(node)
        if node.target is operators.wait and self.poison:
            self.env[node.args[1]].fill_(float("nan"))
        if node.target not in (operators.spill, operators.wait, operators.fetch, operators.fill):
            if node.op == "call_function":
                self.count.see(result)
            self.found[node.name] = self.count.live
        return result


def step(pair: storages.Pair, inputs: list[Any], count: Count, poison: bool) -> tuple[list[Any], list[dict[str, int]]]:
    """Run the forward and the backward; the results, and the bytes near at each node of each."""
    forward, backward = Counting(pair.forward, count, poison), Counting(pair.backward, count, poison)
    results = list(forward.start(inputs))
    outputs, kept = results[: pair.outputs], results[pair.outputs :]
    results.clear()
    values = [output.clone() for output in outputs]
    kept += [torch.full_like(output, 0.5) for output in outputs]
    outputs.clear()
    return [*values, *backward.start(kept)], [forward.found, backward.found]


def told(pair: storages.Pair, problem: Problem, schedule: Schedule) -> list[dict[str, int]]:
    """The same by the model."""
    halves = near(problem, *moves(problem, schedule.rows))
    found = []
    for module, inputs, half in ((pair.forward, "primals", halves[0]), (pair.backward, "in", halves[1])):
        index = dict(zip([s.name for s in (problem.forward, problem.backward)[len(found)]], half, strict=True))
        steps = [(n, text) for n, text in names.canonical(module.graph, inputs).items() if text in index]
        # Views are left out: those of what moves go to where it is.
        found.append({n.name: index[text] for n, text in steps if not aliases.viewed(n)})
    return found


def chain(x: Tensor) -> Tensor:
    return (x @ x).exp().matmul(x).sin().matmul(x).exp()


def views(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    h = (x * 2).sin()
    return (h.view(4, 16) @ w).sum() + (h.t() @ v).sum()


def layers(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = x + torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (16,)) @ weight) @ weight.t()
    return x


def planned(problem: Problem) -> Schedule:
    """By the planner, for a budget three quarters of the way down to what can be met."""
    most = max(max(half) for half in near(problem, (), ()))
    link = Link(1e9, 1e9)
    with pytest.raises(BudgetTooSmall) as small:
        plan([(1.0, problem)], link, Budget(0, 1 << 30, 1 << 30), "none")
    budget = (most + 3 * small.value.smallest) // 4
    found = plan([(1.0, problem)], link, Budget(budget, 1 << 30, 1 << 30), "none").schedule
    assert max(found.predict.peak_forward, found.predict.peak_backward) <= budget <= most
    return found


PROGRAMS: dict[str, Callable[[], tuple[Any, list[Tensor]]]] = {
    "chain": lambda: (chain, [leaf(16, 16)]),
    "layers": lambda: (layers, [leaf(32, 16), *(leaf(16, 64) for _ in range(3))]),
    "views": lambda: (views, [leaf(8, 8), leaf(16, 4), leaf(8, 8)]),
}
SCHEDULES = {
    "none": lambda problem: stack.scheduled(problem, ()),
    "just in time": lambda problem: stack.everything(problem, ahead=0),
    "ahead": lambda problem: stack.everything(problem, ahead=3),
    "planned": planned,
    "first row": lambda problem: stack.scheduled(problem, stack.everything(problem).rows[:1]),
}


@pytest.mark.parametrize("which", SCHEDULES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_bytes_at_every_step_are_as_planned(tmp_path: Path, program: str, which: str) -> None:
    torch.manual_seed(0)
    function, inputs = PROGRAMS[program]()
    pair = cut(function, *inputs)
    problem = storages.analyse(pair, smallest=1).problem
    schedule = SCHEDULES[which](problem)
    count = Count()
    transfer = Transfer(CountingTier(tmp_path, count), 1 << 26)
    before = operators.use("cpu", transfer)
    try:
        plain = [x.detach().clone() for x in inputs]
        expected, _ = step(pair, list(plain), Count(), poison=False)
        _, found = step(passes.apply(pair, schedule), [x.clone() for x in plain], count, poison=False)
        for half, model in zip(found, told(pair, problem, schedule), strict=True):
            assert {name: half[name] for name in model if name in half} == {n: b for n, b in model.items() if n in half}
            assert max(half.values()) == max(model.values())
        poisoned, _ = step(passes.apply(pair, schedule), [x.clone() for x in plain], Count(), poison=True)
        assert all(torch.equal(a, b) for a, b in zip(expected, poisoned, strict=True))
    finally:
        operators.use("cpu", before)
        transfer.close()
