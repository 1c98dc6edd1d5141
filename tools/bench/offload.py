"""offload: plans for 40% of the peak: a model of GPT, and torch's own graphs of it; the simulation against threads."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import report

BRUTE = Path(__file__).resolve().parents[2] / "tests" / "offloading" / "brute.py"
RATES, WIDTHS = (25, 50, 100), [1024, 2048, 4096]
FAST = 50  # from here on the design has its targets
SHARE, INFLIGHT, FAR = 0.4, 512 << 20, 1 << 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=24, metavar="N", help="blocks of the stack (default: 24)")
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="layers between two candidates (default: 1)")
    parser.add_argument("--cases", type=int, default=5, metavar="N", help="brute-force cases (default: 5)")
    parser.add_argument("--storages", type=int, default=14, metavar="N", help="storages of each (default: 14)")
    parser.add_argument("--blocks", type=int, default=4, metavar="N", help="blocks that torch cuts (default: 4)")
    parser.add_argument(
        "--widths", type=int, nargs="+", default=WIDTHS, metavar="N", help=f"of these (default: {WIDTHS})"
    )


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tables as Markdown, and every single measurement."""
    steps = _steps(arguments.layers, arguments.stride)
    real = [found for width in arguments.widths for found in _real(arguments.blocks, width)]
    gaps = _gaps(arguments.cases, arguments.storages)
    threads = _threads(arguments.cases)
    nodes, checks = _checks()
    rates = [f"{rate} GB/s" for rate in RATES]
    model = report.table(
        ["added step time at 40% of the peak, model", *rates],
        [[name, *(_percent(step) for step in found)] for name, found in steps.items()],
    )
    graphs = report.table(
        [f"the same, torch's graphs of {arguments.blocks} blocks", *rates],
        [row for width in arguments.widths for row in _rows([found for found in real if found["width"] == width])],
    )
    planned = [found for found in real if found["share"] == SHARE and found["rate"] >= FAST]
    rows = [
        ["share of the saved activations' bytes that may move, least", f"{min(f['eligible'] for f in real):.2%}"],
        [
            f"from {FAST} GB/s on: what a plan keeps of the forward's saving, least",
            _percent(min((f["kept"] for f in planned), default=None), ""),
        ],
        [
            "the same, of what the link can have carried by then, least",
            _percent(min((f["kept"] / f["carried"] for f in planned), default=None), ""),
        ],
        [
            "the same: backward's peak over that without prefetch, of the bound, most",
            _percent(max((f["ahead"] for f in planned), default=None), ""),
        ],
        [f"a step in threads over its simulation, most of {len(threads)}", f"{max(map(abs, threads)):.2%}"],
        [f"gap to the best of all sets of {arguments.storages} storages, mean", f"{statistics.mean(gaps):.2%}"],
        [f"the same, largest of {len(gaps)}", f"{max(gaps):.2%}"],
        [f"parse and check of {nodes} nodes, ms of the CPU", report.spread(checks)],
    ]
    raw = {"added": steps, "real": real, "gaps": gaps, "threads": threads, "nodes": nodes, "check_ms": checks}
    return "\n\n".join([model, graphs, report.table(["offload", ""], rows)]), raw


def _rows(real: list[dict[str, Any]]) -> list[list[str]]:
    """Of one width: what was planned, and what no plan could be under."""
    share = real[0]["share"]
    told = "" if share == SHARE else f", {share:.1%} of the peak: less cannot be met"
    return [
        [f"width {real[0]['width']}{told}", *(_percent(found["added"]) for found in real)],
        ["no plan could be under", *(_percent(found["least"]) for found in real)],
    ]


def _percent(value: float | None, sign: str = "+") -> str:
    return "-" if value is None else f"{sign}{value:.1%}"


def _real(blocks: int, width: int) -> list[dict[str, Any]]:
    """One result a rate, of graphs of a stack of that width; shares, the budget's of the peak among them: SHARE, or the
    smallest that can be met.
    """
    import offload_real

    from aot_cache.offloading.bound import compute, shortest

    candidates = offload_real.candidates(blocks, width)
    base, found = candidates[0][1], []
    for rate in RATES:
        link = offload_real.link(rate)
        share, planned = offload_real.within(candidates, link, SHARE)
        schedule = planned.schedule
        kept, ahead = offload_real.kept(planned.problem, schedule)
        least = min(shortest(problem, link, schedule.budget.near) for _, problem in candidates)
        one = {"width": width, "rate": rate, "share": share, "eligible": offload_real.eligible(base)}
        one |= {"added": schedule.predict.step / compute(base) - 1, "least": least / compute(base) - 1}
        carried = offload_real.carried(planned.problem, schedule)
        found.append(one | {"kept": kept, "carried": carried, "ahead": ahead, "recompute": schedule.recompute})
    return found


# A step of `brute.stack` takes half a minute; in threads it is this much faster.
FASTER = 8


def _threads(cases: int) -> list[float]:
    """How much longer a planned step takes in threads, on a throttled link, than by its simulation; by case."""
    import offload_link

    from aot_cache.offloading.planner import plan
    from aot_cache.offloading.schedule import Link

    found = []
    for seed in range(cases):
        problem, link, budget = _brute().stack(seed, 12)
        halves = {
            half: tuple(replace(step, seconds=step.seconds / FASTER) for step in getattr(problem, half))
            for half in ("forward", "backward")
        }
        problem, link = replace(problem, **halves), Link(link.d2h * FASTER, link.h2d * FASTER, 1, 1e-3)
        schedule = plan([(1.0, problem)], link, budget, "unit").schedule
        # Other work on the machine can only make a step longer.
        seconds = min(offload_link.step(problem, schedule) for _ in range(2))
        found.append(seconds / schedule.predict.step - 1)
    return found


def _steps(layers: int, stride: int) -> dict[str, list[float | None]]:
    """The added share of the step time by variant, for each rate; None where the budget cannot be met."""
    import offload_gpt

    from aot_cache.offloading.bound import compute
    from aot_cache.offloading.place import unmoved
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
        seconds["no mix of the two could be under"] = offload_gpt.shortest(layers, link, near)
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
        planned = plan([(1.0, problem)], link, budget, "unit").simulation.prediction.step
        found.append(planned / brute.best_subset(problem, link, budget) - 1)
    return found


def _brute() -> Any:
    """The brute force of the tests."""
    import offload_real

    return offload_real.by_path(BRUTE)


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
