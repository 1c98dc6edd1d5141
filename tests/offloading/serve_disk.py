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
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hook")]

import programs
from tiers import KeepingTier

import aot_cache
from aot_cache.offloading import weights
from aot_cache.offloading.residence import Residence
from aot_cache.offloading.tier_disk import DiskTier

LAYERS, WIDTH = 12, 1024
BUDGET = 3 * WIDTH * WIDTH * 4
FAR = f"disk:{tempfile.gettempdir()}"
X = torch.ones(4, WIDTH)


def memory(field: str) -> int:
    """VmRSS or VmHWM, in bytes."""
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def model(layers: int) -> nn.Sequential:
    made = [layer for _ in range(layers) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*made).requires_grad_(False)


def offloaded(seed: int) -> tuple[nn.Module, Tensor, Residence, int]:
    """A model, what it computed before its weights were offloaded, and the bytes by which memory fell then."""
    torch.manual_seed(seed)
    big = model(LAYERS)
    expected = big(X)
    before = memory("VmRSS")
    residence = aot_cache.offload_weights(big, BUDGET, FAR)
    return big, expected, residence, before - memory("VmRSS")


def moved(residence: Residence) -> tuple[int, int, int]:
    """Bytes that the tier read and that were brought in, and transfers in vain, once what was begun ahead is done."""
    tier: Any = residence.transfer.tier
    if isinstance(tier, DiskTier):
        tier._reader.submit(int).result()  # one thread, in order
    return tier.read, residence.moved_in, residence.wasted


def served(run: Any, residence: Residence) -> dict[str, Any]:
    """What the third run gives, and what it takes."""
    run(X)  # learns the order, and begins nothing ahead
    assert residence.near == 0
    base = memory("VmRSS")
    run(X)  # begins what the next one needs
    before = moved(residence)
    Path("/proc/self/clear_refs").write_text("5")
    values = run(X)
    risen = memory("VmHWM") - base
    read, brought, wasted = (there - here for here, there in zip(before, moved(residence), strict=True))
    return {"values": values, "risen": risen, "read": read, "moved": brought, "wasted": wasted, "peak": residence.peak}


def main(mode: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    generated = programs.count_code_generation()
    if mode == "kept":
        weights.DiskTier = lambda *_: KeepingTier()  # type: ignore[assignment,misc]
    else:
        aot_cache.enable()
    small = model(1)
    aot_cache.offload_weights(small, BUDGET, FAR)
    small(X)  # what the first use of everything costs is no weight
    big, expected, residence, fallen = offloaded(seed)
    found = served(torch.compile(big, fullgraph=True) if mode == "disk" else big, residence)
    found |= {"equal": torch.equal(found["values"], expected), "values": programs.digest(found["values"])}
    found |= {"far": residence.far, "fallen": fallen, "budget": BUDGET, "generated": generated()}
    return found | aot_cache.stats()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
