"""Which of the values that a frame's guards look at are one object, and which tensors lie in one storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..torch_compat import tensors
from ..torch_compat.kinds import is_a
from .callables.leaf import encode


def same_objects(values: Sequence[Any]) -> list[int]:
    """For each value the place of the first that is the same object; plain values count as different objects."""
    first: dict[int, int] = {}
    return [
        first.setdefault(id(value), place) if encode(value) is None and value is not None else place
        for place, value in enumerate(values)
    ]


def shared_storage(values: Sequence[Any]) -> list[list[str]]:
    """Which tensors lie in one storage, and where in it."""
    groups: dict[int, list[str]] = {}
    for place, value in enumerate(values):
        if is_a(value, torch.Tensor) and (storage := tensors.storage_of(value)) is not None:
            groups.setdefault(storage, []).append(f"{place} {tensors.place(value, tensors.Symbols(()))}")
    return [group for group in groups.values() if len(group) > 1]
