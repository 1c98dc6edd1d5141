"""Trains a stack under Inductor and prints JSON: `train_disk.py none|moved`.

none: no schedule. moved: by tier; disk: all activations move to a file; kept: the same code, and nothing moves.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hook")]

import programs
import stack
from tiers import KeepingTier

from aot_cache.offloading import operators
from aot_cache.offloading.tier_disk import DiskTier
from aot_cache.offloading.transfer import Transfer

INFLIGHT = 32 << 20


def memory(field: str) -> int:
    """VmRSS or VmHWM, in bytes."""
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def measured(compiled: Any, model: nn.Module, x: Tensor, tier: Any) -> dict[str, Any]:
    """What a step takes and gives with that tier, and what moves."""
    transfer = Transfer(tier, INFLIGHT)
    operators.use("cpu", transfer)
    stack.step(compiled, model, x)
    assert transfer.live == 0  # and what the first step held is given back
    before = transfer.tier.written, transfer.tier.read
    base = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    output = compiled(x)
    between = memory("VmRSS")
    output.sum().backward()
    peak = memory("VmHWM")
    values = stack.step(compiled, model, x)
    return {
        "values": programs.digest(values),
        "out": (transfer.tier.written - before[0]) // 2,
        "in": (transfer.tier.read - before[1]) // 2,
        "between": between - base,
        "peak": peak - base,
        "live": transfer.live,
    }


def main(mode: str) -> None:
    torch.set_num_threads(1)
    operators.use("cpu", Transfer(KeepingTier(), INFLIGHT))
    scheduler = stack.Scheduler(stack.everything if mode != "none" else lambda p: stack.scheduled(p, ()), 64 * 1024)
    model = stack.stack(2, 128)
    x = torch.randn(16, 512, 128, requires_grad=True)
    with scheduler.on():
        compiled = torch.compile(model)
        stack.step(compiled, model, x)
    found: dict[str, Any] = {"disk": measured(compiled, model, x, DiskTier(Path(tempfile.gettempdir()), 1 << 30))}
    if mode == "moved":
        found["kept"] = measured(compiled, model, x, KeepingTier())
    saved = [s for problem in scheduler.problems for s in problem.storages if s.saved and s.kind == "act"]
    planned = {
        "planned": scheduler.planned,
        "saved": sum(s.bytes for s in saved),
        "eligible": sum(s.bytes for s in saved if s.eligible),
    }
    print(json.dumps({tier: {**values, **planned} for tier, values in found.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
