"""Runs a model whose weights were offloaded, and prints JSON: `serve_disk.py disk|kept SEED`.

disk: under Inductor, with the weights in a file. kept: in eager code, with a tier that moves nothing.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hook")]

import programs
from tiers import KeepingTier

import aot_cache
from aot_cache.offloading import weights

LAYERS, WIDTH = 12, 1024
BUDGET = 3 * WIDTH * WIDTH * 4


def memory(field: str) -> int:
    """VmRSS or VmHWM, in bytes."""
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def model(layers: int) -> nn.Sequential:
    made = [layer for _ in range(layers) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*made).requires_grad_(False)


def main(mode: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    generated = programs.count_code_generation()
    if mode == "kept":
        weights.DiskTier = lambda *_: KeepingTier()  # type: ignore[assignment,misc]
    else:
        aot_cache.enable()
    far = f"disk:{tempfile.gettempdir()}"
    x = torch.ones(4, WIDTH)
    small = model(1)
    aot_cache.offload_weights(small, BUDGET, far)
    small(x)  # what the first use of everything costs is no weight
    torch.manual_seed(seed)
    big = model(LAYERS)
    expected = big(x)
    before = memory("VmRSS")
    residence = aot_cache.offload_weights(big, BUDGET, far)
    after = memory("VmRSS")
    run = torch.compile(big, fullgraph=True) if mode == "disk" else big
    run(x)  # learns the order, and begins nothing ahead
    assert residence.near == 0
    base = memory("VmRSS")
    run(x)  # begins what the next one needs
    tier: Any = residence.transfer.tier

    def finish() -> None:
        """What was begun ahead is counted where it ends: in order, on one thread."""
        if mode == "disk":
            tier._reader.submit(int).result()

    finish()
    read, moved, wasted = tier.read, residence.moved_in, residence.wasted
    Path("/proc/self/clear_refs").write_text("5")
    values = run(x)
    peak = memory("VmHWM")
    finish()
    return {
        "values": programs.digest(values),
        "equal": torch.equal(values, expected),
        "far": residence.far,
        "fallen": before - after,
        "budget": BUDGET,
        "peak": residence.peak,
        "risen": peak - base,
        "moved": residence.moved_in - moved,
        "read": tier.read - read,
        "wasted": residence.wasted - wasted,
        "generated": generated(),
        **aot_cache.stats(),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
