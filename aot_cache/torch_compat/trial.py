"""Runs compiled functions on copies of one call's inputs, so that nothing of it is seen outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes, is_traceable_wrapper_subclass

from .tensors import is_plain

_VALUES = (type(None), bool, int, float, complex, str, torch.dtype, torch.device)


class CannotCopy(Exception):
    """An input, or a result, is of a kind that cannot be copied."""


class Trial:
    """One call. Every run of it gets its own copies, the same random numbers and the same gradients of the outputs."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = list(inputs)
        self._tangents: dict[int, torch.Tensor] = {}

    def run(self, function: Callable[[list[Any]], Any]) -> dict[str, Any]:
        """Outputs, inputs that were changed, and gradients, by what a person calls them; tensors in it are copies.

        Raises:
            CannotCopy: an input or a result is of a kind that cannot be copied. Also whatever `function` raises.
        """
        from torch._dynamo import compiled_autograd

        with _own_random_numbers(self._inputs), compiled_autograd._disable():
            copies = _Copies()
            inputs = [copies.of(value, f"input {number}") for number, value in enumerate(self._inputs)]
            outputs = function(list(inputs))
            outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            results = dict(_all_snapshots("output", outputs))
            results |= self._gradients(outputs, copies)
            for number, (copy, original) in enumerate(zip(inputs, self._inputs)):
                changed = dict(_snapshots(f"input {number}", copy))
                if not alike(changed, dict(_snapshots(f"input {number}", original, keep=False))):
                    results |= changed
            return results

    def _gradients(self, outputs: list[Any], copies: _Copies) -> dict[str, Any]:
        wanted = {n: o for n, o in enumerate(outputs) if isinstance(o, torch.Tensor) and o.requires_grad}
        if not wanted or not copies.roots or not torch.is_grad_enabled():
            return {}
        # A backward may overwrite them: with torch.cond it does.
        tangents = [self._tangent(number, output).clone() for number, output in wanted.items()]
        roots = list(copies.roots.values())
        found = torch.autograd.grad(list(wanted.values()), roots, tangents, allow_unused=True)
        return dict(
            pair for name, gradient in zip(copies.roots, found) for pair in _snapshots(f"gradient of {name}", gradient)
        )

    def _tangent(self, number: int, output: torch.Tensor) -> torch.Tensor:
        if number not in self._tangents:
            with _own_random_numbers(self._inputs), torch.no_grad():
                self._tangents[number] = torch.randn_like(output)
        return self._tangents[number]


