"""Code of others that a frame's graphs call as it is: custom operators, and functions that Dynamo put into the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..outcome import Reason
from ..torch_compat import extensions, targets
from .build import identify
from .callables.functions import resolve
from .encode import CannotKey


def called(found: Iterable[Any]) -> list[list[str]]:
    """Where each target is found again, and its identity, as data for `changed`.

    Raises:
        CannotKey: one of them cannot be found by its name, or has no identity.
    """
    rows = []
    for target in found:
        row = _place(target)
        if _at(row) is not target:
            raise CannotKey(Reason.FRAME_GRAPH, f"it calls {targets.name(target)}", "define it in a module")
        rows.append([*row, identify(target)])
    return sorted(rows)


def changed(row: list[str]) -> str:
    """What is no longer as `called` found it; '' if nothing is."""
    *place, before = row
    target = _at(place)
    try:
        same = target is not None and identify(target) == before
    except CannotKey:
        same = False
    return "" if same else f"`{place[-1]}`, which its graph calls, changed"


def _place(target: Any) -> list[str]:
    if targets.kind(target) is targets.Kind.CUSTOM_OP:
        return ["operator", extensions.full_name(target)]
    return ["function", str(getattr(target, "__module__", None)), str(getattr(target, "__qualname__", None))]


def _at(place: list[str]) -> Any:
    if place[0] == "operator":
        return extensions.named(place[1])
    return resolve(place[1], place[2])
