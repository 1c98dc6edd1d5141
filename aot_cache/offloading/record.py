"""A problem as plain values, so that an entry's schedule can be checked without its graphs. Pure: no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import IllegalSchedule
from .problem import Problem, Step, Storage

_FIELDS = "name bytes kind produced last_forward first_backward last_backward eligible refused must prefer".split()


def plain(problem: Problem) -> dict[str, Any]:
    """For JSON."""
    return {
        "forward": [[step.name, step.seconds] for step in problem.forward],
        "backward": [[step.name, step.seconds] for step in problem.backward],
        "storages": [[*(getattr(s, name) for name in _FIELDS), list(s.replay)] for s in problem.storages],
        "digests": [problem.forward_digest, problem.backward_digest],
    }


def problem(found: Mapping[str, Any]) -> Problem:
    """What `plain` was given.

    Raises:
        IllegalSchedule: these are not the values of a problem.
    """
    try:
        steps = [tuple(Step(str(name), float(cost)) for name, cost in found[half]) for half in ("forward", "backward")]
        storages = tuple(Storage(*row[:-1], replay=tuple(row[-1])) for row in found["storages"])
        forward, backward = map(str, found["digests"])
        return Problem(steps[0], steps[1], storages, forward, backward)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise IllegalSchedule([f"the record of its graphs cannot be read: {error!r}"]) from None
