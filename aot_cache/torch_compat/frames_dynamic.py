"""Dynamo's memory of which sizes it has seen for a piece of code: what it will compile with symbols next time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import torch

from .kinds import is_a

_FIELDS = ("scalar", "size", "stride")


def remembered(code: CodeType, closure: Any, place: Callable[[str], Any]) -> dict[str, list[Any]]:
    """What Dynamo knows of the inputs of `code`, as plain data by input: [scalar, size, stride, place(input)]."""
    entries = _entries(code, closure).items()
    return {name: [*(_plain(getattr(entry, f)) for f in _FIELDS), place(name)] for name, entry in entries}


def remind(code: CodeType, closure: Any, known: Mapping[str, list[Any]]) -> None:
    """Add to Dynamo's knowledge, as if it had traced the frame that `known` was taken from."""
    from torch._dynamo.pgo import FrameStateSizeEntry

    entries = _entries(code, closure)
    for name, (*values, _) in known.items():
        entries[name] |= FrameStateSizeEntry(*map(_live, values))


def differs(code: CodeType, closure: Any, known: Mapping[str, list[Any]], value_at: Callable[[Any], Any]) -> str:
    """An input of which Dynamo would take other sizes for dynamic, if it traced now, than when `known` was remembered.

    value_at: the live value at a place; None where there is none. '' if there is no such input.
    """
    import torch._dynamo.config as config

    if not (config.automatic_dynamic_shapes and config.assume_static_by_default):
        return ""  # sizes are dynamic, or static, whatever was seen before
    entries = _entries(code, closure)
    for name, (*before, place) in known.items():
        seen = _seen(value_at(place))
        if seen is None:
            continue
        if name in entries:
            memory = copy.copy(entries[name])
            memory |= seen
            seen = memory
        if _dynamic([_plain(getattr(seen, field)) for field in _FIELDS]) != _dynamic(before):
            return name
    return ""


def _seen(value: Any) -> Any:
    """What Dynamo would remember of a value alone; None if that is nothing."""
    from torch._dynamo.pgo import FrameStateSizeEntry, auto_dynamic

    if is_a(value, torch.Tensor):
        strides = () if value.layout is not torch.strided else _strides(value)
        seen = FrameStateSizeEntry.make_tensor(tuple(value.size()), strides)
        marked = getattr(value, "_dynamo_dynamic_indices", ())
        seen.size = tuple(auto_dynamic if place in marked else size for place, size in enumerate(seen.size))
        return seen
    return FrameStateSizeEntry.make_scalar(value) if type(value) is int else None


def _strides(value: torch.Tensor) -> tuple[Any, ...]:
    """Strides, where one follows from another dimension's size and stride as a reference to that dimension."""
    from torch._dynamo.pgo import InferStride

    found: dict[int, Any] = {}
    follows: dict[int, Any] = {}
    for stride, negative in sorted((value.stride(i), -i) for i in range(value.dim())):
        found[-negative] = follows.get(stride, stride)
        follows.setdefault(stride * value.size(-negative), InferStride(-negative))
    return tuple(found[i] for i in range(value.dim()))


def _dynamic(fields: list[Any]) -> list[Any]:
    """Which numbers are dynamic; strides only count where all sizes are static."""
    scalar, size, stride = (
        [part == "dynamic" for part in f] if isinstance(f, list) else f == "dynamic" for f in fields
    )
    return [scalar, size, stride if isinstance(size, list) and not any(size) else None]


def _entries(code: CodeType, closure: Any) -> Any:
    from torch._dynamo.pgo import CodeId, get_code_state

    try:
        place = CodeId.make(code, closure)
    except TypeError:  # earlier releases do not tell closures apart
        place = CodeId.make(code)
    return get_code_state()[place].automatic_dynamic


def _plain(value: Any) -> Any:
    from torch._dynamo.pgo import InferStride, auto_dynamic, auto_unset

    if value is auto_dynamic:
        return "dynamic"
    if value is auto_unset:
        return "unset"
    if isinstance(value, InferStride):
        return {"infer": value.dim}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _live(value: Any) -> Any:
    from torch._dynamo.pgo import InferStride, auto_dynamic, auto_unset

    if isinstance(value, str):
        return auto_dynamic if value == "dynamic" else auto_unset
    if isinstance(value, dict):
        return InferStride(value["infer"])
    return tuple(map(_live, value)) if isinstance(value, list) else value
