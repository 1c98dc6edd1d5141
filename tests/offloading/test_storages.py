from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from aot_cache.errors import OffloadError
from aot_cache.offloading import storages
from aot_cache.offloading.costs import table
from aot_cache.offloading.problem import START, Problem, Storage
from aot_cache.offloading.work import seconds
from aot_cache.torch_compat import partition

from . import stack


def cut(function: Callable[..., Tensor], *inputs: Tensor, **options: object) -> storages.Pair:
    """The pair of graphs of a function as AOTAutograd cuts it."""
    pairs: list[storages.Pair] = []

    def see(forward, backward, outputs):  # type: ignore[no-untyped-def]
        pairs.append(storages.Pair(forward, backward, outputs))
        return forward, backward

    torch._dynamo.reset()
    with partition.wrapped(see):
        torch.compile(function, backend="aot_eager", **options)(*inputs)  # type: ignore[call-overload]
    (pair,) = pairs
    return pair


def problem(function: Callable[..., Tensor], *inputs: Tensor, smallest: int = 1, **options: object) -> Problem:
    return storages.analyse(cut(function, *inputs, **options), smallest=smallest).problem


def leaf(*size: int) -> Tensor:
    return torch.randn(*size, requires_grad=True)


def saved(problem: Problem) -> list[Storage]:
    return [storage for storage in problem.storages if storage.saved and storage.kind == "act"]


def by_reason(problem: Problem) -> dict[str, int]:
    return problem.refused_bytes


def test_a_saved_activation_may_move_and_its_lifetime_is_that_of_its_uses() -> None:
    found = problem(lambda x: x.sin().exp().sum(), leaf(8, 4))
    (exp,) = saved(found)
    names = [step.name for step in found.forward]
    assert (exp.name, exp.bytes, exp.eligible) == ("exp", 128, True)
    assert names[exp.produced] == "exp"
    assert names[exp.last_forward] == "sum"
    assert [step.name for step in found.forward][-1] == [step.name for step in found.backward][-1] == "output"
    read = [step.name for step in found.backward][exp.first_backward]
    assert read == "mul"


