"""Small programs that compile, one for each thing an entry must bring back. Run as `programs.py NAME...`, prints JSON.

For each program: a digest of all outputs, mutated inputs and gradients; what the cache counted; how often Inductor
generated code.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PROGRAMS: dict[str, Callable[[], Iterator[Any]]] = {}


def program(function: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    """A program yields every value that must be the same in every process."""
    PROGRAMS[function.__name__] = function
    return function


def grads(*tensors: Tensor) -> list[Tensor | None]:
    return [tensor.grad for tensor in tensors]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.norm(self.first(x))))


def digest(values: Any) -> str:
    """All tensors in nested values, bit by bit."""
    parts = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, Tensor):
            flat = value.detach().resolve_conj().contiguous()
            parts.update(f"{tuple(value.shape)} {value.dtype} {value.requires_grad};".encode())
            parts.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, (list, tuple)):
            parts.update(f"{len(value)}[".encode())
            for item in value:
                feed(item)
        else:
            parts.update(repr(value).encode())

    feed(values)
    return parts.hexdigest()[:16]


def count_code_generation() -> Callable[[], int]:
    """How often Inductor lowered a graph so far, by torch's own timers: a patch to count would be part of the key."""
    from torch._dynamo.utils import compilation_time_metrics

    return lambda: len(compilation_time_metrics.get("GraphLowering.run", ()))


def count_traced_frames() -> Callable[[], int]:
    """How many frames Dynamo traced so far, by torch's own timers."""
    from torch._dynamo.utils import compilation_time_metrics

    return lambda: len(compilation_time_metrics.get("_compile.compile_inner", ()))


def main(names: list[str]) -> None:
    import programs_shape  # noqa: F401
    import programs_state  # noqa: F401

    import aot_cache

    torch.set_num_threads(1)  # sums over threads are not reproducible, with or without a cache
    generated = count_code_generation()
    results = {}
    for name in names or PROGRAMS:
        torch.manual_seed(0)
        torch._dynamo.reset()
        before, code = aot_cache.stats(), generated()
        values = list(PROGRAMS[name]())
        counts = {key: value - before[key] for key, value in aot_cache.stats().items()}
        results[name] = {"values": digest(values), "generated": generated() - code, **counts}
    reasons = [f"{type(e).__name__} {e}" for e in aot_cache.events() if type(e).__name__ not in ("Hit", "Miss")]
    print(json.dumps({"programs": results, "reasons": reasons}))


if __name__ == "__main__":
    sys.modules["programs"] = sys.modules["__main__"]  # the programs register here
    main(sys.argv[1:])
