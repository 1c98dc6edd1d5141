"""Whether a schedule may be carried out on two graphs: it loses no byte, and keeps its bounds. Pure: no torch."""

from __future__ import annotations

from collections import Counter

from ..errors import IllegalSchedule
from ..units import exact_size
from .problem import Problem, Storage
from .schedule import Budget, Link, Prediction, Row, Schedule
from .simulate import Simulation, simulate


def verify(schedule: Schedule, problem: Problem, link: Link | None = None) -> Prediction:
    """What a step will be like over `link`, or over the link that the schedule was planned for, as a record tells it.

    Raises:
        IllegalSchedule: names each fault; also where the recorded peaks and bytes are not those of these graphs.
    """
    done = None
    faults = _faults(schedule, problem)
    if not faults:
        done = simulate(problem, schedule.rows, link or schedule.link)
        faults = bound_faults(schedule.rows, problem, schedule.budget, done)
    if faults or done is None:
        raise IllegalSchedule(faults)
    found, told = done.prediction.told, schedule.predict
    for name in ("peak_forward", "peak_backward", "moved"):
        if getattr(found, name) != getattr(told, name):
            there = exact_size(getattr(found, name))
            faults.append(f"the record tells {name}={exact_size(getattr(told, name))}, and it is {there}")
    if faults:
        raise IllegalSchedule(faults)
    return found


def check(schedule: Schedule, problem: Problem) -> list[str]:
    """What makes `schedule` illegal for `problem`, one text a fault; none if it is legal."""
    faults = _faults(schedule, problem)
    if faults:
        return faults
    return bound_faults(schedule.rows, problem, schedule.budget, simulate(problem, schedule.rows, schedule.link))


def _faults(schedule: Schedule, problem: Problem) -> list[str]:
    """What is wrong with each row for itself, and with the schedule as a whole but for its bounds."""
    graphs = (problem.forward_digest, problem.backward_digest)
    if (schedule.forward, schedule.backward) != graphs:
        told = f"forward {schedule.forward} and backward {schedule.backward}"
        return [f"it was made for other graphs: {told}, not {graphs[0]} and {graphs[1]}"]
    faults = []
    saved = sum(storage.saved for storage in problem.storages)
    if schedule.tensors != saved:
        faults.append(f"it was made for {schedule.tensors} saved storages, and there are {saved}")
    names = Counter(row.storage for row in schedule.rows)
    faults += [f"{name} has {count} rows" for name, count in names.items() if count > 1]
    for row in schedule.rows:
        faults += row_faults(row, problem)
    faults += [f"{s.name} must be offloaded, and has no row" for s in problem.storages if s.must and not names[s.name]]
    return faults


def row_faults(row: Row, problem: Problem) -> list[str]:
    """What is wrong with one row for itself."""
    storage = problem.by_name.get(row.storage)
    if storage is None:
        return [f"{row.storage} is no storage of these graphs"]
    if row.kind != "act":
        return [f"{row.storage} is a row of kind {row.kind}, and only act can be checked"]
    faults = [f"{row.storage} may not be moved: {reason}" for reason in [immovable(storage)] if reason]
    for what, mine, theirs in (
        ("bytes", exact_size(row.bytes), exact_size(storage.bytes)),
        ("kind", row.kind, storage.kind),
        ("replay", ",".join(row.replay), ",".join(storage.replay)),
    ):
        if mine != theirs:
            faults.append(f"{row.storage} has {what} {theirs!r}, and its row says {mine!r}")
    return faults + _order_faults(row, storage, problem)


def immovable(storage: Storage) -> str:
    """Why a storage may not be moved, whatever the user wants; "" if it may."""
    if storage.eligible and storage.saved and storage.produced >= 0 and storage.first_backward >= 0:
        return ""
    return storage.refused or "it is not saved by the forward for the backward"


def _order_faults(row: Row, storage: Storage, problem: Problem) -> list[str]:
    steps = []
    for column, name, index in (
        ("out-after", row.out_after, problem.forward_index),
        ("free-at", row.free_at, problem.forward_index),
        ("in-before", row.in_before, problem.backward_index),
        ("need-at", row.need_at, problem.backward_index),
    ):
        if name is None or name not in index:
            return [f"{row.storage}: {column} is {name or '-'}, which is no step of that half"]
        steps.append(index[name])
    out, free, enter, need = steps
    used, wanted = problem.forward[storage.free_from].name, problem.backward[storage.first_backward].name
    faults = []
    if out < storage.free_from:
        faults.append(f"{row.storage} goes out after {row.out_after}, before its last use in the forward at {used}")
    if free <= out:
        faults.append(f"{row.storage} is freed at {row.free_at}, before it goes out after {row.out_after}")
    if enter > need:
        faults.append(f"{row.storage} comes in before {row.in_before}, and is waited for at {row.need_at} already")
    if need > storage.first_backward:
        faults.append(f"{row.storage} is waited for at {row.need_at}, and {wanted} reads it before that")
    return faults


def bound_faults(rows: tuple[Row, ...], problem: Problem, budget: Budget, done: Simulation) -> list[str]:
    """The bounds of `budget` that `rows`, each legal for itself, pass; `done` is their simulation."""
    faults = []
    far = sum(row.bytes for row in rows)
    if far > budget.far:
        faults.append(f"the far tier takes {exact_size(budget.far)}, and the rows have {exact_size(far)}")
    for steps, half in ((problem.forward, done.forward), (problem.backward, done.backward)):
        for what, found, bound in (
            ("on their way", half.inflight, budget.inflight),
            ("near", half.near, budget.near),
        ):
            most = max(found, default=0)
            if most > bound:
                where = steps[found.index(most)].name
                faults.append(f"{exact_size(most)} are {what} at {where}, and {exact_size(bound)} are allowed")
    return faults
