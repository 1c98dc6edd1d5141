"""Models whose weights were offloaded: the same numbers, exact bytes, what is refused, and that nothing stays near."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aot_cache
from aot_cache.errors import BudgetTooSmall, FarTierFull, OffloadError, SettingError, TransferError
from aot_cache.offloading import weights
from aot_cache.offloading.far_tensor import FarTensor
from aot_cache.offloading.tier_disk import DiskTier

WIDTH = 192
ONE = WIDTH * WIDTH * 4
"""Bytes of one weight of a stack."""


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def stack(layers: int = 4) -> nn.Sequential:
    torch.manual_seed(layers)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers))).requires_grad_(False)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.body, self.head = nn.Embedding(WIDTH, WIDTH), stack(2), nn.Linear(WIDTH, WIDTH, bias=False)
        self.head.weight = self.embed.weight
        self.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.body(self.embed(tokens)))
        return result


TOKENS = torch.arange(8)


@pytest.fixture
def far(tmp_path: Path) -> str:
    return f"disk:{tmp_path}"


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(3, WIDTH)


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


def test_a_state_dict_is_far_until_it_is_read_and_is_saved_as_plain_tensors(far: str, tmp_path: Path) -> None:
    model = stack(2)
    plain = {name: value.clone() for name, value in model.state_dict().items()}
    residence = aot_cache.offload_weights(model, ONE, far)
    state = model.state_dict()
    assert list(state) == list(plain) and residence.moved_in == 0
    torch.save(state, tmp_path / "state.pt")
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    assert {type(value) for value in saved.values()} == {Tensor}
    for name, value in plain.items():
        assert torch.equal(saved[name], value) and torch.equal(state[name].clone(), value)
    assert residence.near == 0


def test_what_is_loaded_is_written_to_the_far_tier(far: str, x: Tensor) -> None:
    model, other = stack(2), stack(3)[:2]
    expected = other(x)
    residence = aot_cache.offload_weights(model, 2 * ONE, far)
    model(x), model(x)  # and what was on its way ahead is not used
    assert residence.near > 0
    model.load_state_dict(other.state_dict())
    assert torch.equal(model(x), expected)
    assert type(model[0].weight) is FarTensor
    assert residence.transfer.live == residence.far


def test_a_tied_weight_is_written_at_all_its_places(far: str) -> None:
    model, other = Tied(), Tied()
    with torch.no_grad():
        other.embed.weight.add_(1)
        expected = other(TOKENS)
        aot_cache.offload_weights(model, ONE, far)
        model.head.weight.add_(1)
    assert torch.equal(model(TOKENS), expected)


def test_what_is_written_to_a_view_reaches_the_weight(far: str) -> None:
    model = stack(1)
    expected = model[0].weight.clone()
    aot_cache.offload_weights(model, ONE, far)
    weight = model[0].weight
    for tensor in (expected, weight):
        tensor.t()[1:, 2:3].mul_(2)
        tensor.data.view(-1).chunk(2)[1].zero_()
        tensor.detach()[5].copy_(tensor[6])
    assert torch.equal(weight.clone(), expected)


def test_a_change_of_form_is_refused(far: str) -> None:
    model = stack(1)
    aot_cache.offload_weights(model, ONE, far)
    with pytest.raises(OffloadError, match="changes the form"):
        model[0].weight.resize_(3, 3)
    with pytest.raises(OffloadError, match="cannot be viewed as"):
        model[0].weight.view(torch.int32)


@pytest.mark.parametrize("change", ["half", "double", "to_empty"])
def test_a_conversion_is_refused_and_changes_nothing(far: str, x: Tensor, change: str) -> None:
    model = nn.Sequential(stack(2))
    expected = model(x)
    aot_cache.offload_weights(model, ONE, far)
    with pytest.raises(OffloadError, match="weight is offloaded, and cannot be converted"):
        getattr(model, change)(**({"device": "meta"} if change == "to_empty" else {}))
    assert torch.equal(model(x), expected)


def test_a_conversion_to_what_it_is_goes_through(far: str, x: Tensor) -> None:
    model = stack(2)
    expected = model(x)
    residence = aot_cache.offload_weights(model, ONE, far)
    model.to("cpu").float()
    assert residence.moved_in == 0
    assert torch.equal(model(x), expected)


def test_a_copy_is_refused(far: str) -> None:
    model = stack(1)
    aot_cache.offload_weights(model, ONE, far)
    with pytest.raises(OffloadError, match="cannot be copied"):
        copy.deepcopy(model)


def test_a_model_that_could_be_trained_is_refused(far: str) -> None:
    model = stack(2)
    model[1].bias.requires_grad_(True)
    with pytest.raises(OffloadError, match=r"1\.bias requires grad.*requires_grad_\(False\)"):
        aot_cache.offload_weights(model, ONE, far)
    assert type(model[0].weight) is nn.Parameter


def test_weights_of_an_optimizer_are_refused(far: str) -> None:
    model = stack(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    with pytest.raises(OffloadError, match=r"optimizer \(SGD\) holds weights"):
        aot_cache.offload_weights(model, ONE, far)
    assert type(model[0].weight) is nn.Parameter
    del optimizer
    gc.collect()
    aot_cache.offload_weights(model, ONE, far)


def test_grad_that_is_asked_for_afterwards_is_refused(far: str, x: Tensor) -> None:
    model = stack(2)
    expected = model(x)
    aot_cache.offload_weights(model, ONE, far)
    model.requires_grad_(True)
    with pytest.raises(OffloadError, match="requires grad"):
        model(x)
    with torch.no_grad():
        assert torch.equal(model(x), expected)


def test_weights_are_offloaded_once(far: str) -> None:
    model = stack(1)
    aot_cache.offload_weights(model, ONE, far)
    with pytest.raises(OffloadError, match="already"):
        aot_cache.offload_weights(model, ONE, far)


@pytest.mark.parametrize(
    ("budget", "there", "error"),
    [
        ("much", "disk:/tmp", SettingError),
        (ONE, "tape:/tmp", SettingError),
        (ONE, "disk:", SettingError),
        (ONE, "disk:/nowhere/at/all", TransferError),
        (ONE, "host", OffloadError),
        (ONE - 1, "disk:/tmp", BudgetTooSmall),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(budget: Any, there: str, error: type[Exception]) -> None:
    model = stack(1)
    with pytest.raises(error, match=str(ONE) if error is BudgetTooSmall else None):
        aot_cache.offload_weights(model, budget, there)
    assert type(model[0].weight) is nn.Parameter


def test_a_far_tier_that_is_full_changes_nothing(far: str, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "DiskTier", lambda directory, limit: DiskTier(directory, 3 * ONE))
    model = stack()
    expected = model(x)
    with pytest.raises(FarTierFull):
        aot_cache.offload_weights(model, ONE, far)
    assert {type(layer.weight) for layer in model} == {nn.Parameter}
    assert torch.equal(model(x), expected)


def test_an_operation_that_needs_more_than_the_budget_says_how_much(far: str) -> None:
    model = stack(2)
    residence = aot_cache.offload_weights(model, ONE, far)
    with pytest.raises(TransferError, match=f"1.weight .* at least {2 * ONE}"):
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
