"""A compiled frame as sections: its guards and what they saw as JSON, its bytecode as Python's own code format."""

from __future__ import annotations

import dataclasses
import json
import marshal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from ..errors import EnvelopeError, NotSerializable, told
from ..torch_compat import frames_guards, frames_install, frames_sources
from . import frame_view


@dataclass
class Frame:
    """All that a frame needs in order to run without being traced.

    prints: for each guard, the fingerprint of what it saw. same, storage: which of these values are one object, and
    which tensors share memory. unguarded: [source, fingerprint] of what was read without a guard. listing: whether the
    names of attributes count. absent: globals that the code did not find. places: where to find each inlined code
    object. called: where the graphs' calls of others' code are found, with their identity. sizes: what Dynamo knew of
    the sizes of inputs, each with its source's place. graphs: by global, the stored graph's name.
    """

    guards: frames_guards.Plain
    result: frames_install.Plain
    prints: list[str]
    same: list[int]
    storage: list[list[str]]
    unguarded: list[list[Any]]
    listing: bool
    absent: list[str]
    places: list[list[Any]]
    called: list[list[str]]
    sizes: dict[str, list[Any]]
    graphs: dict[str, str] = field(default_factory=dict)


_CODES = ("code", "resumes")


def dump(frame: Frame) -> dict[str, bytes]:
    """The sections of a frame.

    Raises:
        NotSerializable: the bytecode holds a constant that Python cannot write.
    """
    result = {f.name: getattr(frame.result, f.name) for f in dataclasses.fields(frame.result) if f.name not in _CODES}
    plain = {name: value for name, value in vars(frame).items() if name not in ("guards", "result")}
    body = {"guards": vars(frame.guards), "result": result, **plain}
    text = json.dumps(body, separators=(",", ":")).encode()
    return {"frame": text, "code": dump_code(frame.result), frame_view.SECTION: frame_view.write(_view(frame))}


def _view(frame: Frame) -> frame_view.FrameView:
    told = [frames_sources.describe(source) for source in frames_sources.rebuild(frame.guards.sources, {})]
    return frame_view.FrameView(
        guards=tuple((told[row], kind, seen) for (row, kind, _), seen in zip(frame.guards.guards, frame.prints)),
        unguarded=tuple((told[row], seen) for row, seen in frame.unguarded),
        code=frame_view.code_of(frame.places),
    )


def dump_code(result: frames_install.Plain) -> bytes:
    """The bytecode of a frame and of what resumes it; raises as `dump`."""
    try:
        return marshal.dumps(_map((result.code, result.resumes), _to_plain))
    except ValueError as error:
        raise NotSerializable(f"the bytecode cannot be written: {error}") from None


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with every constant of the code objects in it replaced by `change` of it."""
    if isinstance(value, CodeType):
        return value.replace(co_consts=tuple(_map(const, change) for const in value.co_consts))
    if type(value) is dict:
        return {name: _map(item, change) for name, item in value.items()}
    changed = change(value)
    if changed is value and type(value) is tuple:
        return tuple(_map(item, change) for item in value)
    return changed


# torch's own constants, which Python cannot write, stand in bytecode as (..., kind, name).
_KINDS: dict[str, type] = {"device": torch.device, "dtype": torch.dtype, "layout": torch.layout}
_KINDS["memory_format"] = torch.memory_format


def _to_plain(value: Any) -> Any:
    for kind, cls in _KINDS.items():
        if type(value) is cls:
            return (..., kind, str(value).removeprefix("torch."))
    if type(value) is tuple and value[:1] == (...,):
        raise NotSerializable("the bytecode holds a tuple that starts with an ellipsis")
    return value


def _from_plain(value: Any) -> Any:
    if not (type(value) is tuple and value[:1] == (...,)):
        return value
    _, kind, name = value
    found = torch.device(name) if kind == "device" else getattr(torch, name)
    if type(found) is not _KINDS[kind]:
        raise EnvelopeError(f"the bytecode names torch.{name}, which is no {kind}")
    return found


def load(sections: Mapping[str, Any]) -> Frame:
    """The frame that `dump` was given.

    Raises:
        EnvelopeError: the sections are no such frame.
    """
    try:
        body = json.loads(bytes(sections["frame"]))
        # Which code this is was decided by the entry's key, Python's version included.
        code, resumes = _map(marshal.loads(bytes(sections["code"])), _from_plain)
        if not all(isinstance(c, CodeType) for c in (code, *resumes.values())):
            raise ValueError("no code object")
        guards = frames_guards.Plain(**body.pop("guards"))
        result = frames_install.Plain(code, resumes, **body.pop("result"))
        return Frame(guards, result, **body)
    except (ValueError, KeyError, TypeError, EOFError, AttributeError) as error:
        raise EnvelopeError(f"the stored frame cannot be rebuilt: {told(error)}") from None
