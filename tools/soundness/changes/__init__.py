"""The table, by what is changed. Programs use calls of libraries where they can: those compile without a C++ compiler."""

from __future__ import annotations

from collections import Counter

from table import Change

from . import ambient, behind, callables, edits, graphs, habits, inputs, neutral, operators, passes, patched, settings
from . import libraries, reads, shapes, surroundings, training, values

TABLE: list[Change] = [
    *graphs.CHANGES,
    *operators.CHANGES,
    *callables.CHANGES,
    *behind.CHANGES,
    *inputs.CHANGES,
    *ambient.CHANGES,
    *settings.CHANGES,
    *surroundings.CHANGES,
    *edits.CHANGES,
    *training.CHANGES,
    *values.CHANGES,
    *passes.CHANGES,
    *shapes.CHANGES,
    *patched.CHANGES,
    *habits.CHANGES,
    *reads.CHANGES,
    *libraries.CHANGES,
    *neutral.CHANGES,
    *operators.LAST,
]
assert max(Counter(change.name for change in TABLE).values()) == 1, "two changes have one name"
