"""What a stored frame says to a person: its guards, the code it runs, its graphs. Pure: no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import EnvelopeError, told
from .envelope import Envelope, Manifest

SECTION = "view"


@dataclass(frozen=True)
class FrameView:
    """guards: (source, kind, fingerprint). unguarded: (source, fingerprint) of what was read without a guard.

    code: `module.name` of each function that was inlined, `module (distribution)` where its code is known by version.
    """

    guards: tuple[tuple[str, str, str], ...]
    unguarded: tuple[tuple[str, str], ...]
    code: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        rows = [dict(zip(("source", "kind", "fingerprint"), row)) for row in self.guards]
        unguarded = [dict(zip(("source", "fingerprint"), row)) for row in self.unguarded]
        return {"guards": rows, "unguarded": unguarded, "code": list(self.code)}


def write(view: FrameView) -> bytes:
    """The view as a section."""
    body = {"guards": view.guards, "unguarded": view.unguarded, "code": view.code}
    return json.dumps(body, separators=(",", ":")).encode()


def read(opened: Envelope) -> FrameView:
    """The view of a frame's entry.

    Raises:
        EnvelopeError: it has none, or it is damaged.
    """
    try:
        body = json.loads(bytes(opened.section(SECTION)))
        return FrameView(
            guards=tuple((str(source), str(kind), str(print_)) for source, kind, print_ in body["guards"]),
            unguarded=tuple((str(source), str(print_)) for source, print_ in body["unguarded"]),
            code=tuple(map(str, body["code"])),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise EnvelopeError(f"the view of the frame is not one of ours: {told(error)}") from None


def graphs(made: Manifest) -> tuple[str, ...]:
    """The names of the graph entries that a frame needs. Raises EnvelopeError if its list is not one."""
    found = made.extra.get("graphs")
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):
        raise EnvelopeError("the frame does not list its graphs as ours do")
    return tuple(found)


def code_of(places: list[list[Any]]) -> tuple[str, ...]:
    """The rows of `code`, from a frame's places."""
    names: Mapping[str, None] = dict.fromkeys(
        f"{row[1]}.{row[2]}" if row[0] == "code" else f"{row[1]} ({row[2]})"
        for row in places
        if row[0] in ("code", "distribution")
    )
    return tuple(names)
