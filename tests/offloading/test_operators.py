from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from aot_cache.errors import FarTierFull, TransferError
from aot_cache.offloading import handles, operators
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.offloading.transfer import Transfer


@pytest.fixture
def transfer(tmp_path: Path) -> Iterator[Transfer]:
    made = Transfer(DiskTier(tmp_path, 1 << 20), 1 << 18)
    before = operators.use("cpu", made)
    yield made
    operators.use("cpu", before)
    made.close()


def form(x: Tensor):  # type: ignore[no-untyped-def]
    return list(x.size()), list(x.stride()), x.dtype, x.device


class Doubled(torch.autograd.Function):
    """Squares, and saves the handle of its input in place of the input."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(operators.wait(operators.spill(x), x))
        ctx.form = form(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (handle,) = ctx.saved_tensors
        return 2 * operators.fill(operators.fetch(handle, *ctx.form), *ctx.form) * gradient


@pytest.fixture
def x() -> Tensor:
    return torch.randn(300, requires_grad=True)


def test_the_way_out_and_back_changes_no_bit(transfer: Transfer) -> None:
    x = torch.randn(7, 11).t()
    handle = operators.wait(operators.spill(x), x)
    back = operators.fill(operators.fetch(handle, *form(x)), *form(x))
    assert torch.equal(back, x)
    assert back.stride() == x.stride()


def test_a_handle_is_small_and_keeps_its_slot_through_detach_and_views(transfer: Transfer) -> None:
    x = torch.randn(1000)
    handle = operators.spill(x)
    assert handle.untyped_storage().nbytes() == 16
    other = handle.detach().view(2)
    del handle
    assert transfer.live == 4000
    del other
    assert transfer.live == 0


def test_the_first_handle_may_go_once_the_second_is_there(transfer: Transfer) -> None:
    x = torch.randn(1000)
    handle = operators.spill(x)
    kept = operators.wait(handle, x)
    del handle
    assert torch.equal(operators.fill(operators.fetch(kept, *form(x)), *form(x)), x)


def test_a_backward_frees_what_its_forward_moved(transfer: Transfer, x: Tensor) -> None:
    y = Doubled.apply(x)
    assert transfer.live == 1200
    y.sum().backward()
    assert transfer.live == 0
    assert torch.equal(x.grad, 2 * x)


def test_a_graph_that_is_retained_can_run_backward_twice(transfer: Transfer, x: Tensor) -> None:
    y = Doubled.apply(x)
    y.sum().backward(retain_graph=True)
    assert transfer.live == 1200
    y.sum().backward()
    assert transfer.live == 0
    assert torch.equal(x.grad, 4 * x)


def test_a_forward_without_a_backward_leaves_nothing(transfer: Transfer, x: Tensor) -> None:
    y = Doubled.apply(x)
    del y
    assert transfer.live == 0


def test_an_exception_between_forward_and_backward_leaves_nothing(transfer: Transfer, x: Tensor) -> None:
    def step() -> None:
        y = Doubled.apply(x)
        assert transfer.live == 1200
        raise KeyError(y.shape)

    with pytest.raises(KeyError):
        step()
    gc.collect()  # the exception's frames
    assert transfer.live == 0


def test_an_exception_inside_the_backward_leaves_nothing(transfer: Transfer, x: Tensor) -> None:
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            raise KeyError

    y = Doubled.apply(Failing.apply(Doubled.apply(x)))
    assert transfer.live == 2400
    with pytest.raises(KeyError):
        y.sum().backward()
    del y
    gc.collect()
    assert transfer.live == 0


def test_a_second_backward_without_retain_graph_fails_as_ever(transfer: Transfer, x: Tensor) -> None:
    y = Doubled.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_bytes_that_are_no_handle_are_an_error(transfer: Transfer) -> None:
    x = torch.randn(4)
    dead = operators.spill(x).clone()
    for wrong in (dead, torch.zeros(2, dtype=torch.int64), torch.tensor([dead[0], 5])):
        with pytest.raises(TransferError, match="stands for nothing"):
            operators.fetch(wrong, *form(x))


def test_a_handle_of_another_kind_is_an_error(transfer: Transfer) -> None:
    x = torch.randn(4)
    handle = operators.spill(x)
    with pytest.raises(TransferError, match="a handle of Slot"):
        operators.fill(handle, *form(x))


def test_a_device_without_a_far_tier_is_an_error() -> None:
    before = operators.use("cpu", None)
    try:
        with pytest.raises(TransferError, match="no far tier for cpu"):
            operators.spill(torch.ones(1))
    finally:
        operators.use("cpu", before)


def test_a_full_far_tier_stops_the_forward(transfer: Transfer) -> None:
    with pytest.raises(FarTierFull, match="has no room for"):
        Doubled.apply(torch.ones(1 << 20, requires_grad=True))
    assert transfer.live == 0


@pytest.mark.parametrize("tracing", ["fake", "symbolic"])
def test_the_operators_can_be_traced_and_keep_their_edges(transfer: Transfer, tracing: str) -> None:
    def there_and_back(x: Tensor) -> Tensor:
        handle = operators.wait(operators.spill(x), x)
        return operators.fill(operators.fetch(handle, *form(x)), *form(x))

    x = torch.randn(5, 3)
    traced = make_fx(there_and_back, tracing_mode=tracing)(x)
    traced.graph.eliminate_dead_code()
    called = [node.target for node in traced.graph.nodes if "aot_cache" in str(node.target)]
    assert called == [operators.spill, operators.wait, operators.fetch, operators.fill]
    assert torch.equal(traced(x), x)


def test_what_the_operators_return_has_the_form_that_their_fakes_promise(transfer: Transfer) -> None:
    x = torch.randn(5, 3).t()
    torch.library.opcheck(operators.spill, (x,), test_utils=("test_schema", "test_faketensor"))
    handle = operators.spill(x)
    torch.library.opcheck(operators.wait, (handle, x), test_utils=("test_schema", "test_faketensor"))


def test_a_handle_is_aligned_as_compiled_code_asserts() -> None:
    kept = [handles.issue(torch.nn.Identity()) for _ in range(50)]
    assert {handle.data_ptr() % 16 for handle in kept} == {0}