def same_bits(one: Any, other: Any) -> bool:
    """Whether two values of a run's results are the same, tensors bit by bit."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return type(one) is type(other) and bool(one == other or one != one and other != other)
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return False
    return bool(torch.equal(_bits(one), _bits(other)))


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(same_bits(value, other[name]) for name, value in one.items())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


# -- results -----------------------------------------------------------------------------------------------------------


def _all_snapshots(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(values):
        yield from _snapshots(f"{name} {number}", value)


def _snapshots(name: str, value: Any, keep: bool = True) -> Iterator[tuple[str, Any]]:
    """The value, part by part, each tensor with what it is apart from its numbers; copied if it is to be kept."""
    if not isinstance(value, torch.Tensor):
        if not isinstance(value, _VALUES):
            raise CannotCopy(f"{name} is a {type(value).__name__}")
        yield name, value
        return
    if is_traceable_wrapper_subclass(value):
        yield f"kind of {name}", f"{type(value).__qualname__}, {tuple(value.shape)}, {value.requires_grad}"
        for part in value.__tensor_flatten__()[0]:
            yield from _snapshots(f"{name}.{part}", getattr(value, part), keep)
        return
    _require_plain(value, name)
    kind = f"{value.dtype}, {tuple(value.shape)}, strides {value.stride()}, {value.device}"
    yield f"kind of {name}", kind + (", requires grad" if value.requires_grad else "")
    with _disable_current_modes(), torch.no_grad():
        plain = value.detach()
        yield name, plain.clone() if keep else plain


def _require_plain(tensor: torch.Tensor, name: str) -> None:
    has_numbers = is_plain(tensor) and not isinstance(tensor, FakeTensor) and not tensor.is_quantized
    if not has_numbers or tensor.layout is not torch.strided:
        raise CannotCopy(f"{name} is a {type(tensor).__name__} of layout {tensor.layout}")


# -- inputs ------------------------------------------------------------------------------------------------------------


class _Copies:
    """Inputs as they were, views and shared storages included, cut off from the graph that they came from.

    roots: by name, what a gradient can be asked of.
    """

    def __init__(self) -> None:
        self.roots: dict[str, torch.Tensor] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        # With the original, which keeps its id its own.
        self._done: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, value: Any, name: str) -> Any:
        """Raises CannotCopy."""
        if not isinstance(value, torch.Tensor):
            if not isinstance(value, _VALUES):
                raise CannotCopy(f"{name} is a {type(value).__name__}")
            return value
        if id(value) not in self._done:
            with _disable_current_modes(), torch.inference_mode(value.is_inference()):
                self._done[id(value)] = value, self._copy(value, name)
        return self._done[id(value)][1]

    def _copy(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        if is_traceable_wrapper_subclass(tensor):
            return self._leaf_or_inner(tensor, name, lambda: self._rebuilt(tensor, name))
        _require_plain(tensor, name)
        if (base := self._base(tensor)) is not None:
            base = self.of(base, f"the base of {name}")
            with torch.set_grad_enabled(tensor.requires_grad):
                return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return self._leaf_or_inner(tensor, name, lambda: self._on_same_storage(tensor))

    def _base(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What the tensor is a view of, if a copy of it can be viewed in the same way."""
        base = None if tensor.is_inference() or tensor.is_leaf and tensor.requires_grad else tensor._base
        if base is None or not is_plain(base) or base.dtype != tensor.dtype:
            return None
        return base if (base.is_conj(), base.is_neg()) == (tensor.is_conj(), tensor.is_neg()) else None

    def _leaf_or_inner(self, tensor: torch.Tensor, name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            leaf = make()
        if not tensor.requires_grad:
            return leaf
        self.roots[name] = leaf.requires_grad_()
        if tensor.is_leaf:
            return leaf
        with torch.enable_grad():
            # A leaf could not be changed in place.
            return _Inner.apply(leaf, make)  # type: ignore[no-any-return]

    def _on_same_storage(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.clone()
        copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        copy.set_(self._storages[storage._cdata], tensor.storage_offset(), tensor.shape, tensor.stride())
        copy = copy.conj() if tensor.is_conj() else copy
        return copy._neg_view() if tensor.is_neg() else copy

    def _rebuilt(self, tensor: Any, name: str) -> torch.Tensor:
        names, context = tensor.__tensor_flatten__()
        parts = {}
        for part in names:
            inner = getattr(tensor, part)
            parts[part] = self._rebuilt(inner, name) if is_traceable_wrapper_subclass(inner) else inner
            if parts[part] is inner:
                _require_plain(inner, f"{name}.{part}")
                parts[part] = self._on_same_storage(inner)
        rebuilt: torch.Tensor = type(tensor).__tensor_unflatten__(parts, context, tensor.shape, tensor.stride())
        return rebuilt


class _Inner(torch.autograd.Function):
    """What `make` gives, as something that was computed from `leaf`, with gradient 1."""

    @staticmethod
    def forward(context: Any, leaf: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        return gradient, None


@contextmanager
def _own_random_numbers(inputs: Sequence[Any]) -> Iterator[None]:
    """Random numbers go on from where they are, and afterwards again from there."""
    accelerator = torch.accelerator.current_accelerator()
    devices: set[int] = set()
    if accelerator is not None:
        module = torch.get_device_module(accelerator.type)
        # Asking a device for its state would start it.
        if getattr(module, "is_initialized", lambda: True)():
            places = {value.device for value in inputs if isinstance(value, torch.Tensor)}
            devices = {place.index for place in places if place.type == accelerator.type} | {module.current_device()}
    kind = accelerator.type if accelerator is not None and devices else "cuda"
    with torch.random.fork_rng(devices=sorted(devices), device_type=kind):
        yield
