"""A compiled frame as sections: its guards and what they saw as JSON, its bytecode as Python's own code format."""

from __future__ import annotations

import dataclasses
import json
import marshal
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ..errors import EnvelopeError, NotSerializable
from ..torch_compat import frames_guards, frames_install


@dataclass
class Frame:
    """All that a frame needs in order to run without being traced.

    prints: for each guard, the fingerprint of what it saw. same, storage: which of these values are one object, and
    which tensors share memory. unguarded: [source, fingerprint] of what was read without a guard. places: where to find
    each inlined code object. graphs: by global, the stored graph's name.
    """

    guards: frames_guards.Plain
    result: frames_install.Plain
    prints: list[str]
    same: list[int]
    storage: list[list[str]]
    unguarded: list[list[Any]]
    places: list[list[str]]
    graphs: dict[str, str] = field(default_factory=dict)


_CODES = ("code", "resumes")


def dump(frame: Frame) -> dict[str, bytes]:
    """The sections of a frame.

    Raises:
        NotSerializable: the bytecode holds a constant that Python cannot write.
    """
    result = {f.name: getattr(frame.result, f.name) for f in dataclasses.fields(frame.result) if f.name not in _CODES}
    plain = {name: value for name, value in vars(frame).items() if name not in ("guards", "result")}
    try:
        code = marshal.dumps((frame.result.code, frame.result.resumes))
    except ValueError as error:
        raise NotSerializable(f"the bytecode cannot be written: {error}") from None
    body = {"guards": vars(frame.guards), "result": result, **plain}
    return {"frame": json.dumps(body, separators=(",", ":")).encode(), "code": code}


def load(sections: Mapping[str, Any]) -> Frame:
    """The frame that `dump` was given.

    Raises:
        EnvelopeError: the sections are no such frame.
    """
    try:
        body = json.loads(bytes(sections["frame"]))
        # Which code this is was decided by the entry's key, Python's version included.
        code, resumes = marshal.loads(bytes(sections["code"]))
        if not all(isinstance(c, CodeType) for c in (code, *resumes.values())):
            raise ValueError("no code object")
        guards = frames_guards.Plain(**body.pop("guards"))
        result = frames_install.Plain(code, resumes, **body.pop("result"))
        return Frame(guards, result, **body)
    except (ValueError, KeyError, TypeError, EOFError, AttributeError) as error:
        raise EnvelopeError(f"the stored frame cannot be rebuilt: {error!r}") from None
