"""What a tensor subclass without memory of its own needs of torch beyond its public names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .entries import without_modes

tree_map_only, tree_leaves = pytree.tree_map_only, pytree.tree_leaves
# As a class's __torch_function__: Python functions see an ordinary tensor, and Dynamo has nothing to trace.
no_torch_function = torch._C._disabled_torch_function_impl


def make(kind: type, size: Sequence[int], stride: Sequence[int], offset: int, dtype: Any, device: Any) -> Any:
    """A tensor of the subclass `kind` with that form; offset: elements."""
    form = {"strides": stride, "storage_offset": offset, "dtype": dtype, "device": device}
    return torch.Tensor._make_wrapper_subclass(kind, size, **form)


def trace() -> Any:
    """What stands for the graph that is being traced now, under AOTAutograd or make_fx; None if none is."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode()


def written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that a call of an operator writes to, as its schema says; a list of tensors is one argument."""
    return [value for info, value in _given(func, args, kwargs) if info and info.is_write]


def view(func: Any, like: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a view operator makes of a tensor like `like` in a storage like its own: tensors without memory."""
    with without_modes(), torch.no_grad():
        end = like.storage_offset() + sum((n - 1) * step for n, step in zip(like.shape, like.stride(), strict=True))
        flat = torch.empty(end + 1, dtype=like.dtype, device="meta")
        return func(flat.as_strided(like.shape, like.stride(), like.storage_offset()), *args, **kwargs)


def _given(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for number, argument in enumerate(func._schema.arguments):
        if number < len(args):
            yield argument.alias_info, args[number]
        elif argument.name in kwargs:
            yield argument.alias_info, kwargs[argument.name]
