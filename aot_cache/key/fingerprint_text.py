"""Fingerprints as a person reads them: which values are shown, and what is said of two that differ. Pure: no torch."""

from __future__ import annotations

import re

_SHOWN, _WORD = 60, 24
_WORDS = re.compile(r"[\s'\",()\[\]{}=]+")
_DIGEST = re.compile(r" [0-9a-f]{32}(?= |$)")


def is_short(text: str) -> bool:
    """Whether a value may stand in an entry as text: nothing long, and no long word, which could be a secret."""
    return len(text) <= _SHOWN and max(map(len, _WORDS.split(text))) <= _WORD


def change(source: str, before: str, now: str) -> str:
    """What to say of a guard on `source` that saw `before` and sees `now`."""
    (old_type, _, old), (new_type, _, new) = before.partition(" "), now.partition(" ")
    if _DIGEST.sub("", before) == _DIGEST.sub("", now):
        said = f"{_DIGEST.sub('', before)} changed"
    elif old_type == new_type and not _DIGEST.search(before + " " + now):
        said = f"{old} -> {new}"
    else:
        said = f"{before} -> {now}"
    return f"guard `{source}`: {said}"
