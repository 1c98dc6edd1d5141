"""Which of the values that a frame's guards look at are one object, or share a closure's cell or a tensor's storage."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType, MethodType
from typing import Any

import torch

from ..torch_compat import tensors
from ..torch_compat.kinds import is_a
from .callables.leaf import encode


def same(values: Sequence[Any], closure: Any) -> list[int]:
    """Which values are one object, and which cells of closures are one."""
    return same_objects(values) + same_cells(closure, values)


def same_objects(values: Sequence[Any]) -> list[int]:
    """For each value the place of the first that is the same object; plain values count as different objects.

    But for NaN, which containers compare by identity first.
    """
    first: dict[int, int] = {}
    return [
        first.setdefault(id(value), place)
        if (encode(value) is None and value is not None) or (type(value) is float and value != value)
        else place
        for place, value in enumerate(values)
    ]


def same_cells(closure: Any, values: Sequence[Any]) -> list[int]:
    """The same for the cells of the frame's own closure and of those of functions among the values."""
    functions = [value.__func__ if type(value) is MethodType else value for value in values]
    closures = [closure, *(function.__closure__ for function in functions if type(function) is FunctionType)]
    cells = [cell for cells in closures for cell in cells or ()]
    first: dict[int, int] = {}
    return [first.setdefault(id(cell), place) for place, cell in enumerate(cells)]


def shared_storage(values: Sequence[Any]) -> list[list[str]]:
    """Which tensors lie in one storage, and where in it."""
    groups: dict[int, list[str]] = {}
    for place, value in enumerate(values):
        if is_a(value, torch.Tensor) and (storage := tensors.storage_of(value)) is not None:
            groups.setdefault(storage, []).append(f"{place} {tensors.place(value, tensors.Symbols(()))}")
    return [group for group in groups.values() if len(group) > 1]
