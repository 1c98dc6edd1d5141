from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch._functorch import config
from torch._functorch._aot_autograd import graph_compile

from aot_cache.errors import BudgetTooSmall, HookMismatch, OffloadError
from aot_cache.torch_compat import partition


def see_into(seen: list[Any]):  # type: ignore[no-untyped-def]
    def rewrite(forward, backward, outputs):  # type: ignore[no-untyped-def]
        seen.append((forward, backward, outputs))
        return forward, backward

    return rewrite


def train(function, *size: int, backend: str = "aot_eager") -> torch.Tensor:  # type: ignore[no-untyped-def]
    torch._dynamo.reset()
    x = torch.ones(*size, requires_grad=True)
    outputs = torch.compile(function, backend=backend)(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(output.sum() for output in outputs).backward()  # type: ignore[union-attr]
    return x.grad  # type: ignore[return-value]


def test_each_pair_goes_through_with_its_number_of_outputs() -> None:
    seen: list[Any] = []
    with partition.wrapped(see_into(seen)):
        train(lambda x: (x.exp(), x.sin()), 3)
    ((forward, backward, outputs),) = seen
    assert outputs == 2
    saved = forward.graph.find_nodes(op="output")[0].args[0][outputs:]
    inputs = {node.name for node in backward.graph.find_nodes(op="placeholder")}
    assert saved
    assert {node.name for node in saved} < inputs


def test_what_the_rewrite_returns_is_what_runs() -> None:
    def doubled(forward, backward, outputs):  # type: ignore[no-untyped-def]
        (output,) = backward.graph.find_nodes(op="output")
        with backward.graph.inserting_before(output):
            twice = backward.graph.call_function(torch.ops.aten.mul.Tensor, (output.args[0][0], 2))
        twice.meta = dict(output.args[0][0].meta)
        output.args = ((twice, *output.args[0][1:]),)
        backward.recompile()
        return forward, backward

    with partition.wrapped(doubled):
        assert torch.equal(train(lambda x: x.sin(), 3), 2 * torch.ones(3).cos())
    assert torch.equal(train(lambda x: x.sin(), 3), torch.ones(3).cos())


def test_the_place_is_as_it_was_afterwards_also_after_an_error() -> None:
    before = graph_compile._partition_joint_graph_into_fw_bw
    with pytest.raises(KeyError), partition.wrapped(see_into([])):
        raise KeyError
    assert graph_compile._partition_joint_graph_into_fw_bw is before


def test_of_nested_contexts_the_inner_one_acts() -> None:
    outer: list[Any] = []
    inner: list[Any] = []
    with partition.wrapped(see_into(outer)):
        with partition.wrapped(see_into(inner)):
            train(lambda x: x.sin(), 3)
        assert (len(outer), len(inner)) == (0, 1)
        train(lambda x: x.cos(), 3)
    assert (len(outer), len(inner)) == (1, 1)


def test_other_threads_compile_as_ever() -> None:
    seen: list[Any] = []
    with partition.wrapped(see_into(seen)):
        other = threading.Thread(target=train, args=(lambda x: x.sin(), 3))
        other.start()
        other.join()
    assert not seen


def test_no_cache_that_does_not_know_of_the_rewrite_is_asked() -> None:
    before = config.enable_autograd_cache
    with partition.wrapped(see_into([])):
        assert config.enable_autograd_cache is False
    assert config.enable_autograd_cache is before


def test_a_torch_that_cuts_somewhere_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(graph_compile, "_partition_joint_graph_into_fw_bw")
    with pytest.raises(HookMismatch, match="offload schedules do not work"), partition.wrapped(see_into([])):
        pass


def saved(halves: partition.Halves) -> int:
    forward, _, outputs = halves
    return len(forward.graph.find_nodes(op="output")[0].args[0]) - outputs


def deep(x: torch.Tensor) -> torch.Tensor:
    for _ in range(6):
        x = (x @ x).sin()
    return x


def test_a_joint_graph_can_be_cut_again_with_another_knob_and_is_left_as_it_is() -> None:
    seen: list[Any] = []

    def cutter(joint: partition.Joint) -> partition.Halves:
        before = str(joint.module.graph)
        seen.extend(joint.cut(knob) for knob in (None, 0.25, None))
        assert (joint.repeatable, joint.fuses, joint.knob) == (True, False, 1.0)
        assert str(joint.module.graph) == before
        return seen[1]

    with partition.cutting(cutter, cached=False):
        found = train(deep, 8, 8, backend="aot_eager_decomp_partition")
    assert torch.equal(found, train(deep, 8, 8, backend="aot_eager_decomp_partition"))
    assert saved(seen[0]) == saved(seen[2]) > saved(seen[1])
    assert str(seen[0][0].graph) == str(seen[2][0].graph)


def test_an_error_of_a_plan_reaches_the_caller_as_what_it_is() -> None:
    def cutter(joint: partition.Joint) -> partition.Halves:
        raise BudgetTooSmall(1, 2, "three")

    with partition.cutting(cutter, cached=False), pytest.raises(BudgetTooSmall) as caught:
        train(lambda x: x.sin(), 3)
    assert isinstance(caught.value, OffloadError)
    assert (caught.value.near, caught.value.smallest, caught.value.needed) == (1, 2, "three")
    assert "the smallest that can is 2 B; three" in str(caught.value)


def test_only_what_plans_themselves_raise_is_passed_on_unwrapped() -> None:
    def cutter(joint: partition.Joint) -> partition.Halves:
        raise KeyError("a bug")

    with partition.cutting(cutter, cached=False), pytest.raises(Exception, match="a bug") as caught:
        train(lambda x: x.sin(), 3)
    assert not isinstance(caught.value, KeyError)


def test_with_a_cache_that_knows_of_the_cutter_the_setting_stays() -> None:
    before = config.enable_autograd_cache
    with partition.cutting(lambda joint: joint.cut(None), cached=True):
        assert config.enable_autograd_cache is before
