"""What cannot be done with weights that are offloaded, or to be: it is said, and changes nothing."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aot_cache
from aot_cache.errors import BudgetTooSmall, FarTierFull, OffloadError, SettingError, TransferError
from aot_cache.offloading import weights
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.units import exact_size

from .weight_models import ONE, stack


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
    with pytest.raises(error, match=exact_size(ONE) if error is BudgetTooSmall else None):
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
