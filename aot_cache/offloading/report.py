"""What one block of offload planned, and what became of it, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from ..units import seconds, size
from . import far
from .place import unmoved
from .problem import START, Problem
from .session import Planned, Session
from .simulate import simulate


@dataclass
class Measured:
    """Bytes of one step: what went out and came in, and the most memory above what there was before it."""

    out: int = 0
    back: int = 0
    peak: int = 0


@contextmanager
def measured(device: str) -> Iterator[Measured]:
    """Measures the block, which should hold one forward and its backward, and not the first ones.

    On the CPU memory is the process's resident set, whose high-water mark is reset (Linux); all threads count.
    """
    found, transfer = Measured(), far.used(device)
    out, back = (transfer.moved_out, transfer.moved_in) if transfer else (0, 0)
    base = _reset(device)
    yield found
    found.peak = max(_peak(device) - base, 0)
    if transfer:
        found.out, found.back = transfer.moved_out - out, transfer.moved_in - back


def text(session: Session, one: Measured | None) -> str:
    """For people: each plan, and the measured step against the sum of them."""
    lines = [f"{len(session.plans)} graphs with a backward"]
    for number, planned in enumerate(session.plans, 1):
        lines += [f"graph {number}:", *(f"  {line}" for line in _told(planned))]
    lines += [f"failed: {error}" for error in session.failures]
    if not session.plans:
        lines.append("nothing was planned: only what is compiled inside the block is, and only if it has a backward")
    if one is not None:
        planned = sum(row.bytes for plan in session.plans for row in plan.schedule.rows)
        lines.append(f"one step, measured: {size(one.out)} out and {size(one.back)} in; planned {size(planned)} each")
        for planned_peak in [above(plan) for plan in session.plans] if len(session.plans) == 1 else []:
            lines.append(f"memory above what there was before it: {size(one.peak)}; planned {size(planned_peak)}")
    return "\n".join(lines)


def above(planned: Planned, with_plan: bool = True) -> int:
    """Bytes at the peak of a step beyond what is there before it begins, by the plan, or as if nothing moved."""
    rows = planned.schedule.rows if with_plan else ()
    done = simulate(planned.problem, rows, planned.schedule.link)
    halves = (done.forward.near, done.backward.near) if with_plan else unmoved(planned.problem)
    given = _given(planned.problem)
    pairs = zip(halves, given, strict=True)
    peaks = [total - before for half, start in pairs for total, before in zip(half, start, strict=True)]
    return max(peaks, default=0)


def _given(problem: Problem) -> tuple[list[int], list[int]]:
    """At each step the bytes of inputs and parameters that the problem counts there."""
    from dataclasses import replace

    return unmoved(replace(problem, storages=tuple(s for s in problem.storages if s.produced == START)))


def _told(planned: Planned) -> Iterator[str]:
    schedule, predict = planned.schedule, planned.schedule.predict
    without = max((max(half, default=0) for half in unmoved(planned.problem)), default=0)
    peak = max(predict.peak_forward, predict.peak_backward)
    yield f"{planned.source}; budget {size(schedule.budget.near)}, peak {size(peak)}, without offload {size(without)}"
    moved = sum(row.bytes for row in schedule.rows)
    yield f"{len(schedule.rows)} of {schedule.tensors} saved storages move, {size(moved)} each way, a step"
    yield f"a step is predicted to take {seconds(predict.step)}, of which {seconds(predict.stall)} are waiting"
    for reason, amount in planned.refused_bytes.items():
        yield f"{size(amount)} may not move: {reason}"
    yield from planned.notes


def _reset(device: str) -> int:
    if device != "cpu":
        torch.accelerator.reset_peak_memory_stats()
        return torch.accelerator.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _peak(device: str) -> int:
    return torch.accelerator.max_memory_allocated() if device != "cpu" else _resident("VmHWM")


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0
