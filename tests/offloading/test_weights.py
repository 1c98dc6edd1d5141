"""Models whose weights were offloaded: the same numbers, exact bytes, and nothing stays near."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aot_cache
from aot_cache.errors import TransferError
from aot_cache.offloading import weights
from aot_cache.offloading.far_tensor import FarTensor
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.units import exact_size, rounded_up

from .weight_models import ONE, TOKENS, WIDTH, Tied, stack


def test_outputs_are_bit_equal_and_each_run_moves_each_weight_once(far: str, x: Tensor) -> None:
    model = stack()
    expected = model(x)
    residence = aot_cache.offload_weights(model, ONE, far)
    assert (residence.far, residence.near, residence.moved_in) == (4 * ONE, 0, 0)
    for run in (1, 2, 3):
        assert torch.equal(model(x), expected)
        assert (residence.moved_in, residence.transfer.tier.read) == (4 * ONE * run, 4 * ONE * run)
    assert (residence.peak, residence.near) == (ONE, 0)


def test_with_room_the_next_weights_are_on_their_way_and_none_in_vain(far: str, x: Tensor) -> None:
    model = stack()
    expected = model(x)
    residence = aot_cache.offload_weights(model, 3 * ONE, far)
    for _ in range(4):
        assert torch.equal(model(x), expected)
    assert residence.ahead > 4
    assert residence.wasted == 0
    assert residence.peak == 3 * ONE
    # The first two of the fifth run, begun while the last of the fourth was in use.
    assert residence.near == 2 * ONE
    assert residence.moved_in == 16 * ONE + residence.near


def test_an_order_that_changes_costs_reads_and_no_numbers(far: str, x: Tensor) -> None:
    model = stack()
    orders = [(0, 1, 2, 3), (3, 2, 1, 0), (1, 1, 3, 0), (0, 1, 2, 3), (2, 0)]

    def run(order: tuple[int, ...]) -> Tensor:
        y = x
        for layer in order:
            y = model[layer](y)
        return y

    expected = [run(order) for order in orders]
    residence = aot_cache.offload_weights(model, 2 * ONE, far)
    for order, values in zip(orders * 2, expected * 2, strict=True):
        assert torch.equal(run(order), values)
    assert residence.wasted > 0
    assert residence.peak <= 2 * ONE


def test_what_was_near_is_freed(far: str, x: Tensor) -> None:
    model = stack()
    freed = [storage_alive(layer.weight) for layer in model]
    residence = aot_cache.offload_weights(model, ONE, far)
    assert [alive() for alive in freed] == [False] * 4
    assert residence.held == ()


def test_numbers_come_from_the_far_tier_and_not_from_the_first_memory(far: str, x: Tensor, caplog: Any) -> None:
    model = stack(2)
    expected, kept = model(x), model[1].weight.data
    residence = aot_cache.offload_weights(model, ONE, far)
    assert residence.held == ("1.weight",)
    assert "1.weight" in caplog.text and str(ONE) in caplog.text
    kept.fill_(float("nan"))
    assert torch.equal(model(x), expected)


def test_other_bytes_in_the_far_tier_are_other_numbers(far: str, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    class Poisoned(DiskTier):
        def _read(self, near: Tensor, *rest: Any) -> None:
            super()._read(near, *rest)
            near.zero_()

    monkeypatch.setattr(weights, "DiskTier", Poisoned)
    model = stack(2)
    expected = model(x)
    aot_cache.offload_weights(model, ONE, far)
    assert not torch.equal(model(x), expected)
    assert torch.equal(model(x), model[1].bias.expand(3, -1))


def test_tied_weights_are_one_storage(far: str) -> None:
    model = Tied()
    expected = model(TOKENS)
    residence = aot_cache.offload_weights(model, ONE, far)
    assert residence.far == 3 * ONE
    assert model.head.weight is model.embed.weight
    assert torch.equal(model(TOKENS), expected)
    # It is used at two places, and brought in for each.
    assert residence.moved_in == 4 * ONE


def test_a_weight_that_is_used_twice_is_foreseen_at_both_places(far: str) -> None:
    model = Tied()
    residence = aot_cache.offload_weights(model, 2 * ONE, far)
    for _ in range(3):
        model(TOKENS)
    wasted, ahead = residence.wasted, residence.ahead
    model(TOKENS)
    assert residence.wasted == wasted
    assert residence.ahead == ahead + 4


def test_small_weights_stay(far: str) -> None:
    model = stack(1)
    aot_cache.offload_weights(model, ONE, far)
    assert type(model[0].weight) is FarTensor and isinstance(model[0].weight, nn.Parameter)
    assert type(model[0].bias) is nn.Parameter


def test_buffers_move(far: str, x: Tensor) -> None:
    model = stack(1)
    model.register_buffer("table", torch.randn(WIDTH, WIDTH))
    expected = x @ model.table
    assert aot_cache.offload_weights(model, ONE, far).far == 2 * ONE
    assert type(model.table) is FarTensor
    assert torch.equal(x @ model.table, expected)


def test_an_operation_that_needs_more_than_the_budget_says_how_much(far: str) -> None:
    model = stack(2)
    residence = aot_cache.offload_weights(model, ONE, far)
    with pytest.raises(TransferError, match=f"1.weight .* at least {exact_size(rounded_up(2 * ONE))}"):
        model[0].weight + model[1].weight
    gc.collect()
    assert residence.near == 0


def test_a_read_that_fails_reaches_whoever_uses_the_weight(far: str, x: Tensor) -> None:
    model = stack(2)
    residence = aot_cache.offload_weights(model, ONE, far)
    residence.transfer.tier._file.truncate(0)  # type: ignore[attr-defined]
    with pytest.raises(TransferError, match="ended early"):
        model(x)


def test_the_far_tier_goes_with_the_model(far: str, x: Tensor) -> None:
    model = stack(2)
    residence = aot_cache.offload_weights(model, ONE, far)
    model(x)
    del model
    gc.collect()
    assert (residence.far, residence.transfer.live) == (0, 0)


def storage_alive(tensor: Tensor) -> Callable[[], bool]:
    ref = weakref.ref(tensor.untyped_storage())
    return lambda: ref() is not None
