"""Values inside of fused loops take no near memory, and what they are computed from is needed as long as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from aot_cache.offloading.problem import Problem
from aot_cache.offloading.storages import Pair, analyse
from aot_cache.torch_compat import partition

BYTES = 64 * 64 * 4


def problem(function: Callable[[Tensor], Tensor], fuses: bool = True, device: str = "") -> Problem:
    found: list[Problem] = []

    def cutter(joint: partition.Joint) -> partition.Halves:
        halves = joint.cut(None)
        found.append(analyse(Pair(*halves, fuses, device), smallest=1).problem)
        return halves

    torch._dynamo.reset()
    x = torch.ones(64, 64, requires_grad=True)
    with partition.cutting(cutter, cached=False):
        torch.compile(function, backend="aot_eager_decomp_partition")(x).sum().backward()
    return found[0]


def used_again(x: Tensor) -> Tensor:
    kept = (x @ x).detach() * 2
    return (kept.neg() @ x) + kept


def gathered(x: Tensor, reads: int) -> Tensor:
    """The sine of a sum of that many products."""
    products = [(x @ (x + number)).detach() for number in range(reads)]
    return sum(products[1:], products[0]).sin()


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
    assert sizes(problem(used_again))["mul"] == BYTES


def test_an_accelerator_computes_it_again_and_so_needs_what_it_was_computed_from() -> None:
    found = problem(used_again, device="cuda")
    assert sizes(found)["mul"] == 0
    assert found.by_name["mm"].last_forward == found.forward_index["add"]


@pytest.mark.parametrize(("reads", "size"), [(4, 0), (5, BYTES)])
def test_an_accelerator_keeps_what_several_loops_would_compute_from_too_many_reads(reads: int, size: int) -> None:
    def model(x: Tensor) -> Tensor:
        kept = gathered(x, reads)
        return (kept.neg() @ x) + kept

    assert sizes(problem(model, device="cuda"))["sin"] == size


@pytest.mark.parametrize(("reads", "size"), [(8, 0), (9, BYTES)])
def test_an_accelerator_keeps_what_even_one_loop_would_compute_from_too_many_reads(reads: int, size: int) -> None:
    def model(x: Tensor) -> Tensor:
        kept = gathered(x, reads)
        return (x @ x @ x) + kept

    assert sizes(problem(model, device="cuda"))["sin"] == size


def test_a_value_that_is_used_at_once_vanishes_whatever_it_reads() -> None:
    assert sizes(problem(lambda x: (gathered(x, 9).neg() * 2) @ x, device="cuda"))["sin"] == 0


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
