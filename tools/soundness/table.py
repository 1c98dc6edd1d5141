"""The table's vocabulary: one change of a program or its surroundings, and what must happen. Standard library only."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


class Expect(enum.Enum):
    OTHER_KEY = "other key"
    SAME_KEY = "same key"
    BYPASS = "bypass"
    GUARD = "guard"


@dataclass(frozen=True)
class Change:
    """`before` is compiled and stored in one process, `after` runs in the next one on the same directory.

    Both are programs whose `run()` yields values. row: the first words of a row of SOUNDNESS.md, "neutral" for changes
    that must not matter. env: variables of the second process only. place: its folder, if it was moved. equal: the two
    programs compute equal values although their keys must differ. why: what a bypass must say.
    """

    name: str
    row: str
    expect: Expect
    before: str
    after: str
    env: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    equal: bool = False
    why: str = ""


def program(text: str) -> str:
    return "import torch\nfrom torch import Tensor\n" + textwrap.dedent(text)


def other(name: str, row: str, text: str, *edits: tuple[str, str], equal: bool = False) -> Change:
    """A change of the program text after which nothing stored may be used."""
    return Change(name, row, Expect.OTHER_KEY, program(text), _edited(program(text), edits), equal=equal)


def same(
    name: str, text: str, *edits: tuple[str, str], env: Mapping[str, str] | None = None, place: str = ""
) -> Change:
    """A change that does not matter: what is stored must be used."""
    after = _edited(program(text), edits)
    return Change(name, "neutral", Expect.SAME_KEY, program(text), after, env or {}, place, equal=True)


def fed(name: str, text: str, *edits: tuple[str, str]) -> Change:
    """Other data for the same graph: what is stored must be used, and must not have kept the old data."""
    return replace(same(name, text, *edits), equal=False)


def bypassed(name: str, row: str, text: str, why: str, *edits: tuple[str, str]) -> Change:
    """Something that no key covers: compiled afresh both times, with a reason that contains `why`."""
    after = _edited(program(text), edits)
    return Change(name, row, Expect.BYPASS, program(text), after, equal=not edits, why=why)


def guarded(name: str, row: str, text: str, *edits: tuple[str, str]) -> Change:
    """What is stored has the right key, and must be kept from this use by a guard."""
    return Change(name, row, Expect.GUARD, program(text), _edited(program(text), edits))


def _edited(text: str, edits: tuple[tuple[str, str], ...]) -> str:
    for old, new in edits:
        if old not in text:
            raise ValueError(f"the program has no {old!r}")
        text = text.replace(old, new)
    return text
