"""What changed in a graph, in the lines of its text that two entries hold."""

from __future__ import annotations

import difflib
import re

from ..errors import EnvelopeError
from ..store.readonly import ReadonlyStore
from .entries import GRAPH, load

# The first that both entries have: forward and backward in one, or the forward alone.
_SECTIONS = ("text.joint", "text.forward")
_COMMENT = re.compile(r"\s*#.*|;.*")


def changed_lines(store: ReadonlyStore, old: str, new: str) -> list[str]:
    """Lines that only one of two keys' graphs has, `- old` and `+ new`; none if a key has no entry with a text."""
    texts = [_texts(store, key) for key in (old, new)]
    for section in _SECTIONS:
        if section in texts[0] and section in texts[1]:
            return difference(texts[0][section], texts[1][section])
    return []


def difference(old: str, new: str) -> list[str]:
    """The same of two texts; comments, and when values are freed, do not count."""
    lines = difflib.unified_diff(_calls(old), _calls(new), n=0, lineterm="")
    return [f"{line[0]} {line[1:]}" for line in lines if not line.startswith(("---", "+++", "@@"))]


def _calls(text: str) -> list[str]:
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def _texts(store: ReadonlyStore, key: str) -> dict[str, str]:
    for entry in store.entries(f"{GRAPH}{key}."):
        loaded = load(store, entry)
        if loaded and (opened := loaded[1]):
            try:
                names = [name for name in _SECTIONS if name in opened.names]
                return {name: bytes(opened.section(name)).decode("utf-8", "replace") for name in names}
            except EnvelopeError:
                continue
    return {}
