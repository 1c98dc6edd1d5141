"""Trains a stack under Inductor and prints JSON: `offload_memory.py none|disk|kept`.

none: as ever. disk: within BUDGET. kept: the same graphs, with a tier that moves nothing.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from programs import count_code_generation, digest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "offloading"))

import stack  # noqa: E402
from tiers import KeepingTier  # noqa: E402

import aot_cache  # noqa: E402
from aot_cache.offloading import operators, report  # noqa: E402
from aot_cache.offloading.transfer import Transfer  # noqa: E402

BUDGET, LINK = "180MB", (2e9, 2e9)


def memory(field: str) -> int:
    """VmRSS or VmHWM, in bytes."""
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def forget(x: torch.Tensor, model: torch.nn.Module) -> None:
    for tensor in (x, *model.parameters()):
        tensor.grad = None
    gc.collect()


def peak_of_a_step(compiled: Any, model: torch.nn.Module, x: torch.Tensor) -> tuple[int, int]:
    """Bytes above what there was before it: between forward and backward, and at the most."""
    forget(x, model)
    base = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    output = compiled(x)
    between = memory("VmRSS") - base
    loss = output.sum()
    del output  # it is the caller's, and no graph's
    loss.backward()
    return between, memory("VmHWM") - base


def seconds(compiled: Any, model: torch.nn.Module, x: torch.Tensor) -> float:
    started = time.perf_counter()
    stack.step(compiled, model, x)
    return time.perf_counter() - started


def main(mode: str) -> None:
    torch.set_num_threads(1)
    aot_cache.enable()
    generated = count_code_generation()
    model, x = stack.stack(2, 128), torch.randn(32, 512, 128, requires_grad=True)
    started = time.perf_counter()
    with aot_cache.offload(BUDGET, link=LINK) if mode != "none" else nullcontext() as block:
        compiled = torch.compile(model)
        stack.step(compiled, model, x)
    found: dict[str, Any] = {"first": time.perf_counter() - started}
    kept = Transfer(KeepingTier(), 1 << 40)
    if mode == "kept":
        operators.use("cpu", kept)
    stack.step(compiled, model, x)
    forget(x, model)
    assert kept.live == 0  # what the last step moved is given back
    found["between"], found["peak"] = peak_of_a_step(compiled, model, x)
    forget(x, model)
    found["step"] = min(seconds(compiled, model, x) for _ in range(3))
    if block is not None:
        (plan,) = block.plans
        found["planned"] = sum(row.bytes for row in plan.schedule.rows)
        found["above"], found["above without"] = report.above(plan), report.above(plan, with_plan=False)
        forget(x, model)
        with block.step():
            stack.step(compiled, model, x)
        measured = block.measured
        found |= {"out": measured.out, "in": measured.back, "said": block.report()}
    found["values"] = digest(stack.step(compiled, model, x))
    print(json.dumps({**found, "generated": generated(), **aot_cache.stats()}))


if __name__ == "__main__":
    main(sys.argv[1])
