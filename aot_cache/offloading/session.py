"""One block of `aot_cache.offload`: plans each joint graph that is compiled in it, and checks what entries bring."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BudgetTooSmall, IllegalSchedule, OffloadError
from ..torch_compat.partition import Halves, Joint
from ..units import exact_size, seconds
from . import costs, far, legality, operators, passes, record
from .cut import Candidate, candidate
from .options import KNOBS, Options, finer
from .planner import SOLVER, Plan, plan
from .problem import Problem
from .schedule import Schedule, parse, render
from .storages import ELIGIBILITY_VERSION
from .wishes import settle
from .work import WORK_VERSION

log = logging.getLogger("aot_cache")
# Raise this whenever the same schedule makes other graphs of the same graphs.
REWRITE_VERSION = 1
# A link that is so much slower than the plan's, on which a step takes so much longer, wants another plan.
SLOWER_LINK, LONGER_STEP = 4.0, 1.25


@dataclass(frozen=True)
class Planned:
    """One graph's plan. source: planned, file or cache. notes: why it is as it is, one text a reason."""

    schedule: Schedule
    problem: Problem
    notes: tuple[str, ...]
    source: str
    device: str

    @property
    def text(self) -> str:
        """The record: give it back as `plan` to have exactly this plan again."""
        return render(self.schedule)

    @property
    def refused_bytes(self) -> dict[str, int]:
        """Bytes of what is saved and may not move, by reason."""
        return self.problem.refused_bytes


class Session:
    """What `options` make of the graphs of one block; `plans` in the order in which the graphs came."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.plans: list[Planned] = []
        self.failures: list[OffloadError] = []
        self._slot: dict[str, Any] = {}

    def facts(self) -> dict[str, str]:
        """All that decides a plan but for the graph and the policy."""
        versions = {"solver": SOLVER, "eligibility": str(ELIGIBILITY_VERSION), "rewrite": str(REWRITE_VERSION)}
        counted = {"knobs": str(KNOBS), "costs": " ".join(costs.TABLES), "work": str(WORK_VERSION)}
        return {**self.options.facts(), **versions, **counted}

    def slot(self) -> dict[str, Any]:
        """A new place for what the next entry has to say of its plan; filled when its graph is cut."""
        self._slot = {}
        return self._slot

    # -- compiling -----------------------------------------------------------------------------------------------------

    def cut(self, joint: Joint) -> Halves:
        """The forward and the backward with a plan carried out.

        Raises:
            OffloadError: the budget cannot be met, a storage that must move cannot, or a given plan does not do.
        """
        slot, self._slot = self._slot, {}
        try:
            return self._cut(joint, slot)
        except OffloadError as error:
            self.failures.append(error)
            raise

    def _cut(self, joint: Joint, slot: dict[str, Any]) -> Halves:
        untouched = joint.cut(None) if self.options.dry_run and joint.repeatable else None
        musts = settle(joint.module.graph)
        fixed = self.options.schedule
        if fixed is not None:
            chosen = candidate(joint, fixed.recompute, self.options, musts)
            legality.verify(fixed, chosen.problem)
            planned = Planned(fixed, chosen.problem, (), "file", chosen.device)
        else:
            chosen, found = self._plan(joint, musts)
            notes = (*found.notes, *chosen.notes)
            planned = Planned(found.schedule, found.problem, notes, "planned", chosen.device)
        for note in chosen.notes:
            log.warning("aot_cache.offload: %s", note)
        self.plans.append(planned)
        if self.options.dry_run:
            return untouched or chosen.halves
        slot |= stored(planned)
        if not planned.schedule.rows:
            return chosen.halves
        far.use(self.options, chosen.device)
        applied = passes.apply(chosen.pair, planned.schedule)
        return applied.forward, applied.backward, applied.outputs

    def _plan(self, joint: Joint, musts: list[str]) -> tuple[Candidate, Plan]:
        """With as much recomputation as pays: less is only cut if the graph as configured waits, or does not fit."""
        first = candidate(joint, joint.knob, self.options, musts)
        link = far.link(self.options, first.device)
        tried = {first.knob: first}

        def best() -> Plan:
            ways = [(knob, one.problem) for knob, one in tried.items()]
            return plan(ways, link, self.options.budget, first.cost, self.options.at)

        knobs = [knob for knob in KNOBS if knob < joint.knob] if joint.repeatable else []
        try:
            found = best()
            if found.simulation.prediction.stall == 0 or not knobs:
                return first, found
        except BudgetTooSmall:
            if not knobs:
                raise
        self._cut_more(joint, knobs, musts, tried)
        found = best()
        close = [knob for knob in finer(found.schedule.recompute) if knob < joint.knob]
        if self._cut_more(joint, close, musts, tried):
            found = best()
        return tried[found.schedule.recompute], found

    def _cut_more(self, joint: Joint, knobs: list[float], musts: list[str], tried: dict[float, Candidate]) -> bool:
        """Adds to `tried` what else `knobs` make of the joint graph; whether they do."""
        count, first = len(tried), tried[joint.knob]
        for knob in knobs:
            other = candidate(joint, knob, self.options, musts)
            known = {(c.problem.forward_digest, c.problem.backward_digest) for c in tried.values()}
            if (other.problem.forward_digest, other.problem.backward_digest) not in known and _keeps(other, first):
                tried[knob] = other
        return len(tried) > count

    # -- the cache -----------------------------------------------------------------------------------------------------

    def check(self, kind: str, extra: Mapping[str, Any]) -> Planned | None:
        """What an entry says of its plan, found to do on this machine; None if its graph has no backward.

        Raises:
            OffloadError: it does not.
        """
        if "schedule" not in extra:
            if kind == "training":
                raise IllegalSchedule(["the entry has none"])
            return None
        if extra.get("operators") != [operators.__name__]:
            raise IllegalSchedule([f"it needs operators of {extra.get('operators')}"])
        schedule, problem = parse(extra["schedule"]), record.problem(extra.get("problem", {}))
        if schedule.budget != self.options.budget:
            raise IllegalSchedule(
                [f"it was made for a budget of {exact_size(schedule.budget.near)}, or for other bounds beside it"]
            )
        device = str(extra.get("device"))
        is_fixed = schedule.link.source != "probe" or not schedule.rows
        link = schedule.link if is_fixed else far.link(self.options, device)
        told = legality.verify(schedule, problem, link)
        slower = max(schedule.link.d2h / link.d2h, schedule.link.h2d / link.h2d)
        if slower > SLOWER_LINK and told.step > LONGER_STEP * schedule.predict.step:
            step = f"a step takes {seconds(told.step)} in place of {seconds(schedule.predict.step)}"
            raise IllegalSchedule([f"the link is {slower:.1f} times slower here, and {step}"])
        return Planned(schedule, problem, tuple(map(str, extra.get("notes", ()))), "cache", device)

    def accept(self, planned: Planned | None) -> None:
        """The entry is used."""
        if planned is not None:
            self.plans.append(planned)
            if planned.schedule.rows:
                far.use(self.options, planned.device)


def stored(planned: Planned) -> dict[str, Any]:
    """What an entry says of its plan."""
    return {
        "schedule": planned.text,
        "problem": record.plain(planned.problem),
        "notes": list(planned.notes),
        "operators": [operators.__name__],
        "device": planned.device,
    }


def _keeps(other: Candidate, first: Candidate) -> bool:
    """Whether everything that must move is still saved."""
    return sum(s.must and s.saved for s in other.problem.storages) >= sum(s.must for s in first.problem.storages)
