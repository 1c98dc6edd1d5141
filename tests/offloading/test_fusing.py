"""Values inside of fused loops take no near memory, and what they are computed from is needed as long as they are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from aot_cache.offloading.problem import Problem
from aot_cache.offloading.storages import Pair, analyse
from aot_cache.torch_compat import partition

BYTES = 64 * 64 * 4


def problem(function: Callable[[Tensor], Tensor], fuses: bool = True) -> Problem:
    found: list[Problem] = []

    def cutter(joint: partition.Joint) -> partition.Halves:
        halves = joint.cut(None)
        found.append(analyse(Pair(*halves, fuses), smallest=1).problem)
        return halves

    torch._dynamo.reset()
    x = torch.ones(64, 64, requires_grad=True)
    with partition.cutting(cutter, cached=False):
        torch.compile(function, backend="aot_eager_decomp_partition")(x).sum().backward()
    return found[0]


def sizes(found: Problem) -> dict[str, int]:
    return {storage.name: storage.bytes for storage in found.storages if storage.produced >= 0}


def test_elementwise_values_that_only_loops_use_take_nothing() -> None:
    def model(x: Tensor) -> Tensor:
        return ((x @ x).detach() * 2).neg() @ x

    assert sizes(problem(model))["mul"] == 0
    assert sizes(problem(model, fuses=False))["mul"] == BYTES


def test_what_a_product_reads_is_in_memory() -> None:
    assert sizes(problem(lambda x: ((x @ x).detach() * 2).neg() @ x))["neg"] == BYTES


def test_what_is_used_again_after_a_product_is_in_memory() -> None:
    def model(x: Tensor) -> Tensor:
        kept = (x @ x).detach() * 2
        return (kept.neg() @ x) + kept

    assert sizes(problem(model))["mul"] == BYTES


def test_what_is_saved_or_returned_is_in_memory() -> None:
    found = problem(lambda x: (x @ x).sin())
    assert (sizes(found)["mm"], sizes(found)["sin"]) == (BYTES, BYTES)


def test_what_a_loop_reads_is_needed_until_the_loop_is_done() -> None:
    def model(x: Tensor) -> Tensor:
        return ((x @ x).detach() * 2).neg() @ x

    fused, plain = problem(model), problem(model, fuses=False)
    steps = fused.forward_index
    assert fused.by_name["mm"].last_forward == steps["neg"]
    assert plain.by_name["mm"].last_forward == steps["mul"]


def test_it_does_not_change_which_graphs_a_schedule_is_for() -> None:
    fused, plain = problem(lambda x: (x * 2).neg() @ x), problem(lambda x: (x * 2).neg() @ x, fuses=False)
    assert (fused.forward_digest, fused.backward_digest) == (plain.forward_digest, plain.backward_digest)
