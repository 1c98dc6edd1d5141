"""The offload plan of a stored graph, as its record with a timeline, or as a drawing, for `aot-cache inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import OffloadError
from ..offloading import draw, legality, record
from ..offloading.problem import Problem
from ..offloading.schedule import Schedule, parse
from ..units import size

# What an entry's manifest says of its plan; the other verbs and flags show a summary in their place.
SCHEDULE, PROBLEM = "schedule", "problem"


@dataclass(frozen=True)
class Planned:
    """A plan that may be carried out on the graphs that its entry describes."""

    schedule: Schedule
    problem: Problem
    record: str

    @property
    def timeline(self) -> str:
        return draw.text(self.schedule, self.problem)

    @property
    def text(self) -> str:
        """The record, then the timeline as comments: the whole text is again a plan."""
        lines = (f"# {line}".rstrip() for line in self.timeline.splitlines())
        return "\n".join([self.record.rstrip("\n"), "", *lines])

    @property
    def svg(self) -> str:
        return draw.svg(self.schedule, self.problem)

    def to_json(self) -> dict[str, Any]:
        """Bytes and seconds of a step by the plan, its record and its timeline."""
        told = self.schedule.predict
        return {
            "record": self.record,
            "timeline": self.timeline,
            "moved": told.moved,
            "peak_forward": told.peak_forward,
            "peak_backward": told.peak_backward,
            "step": told.step,
            "stall": told.stall,
            "refused": self.problem.refused_bytes,
        }


def read(extra: Mapping[str, Any]) -> Planned | None:
    """The plan of an entry with this `extra` in its manifest; None if it has none.

    Raises:
        OffloadError: it cannot be read, or is not legal for the graphs that the entry describes.
    """
    if SCHEDULE not in extra:
        return None
    text = str(extra[SCHEDULE])
    schedule, problem = parse(text), record.problem(extra.get(PROBLEM, {}))
    legality.verify(schedule, problem)
    return Planned(schedule, problem, text)


def summary(extra: Mapping[str, Any]) -> str:
    """One line on the plan."""
    try:
        planned = read(extra)
    except OffloadError as error:
        return str(error)
    if planned is None:
        return "none"
    rows, schedule = planned.schedule.rows, planned.schedule
    moved = size(sum(row.bytes for row in rows))
    return f"{len(rows)} of {schedule.tensors} saved storages move, {moved} each way (--schedule shows the plan)"
