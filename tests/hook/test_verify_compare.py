"""Comparing a cached function with a fresh one: what is a difference, what is none; the real inputs see nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aot_cache.hook.verify import NotComparable, compare
from aot_cache.torch_compat.trial import CannotCopy, Trial


def listed(function: Callable[..., Any]) -> Callable[[list[Any]], list[Any]]:
    """A function as AOTAutograd makes them: empties its list of inputs, returns a list."""

    def boxed(inputs: list[Any]) -> list[Any]:
        taken = list(inputs)
        inputs.clear()
        result = function(*taken)
        return list(result) if isinstance(result, tuple) else [result]

    return boxed


def differences(fresh: Any, cached: Any, *inputs: Any, tuned: bool = False) -> dict[str, str]:
    return compare(Trial(inputs), listed(fresh), listed(cached), tuned)


def test_one_bit_is_a_difference() -> None:
    x = torch.ones(3, dtype=torch.float64)
    nearly = torch.nextafter(x, x + 1)
    (text,) = differences(lambda t: t * 1, lambda t: t * nearly, x).values()
    assert text.startswith("3 of 3 elements differ, by up to 2.22")
    assert list(differences(lambda t: t * 0.0, lambda t: t * -0.0, x)) == ["output 0"]


def test_where_kernels_are_picked_by_speed_rounding_is_none() -> None:
    x = torch.ones(3)
    assert differences(lambda t: t * 1, lambda t: t * (1 + 1e-6), x)
    assert not differences(lambda t: t * 1, lambda t: t * (1 + 1e-6), x, tuned=True)
    assert differences(lambda t: t * 1, lambda t: t * (1 + 1e-4), x, tuned=True)


def test_where_the_fresh_compile_differs_from_itself_rounding_is_none() -> None:
    calls = []

    def noisy(t: torch.Tensor) -> torch.Tensor:
        calls.append(t)
        return t * (1 + 1e-6 * (len(calls) % 2))

    assert not differences(noisy, lambda t: t * (1 + 2e-6), torch.ones(3))
    assert differences(noisy, lambda t: t * 2, torch.ones(3))


def test_a_fresh_compile_that_was_the_same_twice_by_chance_gets_more_chances() -> None:
    calls = []

    def rarely_noisy(t: torch.Tensor) -> torch.Tensor:
        calls.append(t)
        return t * (1 + 1e-6 * (len(calls) > 2))

    assert not differences(rarely_noisy, lambda t: t * (1 + 1e-6), torch.ones(3))


def test_what_is_never_the_same_cannot_be_compared() -> None:
    calls = []
    with pytest.raises(NotComparable, match="output 0"):
        differences(lambda t: calls.append(t) or t * len(calls), lambda t: t, torch.ones(3))


def test_nan_equals_nan_and_an_output_that_is_no_tensor_counts() -> None:
    x = torch.tensor([float("nan"), 1.0])
    assert not differences(lambda t: (t * 1, None, 3), lambda t: (t * 1, None, 3), x)
    assert differences(lambda t: (t * 1, 3), lambda t: (t * 1, 4), x) == {"output 1": "4 instead of 3"}
    assert differences(lambda t: t * 1, lambda t: t.double(), x)
    assert differences(lambda t: t.expand(2, 2) + 0, lambda t: (t.expand(2, 2) + 0).t().contiguous().t(), x)


def test_an_input_that_only_one_of_them_changes_is_a_difference_and_the_real_one_is_untouched() -> None:
    x = torch.ones(3)
    changed = differences(lambda t: t + 0, lambda t: t.add_(1) - 1, x)
    assert "input 0" in changed and "output 0" not in changed and x.tolist() == [1, 1, 1]
    assert not differences(lambda t: t.add_(1) - 1, lambda t: t.add_(1) - 1, x)


def test_copies_share_memory_as_the_inputs_do() -> None:
    base = torch.zeros(6)
    seen = []

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        seen.append((b.tolist(), b._base is not None))
        return b + 0

    assert not differences(f, f, base[:3], base[2:5])
    assert set(map(repr, seen)) == {"([1.0, 0.0, 0.0], True)"} and base.tolist() == [0.0] * 6


def test_a_gradient_is_compared_and_none_is_left_behind() -> None:
    x = torch.ones(3, requires_grad=True)
    inner = x * 2
    found = differences(lambda t: t * t, lambda t: t * t.detach(), inner)
    assert list(found) == ["gradient of input 0"] and x.grad is None
    # An input that was computed may be changed in place, a leaf may not.
    assert not differences(lambda t: t.mul_(3) * t, lambda t: t.mul_(3) * t, inner)
    assert differences(lambda t: t.mul_(3) * t, lambda t: t.mul_(3) * t.detach(), inner)


class Overwriting(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x + 0

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient.mul_(2)


def test_a_backward_that_overwrites_its_gradients_gets_the_same_ones_each_time() -> None:
    x = torch.ones(3, requires_grad=True)
    assert not differences(Overwriting.apply, Overwriting.apply, x)


def test_both_see_the_random_numbers_that_the_user_will_see() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    seen = []

    def fresh(t: torch.Tensor) -> torch.Tensor:
        seen.append(torch.rand(2))
        return t * seen[-1]

    assert not differences(fresh, lambda t: t * torch.rand(2), torch.ones(2))
    assert all(torch.equal(numbers, expected) for numbers in seen) and torch.equal(torch.rand(2), expected)


def test_a_cached_function_that_raises_is_a_difference_and_a_fresh_one_is_not() -> None:
    def broken(t: torch.Tensor) -> torch.Tensor:
        raise ValueError("broken")

    assert "broken" in differences(lambda t: t, broken, torch.ones(2))["the cached function"]
    with pytest.raises(ValueError, match="broken"):
        differences(broken, lambda t: t, torch.ones(2))


@pytest.mark.parametrize("value", [object(), torch.ones(2).to_sparse(), torch.Generator()], ids=["any", "sparse", "random"])
def test_what_cannot_be_copied_is_named(value: Any) -> None:
    with pytest.raises(CannotCopy, match="input 1"):
        Trial([torch.ones(1), value]).run(listed(lambda *values: values[0]))
