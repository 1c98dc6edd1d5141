"""What is read from a model whose weights were offloaded, and what is written to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import aot_cache
from aot_cache.errors import OffloadError
from aot_cache.offloading.far_tensor import FarTensor

from .weight_models import ONE, TOKENS, Tied, stack


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
