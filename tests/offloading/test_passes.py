from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from aot_cache.errors import IllegalSchedule
from aot_cache.offloading import names, operators, passes, storages
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Schedule
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.offloading.transfer import Transfer
from aot_cache.torch_compat import aliases

from . import stack
from .test_storages import cut, leaf

BACKENDS = ["aot_eager", "aot_eager_decomp_partition"]


@pytest.fixture(autouse=True)
def transfer(tmp_path: Path) -> Iterator[Transfer]:
    torch._dynamo.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    made = Transfer(DiskTier(tmp_path, 1 << 26), 1 << 20)
    before = operators.use("cpu", made)
    yield made
    operators.use("cpu", before)
    made.close()
    torch.set_num_threads(threads)


def functions() -> dict[str, tuple[object, tuple[Tensor, ...]]]:
    def views(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        h = (x * 2).sin()
        return (h.view(4, 16) @ w).sum() + (h.t() @ v).sum()

    def parts(x: Tensor) -> Tensor:
        one, two = (x @ x.t()).split(2)
        return (one @ two.t()).sum()

    def strided(x: Tensor) -> Tensor:
        h = (x @ x.t()).t()[:, ::2]
        return (h @ h.t().exp()).sum()

    def normed(x: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x @ x.t(), (8,)).exp().sum()

    def buffer(x: Tensor, state: Tensor) -> Tensor:
        state.add_(x.detach().sum())
        return ((x @ x.t()) * state).sin().sum()

    def several(x: Tensor) -> tuple[Tensor, Tensor]:
        h = x @ x
        return h.sin().exp(), h.exp() @ x

    def ints(x: Tensor) -> Tensor:
        return torch.nn.functional.max_pool2d(x.exp()[None], 2).exp().sum()

    return {
        "views": (views, (leaf(8, 8), leaf(16, 4), leaf(8, 8))),
        "parts": (parts, (leaf(4, 16),)),
        "strided": (strided, (leaf(6, 8),)),
        "normed": (normed, (leaf(8, 8),)),
        "buffer": (buffer, (leaf(8, 8), torch.zeros(1))),
        "several": (several, (leaf(8, 8),)),
        "ints": (ints, (leaf(8, 8),)),
    }


def run(function, inputs: tuple[Tensor, ...]) -> list[Tensor | None]:  # type: ignore[no-untyped-def]
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    outputs = function(*fresh)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(output.sum() for output in outputs).backward()  # type: ignore[union-attr]
    return [*outputs, *fresh, *(x.grad for x in fresh)]


def same(one: list[Tensor | None], two: list[Tensor | None]) -> bool:
    pairs = zip(one, two, strict=True)
    return all(a is b is None or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", list(functions()))
def test_with_everything_moved_the_numbers_are_the_same_and_bytes_are_as_planned(
    transfer: Transfer, name: str, backend: str
) -> None:
    function, inputs = functions()[name]
    expected = run(torch.compile(function, backend=backend), inputs)
    torch._dynamo.reset()
    scheduler = stack.Scheduler()
    with scheduler.on():
        found = run(torch.compile(function, backend=backend), inputs)
    assert same(expected, found)
    assert scheduler.planned > 0
    assert transfer.tier.written == transfer.tier.read == scheduler.planned  # type: ignore[attr-defined]
    del found
    assert transfer.live == 0


def test_a_stack_of_blocks_moves_all_that_its_forward_makes(transfer: Transfer) -> None:
    model, x = stack.stack(2, 32), leaf(2, 16, 32)
    expected = stack.step(torch.compile(model, backend="aot_eager"), model, x)
    torch._dynamo.reset()
    scheduler = stack.Scheduler()
    with scheduler.on():
        found = stack.step(torch.compile(model, backend="aot_eager"), model, x)
    assert same([*expected], [*found])
    (problem,) = scheduler.problems
    made = [s for s in problem.storages if s.saved and s.kind == "act"]
    assert scheduler.planned == sum(s.bytes for s in made)
    assert transfer.tier.written == transfer.tier.read == scheduler.planned  # type: ignore[attr-defined]


def test_retained_graphs_and_backwards_that_never_come_leave_nothing(transfer: Transfer) -> None:
    x = leaf(8, 8)
    with stack.Scheduler().on():
        compiled = torch.compile(lambda x: x.sin().exp().sin().exp(), backend="aot_eager")
        y = compiled(x).sum()
    with torch._functorch.config.patch(donated_buffer=False):
        y.backward(retain_graph=True)
        first, x.grad = x.grad, None
        held = transfer.live
        y.backward()
    assert torch.equal(first, x.grad)
    del y
    assert (held > 0, transfer.live) == (True, 0)
    compiled(x)
    assert transfer.live == 0


def chain() -> tuple[storages.Pair, Problem]:
    pair = cut(lambda x: (x @ x).exp().matmul(x).sin().matmul(x).sum(), leaf(8, 8))
    return pair, storages.analyse(pair, smallest=1).problem


def code(module: GraphModule) -> str:
    return str(module.graph)


def test_the_graphs_that_were_given_stay_as_they_are() -> None:
    pair, problem = chain()
    before = code(pair.forward), code(pair.backward)
    applied = passes.apply(pair, stack.everything(problem))
    assert (code(pair.forward), code(pair.backward)) == before
    assert code(applied.forward) != before[0]


def test_a_schedule_of_no_rows_changes_nothing() -> None:
    pair, problem = chain()
    applied = passes.apply(pair, stack.scheduled(problem, ()))
    assert code(applied.forward) == code(pair.forward)
    assert code(applied.backward) == code(pair.backward)


def test_equal_graphs_and_schedules_give_equal_graphs() -> None:
    texts = []
    for _ in range(2):
        pair, problem = chain()
        applied = passes.apply(pair, stack.everything(problem))
        texts.append((code(applied.forward), code(applied.backward)))
    assert texts[0] == texts[1]


def test_operators_stand_where_the_schedule_says() -> None:
    pair, problem = chain()
    schedule = stack.everything(problem, ahead=1)
    applied = passes.apply(pair, schedule)
    assert schedule.rows
    for row in schedule.rows:
        assert _neighbour(pair.forward, applied.forward, "primals", f"spill_{row.storage}", -1) == row.out_after
        assert _neighbour(pair.forward, applied.forward, "primals", f"wait_{row.storage}", 1) == row.free_at
        assert _neighbour(pair.backward, applied.backward, "in", f"fetch_{row.storage}", 1) == _step(
            pair.backward, row.in_before
        )
        assert _neighbour(pair.backward, applied.backward, "in", f"fill_{row.storage}", 1) == row.need_at


def _step(module: GraphModule, name: str) -> str:
    """The first step from `name` on that is no view: views of what moves go to where it is."""
    named = names.canonical(module.graph, "in")
    begin = list(named.values()).index(name)
    return next(text for node, text in list(named.items())[begin:] if not aliases.viewed(node))


def _neighbour(before: GraphModule, after: GraphModule, inputs: str, name: str, step: int) -> str:
    """The canonical name of the nearest step after (1) or before (-1) `name` that was there already, views left out."""
    steps = {node: text for node, text in names.canonical(before.graph, inputs).items() if not aliases.viewed(node)}
    known = {node.name: text for node, text in steps.items()}
    order = [node.name for node in after.graph.nodes]
    found = order[order.index(name) :: step]
    return next(known[other] for other in found if other in known)


def test_a_saved_value_is_a_handle_and_the_activation_leaves_the_outputs() -> None:
    pair, problem = chain()
    applied = passes.apply(pair, stack.everything(problem))
    (output,) = applied.forward.graph.find_nodes(op="output")
    kept = output.args[0][applied.outputs :]
    assert [tuple(node.meta["val"].shape) for node in kept if node.target is operators.wait] == [(2,)] * len(
        stack.everything(problem).rows
    )
    assert not {node.name for node in kept} & {row.storage for row in stack.everything(problem).rows}


def wrong(schedule: Schedule, **fields: object) -> Schedule:
    return dataclasses.replace(schedule, rows=(dataclasses.replace(schedule.rows[0], **fields),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"storage": "nothing"}, "no storage"),
        ({"storage": "primals_1"}, "alias of an input"),
        ({"bytes": 1}, "bytes"),
        ({"kind": "weight"}, "weight"),
        ({"free_at": "nothing"}, "no step"),
        ({"need_at": "output"}, "reads it before"),
    ],
    ids=["storage", "input", "bytes", "kind", "step", "late"],
)
def test_a_schedule_that_would_lose_data_is_refused(fields: dict[str, object], complaint: str) -> None:
    pair, problem = chain()
    with pytest.raises(IllegalSchedule, match=complaint):
        passes.apply(pair, wrong(stack.everything(problem), **fields))


def test_a_schedule_for_other_graphs_is_refused() -> None:
    pair, problem = chain()
    with pytest.raises(IllegalSchedule, match="other graphs"):
        passes.apply(pair, dataclasses.replace(stack.everything(problem), backward="0" * 32))
