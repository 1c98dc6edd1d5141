"""One compiled inference whose graph needs no C++ compiler (a matrix product). Prints JSON: value, counts, reasons."""

from __future__ import annotations

import json
import sys

import torch

import aot_cache


def step() -> str:
    with torch.no_grad():
        return torch.compile(lambda a, b: a @ b)(torch.full((3, 4), 0.5), torch.full((4, 2), 3.0)).sum().item().hex()


def report(value: str) -> None:
    reasons = [f"{type(e).__name__} {e.reason.name}" for e in aot_cache.events() if type(e).__name__ != "Hit"]
    print(json.dumps({"value": value, "reasons": reasons, **aot_cache.stats()}))


if __name__ == "__main__":
    report(step())
    sys.stdout.flush()
