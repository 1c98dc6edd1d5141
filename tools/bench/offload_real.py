"""A stack of GPT blocks as torch cuts it: real graphs with several shares of the activations kept. Nothing is run."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from math import gcd
from pathlib import Path
from types import ModuleType

import torch

from aot_cache.errors import BudgetTooSmall, OffloadError
from aot_cache.offloading import costs, storages, work
from aot_cache.offloading.options import KNOBS, Options, finer
from aot_cache.offloading.place import least, unmoved
from aot_cache.offloading.planner import Plan, plan
from aot_cache.offloading.problem import Problem
from aot_cache.offloading.schedule import Link, Schedule
from aot_cache.offloading.simulate import simulate
from aot_cache.torch_compat import partition

STACK = Path(__file__).resolve().parents[2] / "tests" / "offloading" / "stack.py"
TABLE, HEAD, LENGTH, ELEMENTS = "roofline-gpu-1", 64, 1024, 1 << 15
# Last: of knobs that make the same graphs the first counts, and these are tried only next to the best of the others.
BETWEEN = sorted({close for knob in KNOBS for close in finer(knob)} - {*KNOBS})


def candidates(layers: int, width: int) -> list[tuple[float, Problem]]:
    """The problems of one stack in bfloat16, by share of the activations kept; seconds by the cost table.

    The wider, the smaller is the batch, so that an activation has the same bytes.

    The graphs are for the CPU, where attention is one operator as well; loops count as fused as on a GPU.
    """
    found: list[tuple[float, Problem]] = []
    table = costs.table(TABLE)

    def see(joint: partition.Joint) -> partition.Halves:
        for knob in (None, *KNOBS, *BETWEEN):
            pair = storages.Pair(*joint.cut(knob), fuses=True, device="cuda")
            problem = storages.analyse(pair, lambda node, fused: work.seconds(node, table, fused)).problem
            digests = {(other.forward_digest, other.backward_digest) for _, other in found}
            if (problem.forward_digest, problem.backward_digest) not in digests:
                found.append((1.0 if knob is None else knob, problem))
        raise OffloadError("this is all that was asked for")

    stack = by_path(STACK)
    stack.HEAD = HEAD
    with torch.device("meta"):
        model = stack.stack(layers, width).to(torch.bfloat16)
    model.to_empty(device="cpu")
    x = torch.empty(max(1, ELEMENTS // width), LENGTH, width, dtype=torch.bfloat16)
    torch._dynamo.reset()
    with partition.cutting(see, cached=False):
        try:
            torch.compile(model, backend="aot_eager_decomp_partition")(x)
        except OffloadError:
            return found
    raise RuntimeError("torch cut no graph")


def by_path(path: Path) -> ModuleType:
    """A module of the tests. By path: their package has the name of a file here."""
    spec = importlib.util.spec_from_file_location(f"tests_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def eligible(problem: Problem) -> float:
    """The share of the bytes that the forward makes and saves which may move."""
    saved = [storage for storage in problem.storages if storage.saved and storage.produced >= 0]
    return sum(s.bytes for s in saved if s.eligible) / sum(s.bytes for s in saved)


def kept(problem: Problem, schedule: Schedule) -> tuple[float, float]:
    """Of what a plan's moves could free at the forward's peak, the share that they do, though they are not waited for;
    and by how much the backward's peak is above that without any prefetch, as a share of what may be on its way.
    """
    chosen = [problem.by_name[row.storage] for row in schedule.rows]
    base = unmoved(problem)
    peak, best = max(base[0]), max(least(problem, chosen, base)[0])
    told = schedule.predict
    late = tuple(replace(row, in_before=row.need_at) for row in schedule.rows)
    without = simulate(problem, late, schedule.link).prediction.peak_backward
    share = (peak - told.peak_forward) / (peak - best) if peak > best else 1.0
    return share, (told.peak_backward - without) / schedule.budget.inflight


def carried(problem: Problem, schedule: Schedule) -> float:
    """Of what a plan's moves could free at the forward's peak, the share that its link can have carried by then, with
    the waiting that the plan has, in whole storages and in any order.
    """
    chosen = [problem.by_name[row.storage] for row in schedule.rows]
    base = unmoved(problem)
    unit = gcd(*(storage.bytes for storage in chosen)) or 1
    gone, sums, clock, peak = 0, 1, 0.0, 0
    begun: list[tuple[int, float]] = []  # What was done with before a step, and when that step ended.
    waits = simulate(problem, schedule.rows, schedule.link).forward.waits
    for index, (step, wait) in enumerate(zip(problem.forward, waits, strict=True)):
        clock += wait
        most = min([before + int(schedule.link.d2h * (clock - end)) for before, end in begun] or [0])
        whole = (sums & ((2 << min(most, gone) // unit) - 1)).bit_length() - 1
        peak = max(peak, base[0][index] - whole * unit)
        clock += step.seconds
        begun.append((gone, clock))
        for storage in chosen:
            if storage.free_from == index:
                gone += storage.bytes
                sums |= sums << storage.bytes // unit
    could = max(base[0]) - max(least(problem, chosen, base)[0])
    return (max(base[0]) - peak) / could if could else 1.0


def within(candidates: list[tuple[float, Problem]], link: Link, share: float) -> tuple[float, Plan]:
    """The plan for `share` of the peak of the first candidate, or for the smallest share that can be met; the share.

    As aot_cache.offload plans: half of the budget may be on its way, and next to the best knob others are tried.
    """
    peak = max(map(max, unmoved(candidates[0][1])))
    asked = Options.of(int(share * peak), None).at
    coarse = [(knob, problem) for knob, problem in candidates if knob == 1.0 or knob in KNOBS]
    try:
        budget = asked(int(share * peak))
        found = plan(coarse, link, budget, TABLE, asked)
    except BudgetTooSmall as error:
        budget, share = asked(error.smallest), error.smallest / peak
        found = plan(coarse, link, budget, TABLE, asked)
    close = finer(found.schedule.recompute)
    return share, plan([one for one in candidates if one in coarse or one[0] in close], link, budget, TABLE, asked)


def link(rate: float) -> Link:
    """rate: GB/s each way."""
    return Link(rate * 1e9, rate * 1e9, 1, 1e-5)