def test_views_of_one_storage_are_one_storage_and_are_replayed() -> None:
    def function(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        h = (x * 2).sin()
        return (h.view(4, 16) @ w).sum() + (h.t() @ v).sum()

    (found,) = saved(problem(function, leaf(8, 8), leaf(16, 4), leaf(8, 8)))
    assert (found.name, found.bytes, found.eligible) == ("sin", 256, True)
    assert found.replay == ("view", "t", "t", "t")


@pytest.mark.parametrize("take", ["split", "unbind", "chunk"])
def test_parts_of_one_tensor_are_one_storage(take: str) -> None:
    def function(x: Tensor) -> Tensor:
        h = x.bmm(x) if take == "unbind" else x @ x
        parts = {"split": lambda: h.split(2), "unbind": lambda: h.unbind(), "chunk": lambda: h.chunk(2)}[take]()
        return (parts[0] @ parts[1].t()).sum()

    (found,) = saved(problem(function, leaf(2, 4, 4) if take == "unbind" else leaf(4, 4)))
    assert (found.bytes, found.eligible) == ((128, True) if take == "unbind" else (64, True))
    assert found.replay.count("getitem") == 2


def test_an_element_of_a_list_may_move_and_taking_it_is_no_step() -> None:
    found = problem(lambda x: torch.nn.functional.layer_norm(x.sin(), (64,)).exp().sum(), leaf(8, 64))
    assert not [step.name for step in found.forward if "getitem" in step.name]
    norms = [s for s in saved(found) if s.name.startswith("getitem")]
    assert norms
    assert all(s.eligible for s in norms)
    assert {found.forward[s.produced].name for s in norms} == {"native_layer_norm"}


def test_a_tensor_that_is_not_contiguous_may_move() -> None:
    found = problem(lambda x: x.t().sin().exp().sum(), leaf(8, 4))
    assert [s.eligible for s in saved(found)] == [True]


def test_aliases_of_inputs_may_not_move() -> None:
    found = problem(lambda x, w: (x.t() @ w).sum(), leaf(8, 8), leaf(8, 8))
    assert by_reason(found) == {"alias of an input": 512}
    assert {s.produced for s in found.storages if s.refused == "alias of an input"} == {START}


@pytest.mark.parametrize("shape", [lambda h: h, lambda h: h.view(-1), lambda h: h.t()], ids=["whole", "view", "t"])
def test_aliases_of_outputs_may_not_move(shape: Callable[[Tensor], Tensor]) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.exp()
        return shape(h), h.sin().sum()

    assert by_reason(problem(function, leaf(8, 8))) == {"alias of an output": 256}  # type: ignore[arg-type]


def test_small_and_empty_storages_may_not_move() -> None:
    assert by_reason(problem(lambda x: x.exp().sum(), leaf(16), smallest=65)) == {"smaller than 65 B": 64}
    found = storages.analyse(cut(lambda x: x.exp().sum(), leaf(0, 4)), smallest=0).problem
    assert {s.refused for s in found.storages if s.saved and s.kind == "act"} <= {"empty"}


def test_sizes_that_are_not_known_when_planned_may_not_move() -> None:
    found = problem(lambda x: x.exp().sum(), leaf(8, 8), dynamic=True)
    assert "size not known when planned" in by_reason(found)
    assert not [s for s in found.storages if s.eligible]


def test_a_storage_that_is_written_to_later_may_not_move() -> None:
    pair = cut(lambda x: x.sin().exp().sum(), leaf(8, 8))
    graph = pair.forward.graph
    (exp,) = graph.find_nodes(op="call_function", target=torch.ops.aten.exp.default)
    with graph.inserting_before(graph.find_nodes(op="output")[0]):
        written = graph.call_function(torch.ops.aten.add_.Tensor, (exp, 1))
        written.meta["val"] = exp.meta["val"]
    assert storages.analyse(pair, smallest=1).problem.refused_bytes["mutated"] == 256


def test_every_saved_byte_is_eligible_or_refused_for_a_reason() -> None:
    model = stack.stack(1, 32)
    found = problem(model, leaf(2, 8, 32))
    total = sum(s.bytes for s in found.storages if s.saved)
    assert total == sum(s.bytes for s in found.storages if s.eligible) + sum(found.refused_bytes.values())
    # Of what the forward makes, everything may move.
    assert all(s.eligible for s in saved(found))


def test_names_and_digests_do_not_depend_on_how_the_program_names_things() -> None:
    def one(x: Tensor) -> Tensor:
        first = x.sin()
        return (first * 2).exp().sum()

    def two(other: Tensor) -> Tensor:
        return (other.sin() * 2).exp().sum()

    def three(x: Tensor) -> Tensor:
        return (x.sin() * 3).exp().sum()

    assert problem(one, leaf(4, 4)) == problem(two, leaf(4, 4))
    assert problem(one, leaf(4, 4)).forward_digest != problem(three, leaf(4, 4)).forward_digest
    assert problem(one, leaf(4, 4)).forward_digest != problem(one, leaf(4, 5)).forward_digest


@pytest.mark.parametrize("wish", ["must", "prefer"])
def test_what_is_made_in_a_marked_region_is_wished_and_inputs_are_not(wish: str) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        with torch.fx.traceback.annotate({"aot_cache.offload": wish}):
            h = x @ w
        return (h.exp() @ w).sum()

    with torch.fx.traceback.preserve_node_meta(True):
        found = problem(function, leaf(8, 8), leaf(8, 8))
    wished = [s.name for s in found.storages if (s.must, s.prefer) == (wish == "must", wish == "prefer")]
    assert [name for name in wished if found.by_name[name].kind == "act"] == wished
    assert "mm" in wished or not found.by_name["mm"].saved
    assert all(found.by_name[name].eligible for name in wished)


@pytest.mark.parametrize("wish", ["must", "prefer"])
def test_a_mark_on_a_node_is_in_the_problem(wish: str) -> None:
    pair = cut(lambda x: x.sin().exp().sum(), leaf(8, 8))
    (exp,) = pair.forward.graph.find_nodes(op="call_function", target=torch.ops.aten.exp.default)
    exp.meta["custom"] = {"aot_cache.offload": wish}
    (found,) = saved(storages.analyse(pair, smallest=1).problem)
    assert (found.must, found.prefer) == (wish == "must", wish == "prefer")


def test_torchs_own_policy_for_offloading_is_a_must_for_what_is_saved() -> None:
    def policy(ctx, op, *args, **kwargs):  # type: ignore[no-untyped-def]
        matmul = op == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_CPU_OFFLOAD if matmul else CheckpointPolicy.PREFER_RECOMPUTE

    def function(x: Tensor, w: Tensor) -> Tensor:
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        inner = checkpoint(lambda x, w: (x @ w).sin() @ w, x, w, use_reentrant=False, context_fn=contexts)
        return inner.exp().sum()

    found = problem(function, leaf(8, 8), leaf(8, 8))
    assert [(s.name, s.eligible) for s in found.storages if s.must] == [("mm", True)]


def test_seconds_of_a_node_follow_its_operations_and_its_bytes() -> None:
    machine = table("roofline-cpu-1")
    pair = cut(lambda x, w: (x @ w).t().sin().sum(), leaf(512, 512), leaf(512, 512))
    cost = {node.name: seconds(node, machine) for node in pair.forward.graph.nodes if node.op == "call_function"}
    assert cost["mm"] == pytest.approx(machine.overhead + 2 * 512**3 / machine.flops)
    assert cost["sin"] == pytest.approx(machine.overhead + 2 * 4 * 512**2 / machine.bandwidth)
    assert cost["t"] == 0.0


def test_a_digest_is_the_same_in_every_process(fresh_process) -> None:  # type: ignore[no-untyped-def]
    code = (
        "import json, sys, torch; sys.path.insert(0, sys.argv[1])\n"
        "from offloading.test_storages import leaf, problem\n"
        "found = problem(lambda x: x.sin().exp().sum(), leaf(8, 4))\n"
        "print(json.dumps([found.forward_digest, found.backward_digest]))"
    )
    tests = str(stack.__file__).rsplit("/", 2)[0]
    here = problem(lambda x: x.sin().exp().sum(), leaf(8, 4))
    there: Sequence[str] = fresh_process(code, tests, hashseed=7, env={"AOT_CACHE": "0"})
    assert there == [here.forward_digest, here.backward_digest]


def test_graphs_that_do_not_belong_together_are_refused() -> None:
    one, two = cut(lambda x: x.sin().exp().sum(), leaf(8, 4)), cut(lambda x: (x @ x).cos().sum(), leaf(4, 4))
    with pytest.raises(OffloadError, match="no input for .*not cut by"):
        storages.analyse(storages.Pair(one.forward, two.backward, 1))
