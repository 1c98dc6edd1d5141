"""Offloading on a GPU against no offload, and warm in a fresh process: `python3 tools/gpu_offload.py`, no arguments.

Runs on the Python that starts it (torch 2.11 or later, with the GPU's build, and diskcache, filelock, platformdirs) and
on this checkout; needs no network and a few minutes. Prints one table; exit code 1 if something is not as it should be,
2 if there is no GPU. `--device cpu` goes through the same on the CPU, small, with a far tier on disk: a test of this
program and no measurement.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child

ROOT = Path(__file__).resolve().parent.parent
# Blocks, width, batch, length of a stack of GPT blocks in float32; steps that are timed.
SIZES = {"gpu": (6, 1024, 8, 1024, 10), "cpu": (2, 128, 16, 256, 2)}
SHARE, BOUND = 0.6, 4
"""The budget as a share of the peak without offload, and what may be on its way, as a part of the budget."""

COUNTS = ("graph_hit", "graph_miss", "graph_bypass")
# What is freed on the CPU goes back to the system, else its resident set would not fall.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="cpu: a small rehearsal without a GPU")
    parser.add_argument("--child", nargs=2, metavar=("MODE", "BUDGET"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(train(arguments.device, arguments.child[0], int(arguments.child[1]))))
        return 0
    if problem := _unfit(arguments.device):
        print(f"gpu_offload: {problem}", file=sys.stderr)
        return 2
    home = Path(tempfile.mkdtemp(prefix="aot_cache-gpu-"))
    try:
        return compare(arguments.device, home)
    except child.ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _unfit(device: str) -> str:
    """Why this Python and this machine cannot run it; "" if they can."""
    try:
        import diskcache  # noqa: F401
        import filelock  # noqa: F401
        import platformdirs  # noqa: F401
        import torch
    except ImportError as error:
        return f"this Python ({sys.executable}) lacks {error.name}: start the program with one that has it"
    version = tuple(int(number) for number in torch.__version__.split(".")[:2])
    if version < (2, 11):
        return f"torch 2.11 or later is needed, this is {torch.__version__}"
    if device == "gpu" and not torch.accelerator.is_available():
        return f"there is no GPU that torch {torch.__version__} can use (--device cpu rehearses without one)"
    return ""


def compare(device: str, home: Path) -> int:
    """Run the three processes, print the table and what is wrong; the exit code."""
    argv = [sys.executable, __file__, "--device", device, "--child"]

    # Each its own directory for Inductor, so that only our cache can be warm; deterministic sums in cuBLAS.
    def start(mode: str, budget: int, label: str) -> dict[str, Any]:
        more = {"PYTHONPATH": str(ROOT), "CUBLAS_WORKSPACE_CONFIG": ":4096:8", **MALLOC}
        environment = child.environment(home, **more)
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(home / f"inductor-{label.partition(' ')[0]}")
        return child.run_json([*argv, mode, str(budget)], label, environment)

    plain = start("plain", 1 << 50, "plain, compiled without offload")
    budget = int(SHARE * plain["planned_peak"])
    cold = start("offload", budget, "cold, with offload")
    warm = start("offload", budget, "warm, with offload, in a fresh process")
    print(table(plain, cold, warm, budget))
    wrong = complaints(plain, cold, warm, budget)
    for complaint in wrong:
        print(f"NOT AS IT SHOULD BE: {complaint}")
    return 1 if wrong else 0


def table(plain: dict[str, Any], cold: dict[str, Any], warm: dict[str, Any], budget: int) -> str:
    runs = (plain, cold, warm)
    shown: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("seconds to the end of the first step", lambda run: f"{run['first']:.1f}"),
        ("ms a step, median", lambda run: f"{1e3 * statistics.median(run['steps']):.1f}"),
        ("MB out, MB in, a step", lambda run: f"{run['out'] / 1e6:.0f}, {run['back'] / 1e6:.0f}"),
        ("MB planned each way", lambda run: f"{run['planned'] / 1e6:.0f}"),
        ("MB at the peak by plan, budget " + f"{budget / 1e6:.0f}", lambda run: f"{run['planned_peak'] / 1e6:.0f}"),
        ("MB above what was there, by plan", lambda run: f"{run['planned_above'] / 1e6:.0f}"),
        ("the same, measured", lambda run: f"{run['peak'] / 1e6:.0f}"),
        ("graphs lowered", lambda run: str(run["lowered"])),
        ("hits, misses, bypasses", lambda run: ", ".join(str(run["stats"][name]) for name in COUNTS)),
        ("output and gradients", lambda run: "bit-equal" if run["digest"] == plain["digest"] else "DIFFERENT"),
    ]  # fmt: skip
    rows = [("", "no offload", "offload, cold", "offload, warm"), *((n, *map(of, runs)) for n, of in shown)]
    head = f"{plain['device']}, torch {plain['torch']}; share of the peak without offload: {SHARE:.0%}"
    return "\n".join([head, *(f"{name:<42}{a:>16}{b:>16}{c:>16}" for name, a, b, c in rows)])


def complaints(plain: dict[str, Any], cold: dict[str, Any], warm: dict[str, Any], budget: int) -> list[str]:
    """What is not as it should be, one text each."""
    found = []
    if not plain["repeats"]:
        found.append("without offload two steps give different numbers: nothing can be said of equality")
    for name, run in (("cold", cold), ("warm", warm)):
        if run["digest"] != plain["digest"]:
            found.append(f"{name}: output or gradients are not those without offload")
        if not run["planned"] or run["out"] != run["planned"] or run["back"] != run["planned"]:
            found.append(f"{name}: {run['planned']} bytes were planned, {run['out']} went out, {run['back']} came back")
        if run["planned_peak"] > budget:
            found.append(f"{name}: the plan's peak is above the budget of {budget} bytes")
        if run["stats"]["error"] or run["stats"]["graph_bypass"]:
            found.append(f"{name}: {run['stats']}, {run['reasons']}")
        saved, planned = plain["peak"] - run["peak"], plain["planned_above"] - run["planned_above"]
        if saved < 0.9 * planned:
            found.append(f"{name}: the peak fell by {saved} bytes, and by the plan it should by {planned}")
    if cold["sources"] != ["planned"] or not cold["lowered"]:
        found.append(f"the cold start did not plan and compile: {cold['sources']}, {cold['lowered']} graphs lowered")
    if warm["sources"] != ["cache"] or warm["lowered"] or not warm["stats"]["graph_hit"]:
        found.append(f"the warm start was not warm: {warm['sources']}, {warm['lowered']} graphs lowered")
    return found


def train(device: str, mode: str, budget: int) -> dict[str, Any]:
    """In the child: some steps; plain only plans, for the predictions, and compiles as ever."""
    sys.path.remove(str(Path(__file__).resolve().parent))
    sys.path.append(str(ROOT / "tests" / "offloading"))
    import stack
    import torch

    import aot_cache

    torch.set_num_threads(1 if device == "cpu" else torch.get_num_threads())
    torch.use_deterministic_algorithms(True, warn_only=True)
    where = torch.accelerator.current_accelerator() if device == "gpu" else torch.device("cpu")
    settle = torch.accelerator.synchronize if device == "gpu" else lambda: None
    blocks, width, batch, length, count = SIZES[device]
    stack.HEAD = 64
    model = stack.stack(blocks, width).to(where)
    x = torch.randn(batch, length, width).to(where).requires_grad_()
    aot_cache.enable()
    started = time.perf_counter()
    with aot_cache.offload(budget, inflight=budget // BOUND, dry_run=mode == "plain") as block:
        compiled = torch.compile(model)
        first = _digest(stack.step(compiled, model, x))
    settle()
    seconds = [time.perf_counter() - started]
    repeats = first == _digest(stack.step(compiled, model, x))
    for _ in range(count):
        settle()
        begun = time.perf_counter()
        stack.step(compiled, model, x)
        settle()
        seconds.append(time.perf_counter() - begun)
    for tensor in (x, *model.parameters()):
        tensor.grad = None
    with block.step():
        compiled(x).sum().backward()
        settle()
    found = {"digest": first, "repeats": repeats, "first": seconds[0], "steps": seconds[1:]}
    return found | _told(block, where)


def _told(block: Any, where: Any) -> dict[str, Any]:
    """What the block planned and measured, and what the cache and the compiler did."""
    import torch
    from torch._dynamo.utils import compilation_time_metrics

    import aot_cache
    from aot_cache.offloading import report

    (plan,) = block.plans
    told, taken = plan.schedule.predict, block.measured
    return {
        "out": taken.out,
        "back": taken.back,
        "peak": taken.peak,
        "planned": sum(row.bytes for row in plan.schedule.rows),
        "planned_peak": max(told.peak_forward, told.peak_backward),
        "planned_above": report.above(plan),
        "sources": [plan.source],
        "lowered": len(compilation_time_metrics.get("GraphLowering.run", ())),
        "stats": aot_cache.stats(),
        "reasons": sorted({str(event) for event in aot_cache.events() if hasattr(event, "reason")}),
        "device": torch.cuda.get_device_name() if where.type == "cuda" else str(where),
        "torch": torch.__version__,
    }


def _digest(tensors: list[Any]) -> str:
    import hashlib

    parts = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        parts.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return parts.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
