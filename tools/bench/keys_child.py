"""The child of the benchmark `keys`: `keys_child.py NODES` keys a synthetic graph, `keys_child.py gpt2` times one start.

Prints JSON last.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

# Modules beside this file must not be found instead of others of the same name.
HERE = sys.path.pop(0)

import torch  # noqa: E402

import aot_cache  # noqa: E402

REPEATS = 7
NODES_A_BLOCK = 11


class Blocks(torch.nn.Module):
    """Like a transformer in its mix of calls, methods, operators and parameters; each block has NODES_A_BLOCK nodes."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.randn(8, 8) for _ in range(count))
        self.biases = torch.nn.ParameterList(torch.randn(8) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight, bias in zip(self.weights, self.biases):
            y = torch.nn.functional.layer_norm(x, (8,), eps=1e-5)
            y = torch.nn.functional.linear(y, weight, bias)
            y = y.view(4, 2, 4, 2).transpose(1, 2)
            y = torch.nn.functional.gelu(y, approximate="tanh") * 0.5
            x = x + y.transpose(1, 2).reshape(8, 8)
        return x


class Measured(BaseException):
    """Ends the compile after its key; not an Exception, so that the cache does not hide it."""


def key(nodes: int) -> dict[str, Any]:
    """Seconds for the key of a graph that Dynamo captured, the first time in this process and again."""
    found: dict[str, Any] = {}

    def measure(build: Callable[..., Any], request: Any, symbols: Any) -> Any:
        seconds, digests = [], set()
        for _ in range(1 + REPEATS):
            started = time.perf_counter()
            digests.add(build(request, symbols).digest)
            seconds.append(time.perf_counter() - started)
        assert len(digests) == 1, "the key is not the same each time"
        found.update(nodes=len(request.graph.graph.nodes), inputs=len(request.inputs))
        found.update(first=seconds[0], again=statistics.median(seconds[1:]), parts=_parts(request, symbols))
        raise Measured

    _around_key(measure)
    try:
        torch.compile(Blocks(max(1, round(nodes / NODES_A_BLOCK))))(torch.randn(8, 8))
    except Measured:
        return found
    raise RuntimeError("no key was built")


def start(model: str) -> dict[str, Any]:
    """As the benchmark `start`, with the seconds of it that all keys took."""
    sys.path.append(HERE)
    import start_child

    seconds: list[float] = []

    def measure(build: Callable[..., Any], request: Any, symbols: Any) -> Any:
        started = time.perf_counter()
        try:
            return build(request, symbols)
        finally:
            seconds.append(time.perf_counter() - started)

    torch.manual_seed(0)
    module, inputs = start_child.MODELS[model]()
    module.train()
    started = time.perf_counter()
    _around_key(measure)
    torch.compile(module)(**inputs)[0].backward()
    return {"seconds": time.perf_counter() - started, "keys": seconds, "counts": aot_cache.stats()}


def _around_key(measure: Callable[..., Any]) -> None:
    from aot_cache.hook import graphs

    build = graphs.graph_key
    graphs.graph_key = lambda request, symbols: measure(build, request, symbols)
    aot_cache.enable()


def _parts(request: Any, symbols: Any) -> dict[str, float]:
    """Median seconds of the parts of a key that grow with the graph."""
    from aot_cache.key import build

    def seconds(part: Callable[[], Any]) -> float:
        found = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            part()
            found.append(time.perf_counter() - started)
        return statistics.median(found)

    return {
        "graph": seconds(lambda: build.graph_part(request.graph, symbols, build.identify)),
        "inputs": seconds(lambda: build.inputs_part(request.inputs, symbols, build.identify)),
    }


if __name__ == "__main__":
    what = sys.argv[1]
    print(json.dumps(key(int(what)) if what.isdecimal() else start(what)))
