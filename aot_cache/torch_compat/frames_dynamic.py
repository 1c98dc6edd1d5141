"""Dynamo's memory of which sizes it has seen for a piece of code: what it will compile with symbols next time."""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType
from typing import Any

_FIELDS = ("scalar", "size", "stride")


def remembered(code: CodeType, closure: Any) -> dict[str, list[Any]]:
    """What Dynamo knows of the inputs of `code`, as plain data by input: [scalar, size, stride]."""
    return {name: [_plain(getattr(entry, f)) for f in _FIELDS] for name, entry in _entries(code, closure).items()}


def remind(code: CodeType, closure: Any, known: Mapping[str, list[Any]]) -> None:
    """Add to Dynamo's knowledge, as if it had traced the frame that `known` was taken from."""
    from torch._dynamo.pgo import FrameStateSizeEntry

    entries = _entries(code, closure)
    for name, values in known.items():
        entries[name] |= FrameStateSizeEntry(*map(_live, values))


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
