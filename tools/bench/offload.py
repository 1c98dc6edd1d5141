"""offload: schedules by simulation: step time at 40% of the activations' peak, gap to the best, time of the check."""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import report

BRUTE = Path(__file__).resolve().parents[2] / "tests" / "offloading" / "brute.py"
RATES = (25, 50, 100)
SHARE, INFLIGHT, FAR = 0.4, 512 << 20, 1 << 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=24, metavar="N", help="blocks of the stack (default: 24)")
    parser.add_argument("--stride", type=int, default=3, metavar="N", help="layers between two candidates (default: 3)")
    parser.add_argument("--cases", type=int, default=5, metavar="N", help="brute-force cases (default: 5)")
    parser.add_argument("--storages", type=int, default=14, metavar="N", help="storages of each (default: 14)")


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tables as Markdown, and every single measurement."""
    steps = _steps(arguments.layers, arguments.stride)
    gaps = _gaps(arguments.cases, arguments.storages)
    nodes, checks = _checks()
    header = ["added step time at 40% of the peak", *(f"{rate} GB/s" for rate in RATES)]
    table = report.table(header, [[name, *(_percent(step) for step in found)] for name, found in steps.items()])
    rows = [
        [f"gap to the best of all sets of {arguments.storages} storages, mean", f"{statistics.mean(gaps):.2%}"],
        [f"the same, largest of {len(gaps)}", f"{max(gaps):.2%}"],
        [f"parse and check of {nodes} nodes, ms of the CPU", report.spread(checks)],
    ]
    raw = {"added": steps, "gaps": gaps, "nodes": nodes, "check_ms": checks}
    return table + "\n\n" + report.table(["offload", ""], rows), raw


def _percent(value: float | None) -> str:
    return "-" if value is None else f"+{value:.1%}"


def _steps(layers: int, stride: int) -> dict[str, list[float | None]]:
    """The added share of the step time by variant, for each rate; None where the budget cannot be met."""
    import offload_gpt

    from aot_cache.offloading.place import unmoved
    from aot_cache.offloading.planner import compute
    from aot_cache.offloading.schedule import Budget, Link

    candidates = offload_gpt.sweep(layers, stride)
    base = candidates[0][1]
    near = int(SHARE * max(map(max, unmoved(base))))
    budget = Budget(near, FAR, INFLIGHT)
    fitting = [problem for _, problem in offload_gpt.sweep(layers, 1) if max(map(max, unmoved(problem))) <= near]
    found: dict[str, list[float | None]] = {}
    for rate in RATES:
        link = Link(rate * 1e9, rate * 1e9, 1, 1e-5)
        seconds: dict[str, float | None] = {"recompute and offload, as planned": _planned(candidates, link, budget)}
        seconds["recompute alone"] = min(map(compute, fitting))
        for name, order in ORDERS.items():
            seconds[f"offload alone, {name}"] = _until_it_fits(base, order, link, budget)
        seconds["offload everything"] = _everything(base, link, budget)
        for name, step in seconds.items():
            found.setdefault(name, []).append(step and step / compute(base) - 1)
    return found


def _planned(candidates: Any, link: Any, budget: Any) -> float:
    import offload_gpt

    from aot_cache.offloading.planner import plan

    return plan(candidates, link, budget, offload_gpt.TABLE).schedule.predict.step


ORDERS: dict[str, Callable[[Any, dict[str, float]], Any]] = {
    "longest slack first": lambda storage, slack: (-slack[storage.name], storage.name),
    "largest first": lambda storage, slack: (-storage.bytes, storage.name),
}


def _until_it_fits(problem: Any, order: Callable[..., Any], link: Any, budget: Any) -> float | None:
    """Seconds of a step if storages are moved in `order` until the peak fits."""
    from aot_cache.offloading.choose import Chooser, slacks

    chooser, slack = Chooser(problem, link, budget), slacks(problem)
    ranked = sorted(chooser.order, key=lambda storage: order(storage, slack))
    for count in range(len(ranked) + 1):
        choice = chooser.choice(ranked[:count])
        if choice:
            return choice.cost[0]
    return None


def _everything(problem: Any, link: Any, budget: Any) -> float | None:
    from aot_cache.offloading.choose import Chooser

    chooser = Chooser(problem, link, budget)
    choice = chooser.choice(chooser.order)
    return choice and choice.cost[0]


def _gaps(cases: int, storages: int) -> list[float]:
    """How much longer a planned step is than the best over every set of storages, by case."""
    from aot_cache.offloading.planner import plan

    brute, found = _brute(), []
    for seed in range(cases):
        problem, link, budget = brute.stack(seed, storages)
        planned = plan([(1.0, problem)], link, budget, "unit").schedule.predict.step
        found.append(planned / brute.best_subset(problem, link, budget) - 1)
    return found


def _brute() -> ModuleType:
    """The brute force of the tests. By path: its package has this file's name."""
    spec = importlib.util.spec_from_file_location("brute", BRUTE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _checks() -> tuple[int, list[float]]:
    """The nodes of two graphs, and milliseconds of the CPU for reading and checking a schedule, again and again."""
    import offload_gpt

    from aot_cache.offloading.legality import verify
    from aot_cache.offloading.place import unmoved
    from aot_cache.offloading.planner import plan
    from aot_cache.offloading.schedule import Budget, Link, parse, render

    problem = offload_gpt.gpt([0] * 50)
    budget = Budget(int(SHARE * max(map(max, unmoved(problem)))), FAR, INFLIGHT)
    schedule = plan([(1.0, problem)], Link(100e9, 100e9), budget, offload_gpt.TABLE).schedule
    text, found = render(schedule), []
    for _ in range(20):
        started = time.process_time()
        assert verify(parse(text), problem) == schedule.predict
        found.append(1e3 * (time.process_time() - started))
    return len(problem.forward) + len(problem.backward), found
