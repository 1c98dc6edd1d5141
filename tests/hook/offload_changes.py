"""One small model under `aot_cache.offload` in many ways. Run as `offload_changes.py NAME...`, prints JSON for each.

Nothing but matrix products is compiled, so that no C++ compiler runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from programs import count_code_generation, digest
from torch import Tensor

import aot_cache

SIZE = 256
LINK = (1e9, 1e9)
BASE: dict[str, Any] = {"budget": "100MB", "link": LINK}
PREFERRED = "prefer"


def keep_all(storage: Any) -> str | None:
    return "never"


def move_first(storage: Any) -> str | None:
    return "must" if storage.name == "mm" else None


def move_second(storage: Any) -> str | None:
    return "must" if storage.name == "mm_1" else None


def as_a_global_says(storage: Any) -> str | None:
    return PREFERRED if storage.name == "mm" else None


def with_a_global(value: str) -> Callable[[Any], str | None]:
    global PREFERRED
    PREFERRED = value
    return as_a_global_says


def chain(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return ((x @ a) @ b) @ c


def marked(which: int, wish: str) -> Callable[..., Tensor]:
    def model(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        first = x @ a
        second = (aot_cache.mark(first, wish) if which == 1 else first) @ b
        return (aot_cache.mark(second, wish) if which == 2 else second) @ c

    return model


def fixed(text: str) -> str:
    path = Path(tempfile.mkdtemp()) / "plan"
    path.write_text(text)
    return str(path)


def planned(**how: Any) -> str:
    """The record that a dry run gives."""
    torch._dynamo.reset()
    with aot_cache.offload(**BASE, **how, dry_run=True) as block:
        step(chain, inputs())
    return fixed(block.plans[0].text)


CHANGES: dict[str, Callable[[], tuple[Callable[..., Tensor], dict[str, Any] | None]]] = {
    "none": lambda: (chain, None),
    "base": lambda: (chain, BASE),
    "budget": lambda: (chain, {**BASE, "budget": "99MB"}),
    "tight": lambda: (chain, {**BASE, "budget": "2MB", "inflight": "1MB"}),
    "inflight": lambda: (chain, {**BASE, "inflight": "1MB"}),
    "far limit": lambda: (chain, {**BASE, "far_limit": "10MB"}),
    "far disk": lambda: (chain, {**BASE, "far": "disk"}),
    "link": lambda: (chain, {**BASE, "link": (1e9, 2e9)}),
    "latency": lambda: (chain, {**BASE, "link": (1e9, 1e9, 1e-5)}),
    "probed": lambda: (chain, {**BASE, "link": None}),
    "policy first": lambda: (chain, {**BASE, "policy": move_first}),
    "policy second": lambda: (chain, {**BASE, "policy": move_second}),
    "policy never": lambda: (chain, {**BASE, "policy": keep_all}),
    "policy global": lambda: (chain, {**BASE, "policy": with_a_global("prefer")}),
    "policy other global": lambda: (chain, {**BASE, "policy": with_a_global("never")}),
    "marked first": lambda: (marked(1, "must"), BASE),
    "marked second": lambda: (marked(2, "must"), BASE),
    "preferred first": lambda: (marked(1, "prefer"), BASE),
    "never first": lambda: (marked(1, "never"), BASE),
    "plan of first": lambda: (chain, {"plan": planned(policy=move_first)}),
    "plan of second": lambda: (chain, {"plan": planned(policy=move_second)}),
}


def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(SIZE, SIZE, requires_grad=True) for _ in range(4)]


def step(model: Callable[..., Tensor], given: list[Tensor]) -> list[Tensor | None]:
    output = torch.compile(model)(*given)
    output.backward(torch.ones_like(output))
    return [output.detach(), *(tensor.grad for tensor in given)]


def run(name: str) -> dict[str, Any]:
    model, how = CHANGES[name]()
    torch._dynamo.reset()
    before, generated = aot_cache.stats(), count_code_generation()
    given, started = inputs(), generated()
    with aot_cache.offload(**how) if how is not None else nullcontext() as block:
        values = step(model, given)
    counts = {key: value - before[key] for key, value in aot_cache.stats().items()}
    rows = [row.storage for plan in block.plans for row in plan.schedule.rows] if block else []
    return {"values": digest(values), "rows": rows, "generated": generated() - started, **counts}


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    aot_cache.enable()
    found = {name: run(name) for name in names or CHANGES}
    keys = {event.key for event in aot_cache.events() if event.kind == "graph" and event.key}
    said = [str(event) for event in aot_cache.events() if type(event).__name__ not in ("Hit", "Miss")]
    light = "torch._inductor.lowering" not in sys.modules
    print(json.dumps({"changes": found, "keys": len(keys), "said": said, "light": light}))


if __name__ == "__main__":
    main(sys.argv[1:])
